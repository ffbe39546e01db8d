"""What every measurement takes and prints."""

import json
import statistics

import torch


def add_options(parser):
    """Options of every measurement."""
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)


def begin(options):
    """Sets threads and seed."""
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)


def report(bench, options, seconds, **details):
    """Prints one JSON document, with the names that `adapter-lab bench` uses."""
    print(json.dumps({
        "bench": bench,
        **vars(options),
        **details,
        "torch": torch.__version__,
        "median_s": statistics.median(seconds),
        "best_s": min(seconds),
        "seconds": sorted(seconds),
    }))
