"""One training step: forward, loss, backward and Adam, on a network with random weights. As `adapter-lab bench step`."""

import argparse
import time

import torch
from torch.nn.functional import cross_entropy
from transformers import BertConfig

import measure
import model

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--layers", type=int, default=6)
parser.add_argument("--hidden", type=int, default=384)
parser.add_argument("--heads", type=int, default=12)
parser.add_argument("--batch", type=int, default=32, help="sequences of a step")
parser.add_argument("--seq", type=int, default=128, help="tokens of a sequence")
parser.add_argument("--repeats", type=int, default=5, help="measurements; the median is given")
model.add_options(parser)
measure.add_options(parser)
options = parser.parse_args()
measure.begin(options)

config = BertConfig(
    hidden_size=options.hidden,
    num_hidden_layers=options.layers,
    num_attention_heads=options.heads,
    intermediate_size=4 * options.hidden,
)
network = model.random(config, options).train()
trained = model.trained(network)
adam = torch.optim.Adam(trained, lr=1e-4)
inputs = {
    "input_ids": torch.randint(config.vocab_size, (options.batch, options.seq)),
    "attention_mask": torch.ones(options.batch, options.seq, dtype=torch.long),
}
classes = torch.zeros(options.batch, dtype=torch.long)


def step():
    started = time.perf_counter()
    cross_entropy(network(**inputs).logits, classes).backward()
    adam.step()
    adam.zero_grad()
    return time.perf_counter() - started


step()  # Makes gradients and Adam's memory.
seconds = [step() for _ in range(options.repeats)]
measure.report("step", options, seconds, trained=model.count(trained), dropout=config.hidden_dropout_prob)
