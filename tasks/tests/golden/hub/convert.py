"""Turns the official GLUE and SQuAD files of a folder into what the Hugging Face hub has: Parquet, columns and classes as there.

    python convert.py DATA OUT        # DATA/glue_data, DATA/squad  →  OUT/OWNER/NAME/CONFIG/PART-00000-of-00001.parquet

Needs pyarrow (26.0.1). `make.py` uses it on a few made-up rows.
"""

import csv
import json
import pathlib
import sys

import pyarrow as pa
import pyarrow.parquet as pq

ENTAILMENT = ["entailment", "not_entailment"]
MNLI = ["entailment", "neutral", "contradiction"]
PARTS = {"train": "train", "dev": "validation", "test": "test"}
MNLI_PARTS = {
    "train": "train",
    "dev_matched": "validation_matched",
    "dev_mismatched": "validation_mismatched",
    "test_matched": "test_matched",
    "test_mismatched": "test_mismatched",
}
PAIR = {"sentence1": "sentence1", "sentence2": "sentence2"}

# Configuration: folder, the hub's text columns and the official ones, the official label, the hub's classes, the files.
GLUE = {
    "cola": ("CoLA", {"sentence": "sentence"}, "label", ["unacceptable", "acceptable"], PARTS),
    "sst2": ("SST-2", {"sentence": "sentence"}, "label", ["negative", "positive"], PARTS),
    "mrpc": ("MRPC", {"sentence1": "#1 String", "sentence2": "#2 String"}, "Quality", ["not_equivalent", "equivalent"], PARTS),
    "stsb": ("STS-B", PAIR, "score", None, PARTS),
    "qqp": ("QQP", {"question1": "question1", "question2": "question2"}, "is_duplicate", ["not_duplicate", "duplicate"], PARTS),
    "mnli": ("MNLI", {"premise": "sentence1", "hypothesis": "sentence2"}, "gold_label", MNLI, MNLI_PARTS),
    "qnli": ("QNLI", {"question": "question", "sentence": "sentence"}, "label", ENTAILMENT, PARTS),
    "rte": ("RTE", PAIR, "label", ENTAILMENT, PARTS),
    "wnli": ("WNLI", PAIR, "label", ["not_entailment", "entailment"], PARTS),
    "ax": ("diagnostic", {"premise": "sentence1", "hypothesis": "sentence2"}, "label", MNLI, {"diagnostic": "test"}),
}


def write(path, columns, classes=None, row_group_size=None):
    """Writes a table as `datasets` does: snappy, and the features in the schema's metadata."""
    features = {name: {"dtype": str(column.type), "_type": "Value"} for name, column in columns.items()}
    for name, names in (classes or {}).items():
        features[name] = {"names": names, "_type": "ClassLabel"}
    table = pa.table(columns).replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=row_group_size)


def rows(path, columns):
    """The numbered rows of an unquoted table; one that lacks cells is left out, and its number with it."""
    with open(path, encoding="utf-8-sig", newline="\n") as file:
        reader = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        columns = columns or next(reader)
        for number, row in enumerate(row for row in reader if row):
            if len(row) == len(columns):
                yield number, dict(zip(columns, row))


def glue(data, out, row_group_size=None):
    for config, (folder, texts, label, classes, parts) in GLUE.items():
        counted = 0
        for official, part in parts.items():
            path = data / "glue_data" / folder / f"{official}.tsv"
            if not path.is_file():
                continue
            test = part.startswith("test")
            no_header = ["source", "label", "mark", "sentence"] if config == "cola" and not test else None
            found = list(rows(path, no_header))
            if classes is None:
                labels = pa.array([-1.0 if test else float(row[label]) for _, row in found], pa.float32())
            else:
                number = lambda name: int(name) if name.isdigit() else classes.index(name)
                labels = pa.array([-1 if test else number(row[label]) for _, row in found], pa.int64())
            columns = {name: pa.array([row[theirs] for _, row in found], pa.string()) for name, theirs in texts.items()}
            # The hub numbers MRPC's training and validation rows together.
            shift = counted if config == "mrpc" and not test else 0
            columns |= {"label": labels, "idx": pa.array([shift + number for number, _ in found], pa.int32())}
            counted += len(found)
            file = out / "nyu-mll/glue" / config / f"{part}-00000-of-00001.parquet"
            write(file, columns, {"label": classes} if classes else None, row_group_size)


def squad(data, out, row_group_size=None):
    for version, repository in {"v1.1": "rajpurkar/squad/plain_text", "v2.0": "rajpurkar/squad_v2/squad_v2"}.items():
        for official, part in {"train": "train", "dev": "validation"}.items():
            path = data / "squad" / f"{official}-{version}.json"
            if not path.is_file():
                continue
            articles = json.loads(path.read_text(encoding="utf-8"))["data"]
            found = [
                {"id": qa["id"], "title": article["title"], "context": paragraph["context"], "question": qa["question"], "answers": qa["answers"]}
                for article in articles for paragraph in article["paragraphs"] for qa in paragraph["qas"]
            ]
            columns = {name: pa.array([row[name] for row in found], pa.string()) for name in ["id", "title", "context", "question"]}
            columns["answers"] = pa.array(
                [{key: [answer[key] for answer in row["answers"]] for key in ["text", "answer_start"]} for row in found],
                pa.struct([("text", pa.list_(pa.string())), ("answer_start", pa.list_(pa.int32()))]),
            )
            write(out / repository / f"{part}-00000-of-00001.parquet", columns, row_group_size=row_group_size)


if __name__ == "__main__":
    data, out = map(pathlib.Path, sys.argv[1:])
    glue(data, out)
    squad(data, out)
