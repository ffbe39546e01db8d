"""Passes over a task's validation texts with untrained adapters, batches at hand. As `adapter-lab bench inference`."""

import argparse
import time

import torch

import measure
import model
import texts

parser = argparse.ArgumentParser(description=__doc__)
texts.add_options(parser, batch=64)
parser.add_argument("--repeats", type=int, default=5, help="measurements; the median is given")
model.add_options(parser)
measure.add_options(parser)
options = parser.parse_args()
measure.begin(options)

validation = texts.load(options, "dev")
network = model.pretrained(options.backbone, options).eval()
rows = torch.arange(len(validation)).split(options.batch)
batches = [validation.batch(some.tolist(), options.padding)[0] for some in rows]


@torch.inference_mode()
def read_all():
    started = time.perf_counter()
    for inputs in batches:
        network(**inputs).logits.numpy()
    return time.perf_counter() - started


seconds = [read_all() for _ in range(options.repeats)]
measure.report("inference", options, seconds, trained=model.count(model.trained(network)), examples=len(validation),
               tokens=validation.tokens())
