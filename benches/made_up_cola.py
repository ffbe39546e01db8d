#!/usr/bin/env python3
"""Writes sentences without sense in place of CoLA: as many, and with as many word pieces each.

    python3 benches/made_up_cola.py DIR      # glue_data/CoLA/train.tsv and dev.tsv in DIR

How fast a network reads and learns does not depend on what a text says. Scores on these sentences mean nothing.
"""

import os
import random
import sys

# Words that are one piece each in BERT's vocabulary.
WORDS = """the a an this that he she it they we you who john mary man woman child book house car door letter table garden
river city story idea picture dog cat friend teacher student is was has had will can may must saw read wrote gave took made
said thought knew found left kept broke opened closed loved wanted seemed went came to of in on at by for with from about
under over and but or if because when while not never very quite often soon here there old new big small red green happy
sad long short""".split()

# The sentences of CoLA by their word pieces, [CLS] and [SEP] included: {pieces: sentences}.
LENGTHS = {
    "train": {4: 7, 5: 129, 6: 310, 7: 649, 8: 979, 9: 1154, 10: 1129, 11: 916, 12: 797, 13: 574, 14: 452, 15: 334, 16: 235,
              17: 182, 18: 145, 19: 125, 20: 96, 21: 66, 22: 67, 23: 66, 24: 41, 25: 26, 26: 21, 27: 17, 28: 6, 29: 8, 30: 6,
              31: 1, 32: 8, 33: 1, 35: 1, 37: 1, 40: 1, 47: 1},
    "dev": {5: 19, 6: 55, 7: 78, 8: 108, 9: 136, 10: 133, 11: 99, 12: 84, 13: 65, 14: 47, 15: 42, 16: 34, 17: 27, 18: 17,
            19: 25, 20: 19, 21: 8, 22: 11, 23: 9, 24: 4, 25: 2, 27: 4, 28: 3, 29: 6, 30: 1, 31: 1, 32: 1, 33: 3, 35: 2},
}


def write(folder):
    """Writes both files below `folder`, always the same."""
    chance = random.Random(0)
    target = os.path.join(folder, "glue_data", "CoLA")
    os.makedirs(target, exist_ok=True)
    for split, lengths in LENGTHS.items():
        pieces = [length for length, count in lengths.items() for _ in range(count)]
        chance.shuffle(pieces)
        # A file that is there may be the real one.
        with open(os.path.join(target, f"{split}.tsv"), "x", encoding="utf-8") as file:
            for length in pieces:
                sentence = " ".join(chance.choices(WORDS, k=length - 2))
                file.write(f"made\t{chance.randrange(2)}\t\t{sentence}\n")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        raise SystemExit(__doc__)
    try:
        write(sys.argv[1])
    except FileExistsError as error:
        raise SystemExit(error)
