#!/usr/bin/env python3
"""Runs ours and PyTorch's alternately, in one go, and prints the ratio of their medians (below 1: ours is faster).

    python3 benches/against_pytorch.py --peer DIR [--python PYTHON] [--lab target/release/adapter-lab] [--rounds 3]
                                       [--only step,epoch,inference] [--device flex]
                                       [--backbone minilm-l6 --weights DIR --data-dir DIR]

DIR holds the peer's scripts: step.py, train.py and infer.py, each a few lines on torch 2.9.0 and adapters 1.3.0, which
PYTHON must have. `--weights` is the folder of the same backbone for PyTorch; `--data-dir` holds glue_data/. Attention is
taken from whichever of PyTorch's two ways, eager or sdpa, is faster. Both sides use two threads.
"""

import argparse
import json
import os
import re
import statistics
import subprocess

STEPS = {
    # name: layers, hidden, heads, adapter size, batch, length, tuning
    "6 layers, d = 384, batch 32 x 128": (6, 384, 12, 64, 32, 128, "adapters"),
    "6 layers, d = 384, batch 32 x 16": (6, 384, 12, 64, 32, 16, "adapters"),
    "12 layers, d = 768, batch 16 x 128": (12, 768, 12, 64, 16, 128, "adapters"),
    "full fine-tuning, 6 layers, d = 384, batch 32 x 128": (6, 384, 12, 64, 32, 128, "full"),
}

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--peer", required=True)
parser.add_argument("--python", default="python3")
parser.add_argument("--lab", default="target/release/adapter-lab")
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--only", default="step,epoch,inference")
parser.add_argument("--device", default="flex", help="where ours computes")
parser.add_argument("--backbone", default="minilm-l6")
parser.add_argument("--weights")
parser.add_argument("--data-dir")
args = parser.parse_args()
threads = {**os.environ, "RAYON_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}


def run(command):
    """Standard output of a command, and the most memory it took, in bytes."""
    timed = ["/usr/bin/time", "-f", "%M", *map(str, command)]
    done = subprocess.run(timed, env=threads, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout, 1024 * int(done.stderr.split()[-1])


def ours(*arguments):
    output, memory = run([args.lab, "bench", *arguments, "--device", args.device, "--json"])
    return json.loads(output)["median_s"], memory


def peer(script, *arguments, pattern):
    output, memory = run([args.python, os.path.join(args.peer, script), *arguments])
    return float(re.findall(pattern, output)[-1]), memory


def compare(name, us, *them):
    """Alternates, and prints what came out."""
    mine, theirs = [], [[] for _ in them]
    for _ in range(args.rounds):
        mine.append(us())
        for times, one in zip(theirs, them):
            times.append(one())
    median = lambda pairs, part: statistics.median(pair[part] for pair in pairs)
    fastest = min(theirs, key=lambda times: median(times, 0))
    print(json.dumps({
        "what": name,
        "ratio": round(median(mine, 0) / median(fastest, 0), 3),
        "ours_seconds": round(median(mine, 0), 4),
        "pytorch_seconds": round(median(fastest, 0), 4),
        "memory_ratio": round(median(mine, 1) / median(fastest, 1), 3),
        "rounds": args.rounds,
    }), flush=True)


if "step" in args.only:
    for name, (layers, hidden, heads, size, batch, length, tuning) in STEPS.items():
        shape = ["--layers", layers, "--hidden", hidden, "--heads", heads, "--batch", batch, "--seq", length]
        numbers = [layers, hidden, heads, size, batch, length]
        def torch(attention, numbers=numbers, tuning=tuning):
            return lambda: peer("step.py", *numbers, 6, tuning, attention, pattern=r"median ([\d.]+)")
        us = lambda shape=shape, tuning=tuning, size=size: ours(
            "step", *shape, "--tuning", tuning, "--adapter-size", size, "--repeats", 5)
        compare(f"step: {name}", us, torch("eager"), torch("sdpa"))

real = ["--backbone", args.backbone, "--task", "cola", "--data-dir", args.data_dir]
glue = ["--weights", args.weights, "--glue", os.path.join(args.data_dir or "", "glue_data")]
if "epoch" in args.only:
    for padding in ["dynamic", "128"]:
        them = lambda: peer("train.py", "CoLA", "adapters", "3e-4", 1, 0, *glue, "--pad", padding,
                            pattern=r'"epoch_s": ([\d.]+)')
        compare(f"epoch: CoLA, padding {padding}", lambda: ours("epoch", *real, "--repeats", 1), them)
if "inference" in args.only:
    them = lambda: peer("infer.py", "CoLA", *glue, pattern=r"median ([\d.]+)")
    compare("inference: CoLA dev, batch 64", lambda: ours("inference", *real), them)
