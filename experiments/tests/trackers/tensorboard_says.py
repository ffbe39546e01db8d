"""Reads a run's event files with TensorBoard's own reader, and prints what it sees as JSON."""

import json
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()


def hparams(tag):
    content = events.SummaryMetadata(f"_hparams_/{tag}").plugin_data.content
    return plugin_data_pb2.HParamsPluginData.FromString(content)


def value(of):
    return getattr(of, of.WhichOneof("kind"))


start = hparams("session_start_info").session_start_info
end = hparams("session_end_info").session_end_info
scalars = {tag: [[event.step, event.value] for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
print(json.dumps({
    "scalars": scalars,
    "hparams": {key: value(of) for key, of in start.hparams.items()},
    "succeeded": end.status == 1,
}))
