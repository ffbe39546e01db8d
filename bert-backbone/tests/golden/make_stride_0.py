"""Makes stride_0.bin: a tensor of 6.4 GB that is one value, by steps of nothing. `python make_stride_0.py`, with torch 2.9."""

from pathlib import Path

import torch

name = "bert.embeddings.word_embeddings.weight"
torch.save({name: torch.zeros(1).expand(40_000, 40_000)}, Path(__file__).parent / "stride_0.bin")
