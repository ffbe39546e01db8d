"""Texts of GLUE as word pieces, and batches of them."""

import os
from dataclasses import dataclass

import torch
from transformers import AutoTokenizer

MAX_LENGTH = 128

# Folder; columns of the texts and of the label; whether train.tsv and dev.tsv have a header.
TASKS = {
    "cola": ("CoLA", [3], 1, False),
    "mrpc": ("MRPC", [3, 4], 0, True),
    "rte": ("RTE", [1, 2], 3, True),
}


@dataclass
class Texts:
    """A split of a task: what the tokenizer makes of each text, without padding, and the texts' classes."""

    encoded: list
    classes: list
    padding_id: int

    def __len__(self):
        return len(self.encoded)

    def tokens(self):
        """The number of word pieces."""
        return sum(len(text.ids) for text in self.encoded)

    def batch(self, rows, padding):
        """The model's input for some of the texts, padded to the longest of them or to 128, and their classes."""
        chosen = [self.encoded[row] for row in rows]
        width = MAX_LENGTH if padding == "128" else max(len(text.ids) for text in chosen)

        def padded(lists, filler):
            return torch.tensor([values + [filler] * (width - len(values)) for values in lists])

        inputs = {
            "input_ids": padded([text.ids for text in chosen], self.padding_id),
            "token_type_ids": padded([text.type_ids for text in chosen], 0),
            "attention_mask": padded([text.attention_mask for text in chosen], 0),
        }
        return inputs, torch.tensor([self.classes[row] for row in rows])


def add_options(parser, batch):
    """Options that name a backbone and a task."""
    parser.add_argument("--backbone", required=True, metavar="FOLDER", help="a folder in Hugging Face layout")
    parser.add_argument("--task", choices=sorted(TASKS), default="cola")
    parser.add_argument("--data-dir", required=True, metavar="DIR", help="the folder with glue_data/")
    parser.add_argument("--batch", type=int, default=batch, help="texts of a step")
    parser.add_argument("--padding", choices=["dynamic", "128"], default="dynamic")


def load(options, split):
    """The texts of a split, `train` or `dev`."""
    folder, columns, label, header = TASKS[options.task]
    path = os.path.join(options.data_dir, "glue_data", folder, f"{split}.tsv")
    with open(path, encoding="utf-8-sig", newline="\n") as file:
        rows = [line.rstrip("\r\n").split("\t") for line in file][header:]
    tokenizer = AutoTokenizer.from_pretrained(options.backbone, use_fast=True)
    texts = [[row[column] for row in rows] for column in columns]
    encoded = tokenizer(*texts, truncation=True, max_length=MAX_LENGTH).encodings
    classes = [int(row[label] in ("1", "not_entailment")) for row in rows]
    return Texts(encoded, classes, tokenizer.pad_token_id)
