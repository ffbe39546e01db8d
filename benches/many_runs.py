"""Makes a folder of very many runs: records of finished runs, repeated with other seeds, in ten experiments.

    python3 benches/many_runs.py RUNS NUMBER OUT
    adapter-lab runs list --runs OUT
    adapter-lab report --runs OUT --out page

For measuring how long commands take. The ids are made up: nothing but `runs list` and `report` takes such records for runs.
"""

import hashlib
import json
import random
import sys
from pathlib import Path

runs, number, out = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
records = [json.loads(path.read_text()) for path in sorted(runs.glob("*/record.json"))]
records = [record for record in records if record["method"]["name"] in ("adapters", "full", "top-k")]
(out / "experiments").mkdir(parents=True)
random.seed(0)
ids = [hashlib.sha256(str(seed).encode()).hexdigest()[:16] for seed in range(number)]
for seed, run in enumerate(ids):
    record = dict(random.choice(records))
    record["id"], record["config"] = run, {**record["config"], "seed": seed}
    (out / run).mkdir()
    (out / run / "record.json").write_text(json.dumps(record, indent=2))
for part in range(10):
    own = ids[part * number // 10 : (part + 1) * number // 10]
    experiment = {
        "schema": 2, "name": f"own{part}", "preset": False, "about": "made up", "kind": "train", "scale": "quick",
        "backbones": {"nano": ""}, "planned": len(own), "runs": own, "streams": [], "failed": [], "missing": [], "overrides": {},
    }
    (out / "experiments" / f"own{part}.json").write_text(json.dumps(experiment))
