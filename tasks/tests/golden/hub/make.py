"""Makes `hub/` of the made-up examples in `official/`, and two small datasets of nobody's. Needs pyarrow (made with 26.0.1):

    python make.py
"""

import pathlib

import pyarrow as pa

from convert import glue, squad, write

HERE = pathlib.Path(__file__).parent
HUB = HERE / "hub"

# Several groups of rows even in a small file.
glue(HERE / "official", HUB, row_group_size=3)
squad(HERE / "official", HUB, row_group_size=2)

# Classes by number with their names, two files of a part, examples that keep their labels to themselves.
STARS = {"label": ["bad", "good"]}
REVIEWS = {
    "train-00000-of-00002": (["Never again", "I would buy it"], [0, 1]),
    "train-00001-of-00002": (["It broke", "Lovely", "?"], [0, 1, -1]),
    "validation-00000-of-00001": (["Good", "Bad"], [1, 0]),
    "test-00000-of-00001": (["What?"], [-1]),
}
for name, (texts, labels) in REVIEWS.items():
    write(HUB / f"someone/reviews/data/{name}.parquet", {"text": pa.array(texts), "label": pa.array(labels)}, STARS)

# Several configurations; classes by name, lists, numbers that are missing.
for config in ["en", "de"]:
    columns = {
        "text": pa.array(["one", "two"] * 10),
        "label": pa.array(["a", "b"] * 10),
        "tags": pa.array([["x", "y"], []] * 10),
        "stars": pa.array([4.5, None] * 10),
    }
    write(HUB / f"someone/many/{config}/train-00000-of-00001.parquet", columns)
