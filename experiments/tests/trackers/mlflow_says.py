"""Asks a tracking server for a run with MLflow's own client, and prints what it says as JSON."""

import json
import sys
import tempfile
from pathlib import Path

from mlflow import MlflowClient

uri, run_id = sys.argv[1].rsplit("/", 1)
client = MlflowClient(uri)
experiment = client.get_experiment_by_name("adapter-lab")
runs = client.search_runs([experiment.experiment_id], f"tags.`adapter_lab.run` = '{run_id}'")
(run,) = runs
history = {key: client.get_metric_history(run.info.run_id, key) for key in run.data.metrics}
with tempfile.TemporaryDirectory() as folder:
    place = Path(client.download_artifacts(run.info.run_id, "", folder))
    files = {path.name: path.read_bytes().hex() for path in place.iterdir()}
print(json.dumps({
    "scalars": {key: sorted([metric.step, metric.value] for metric in metrics) for key, metrics in history.items()},
    "hparams": run.data.params,
    "succeeded": run.info.status == "FINISHED",
    "files": files,
}))
