"""Makes the golden values of tests/metrics.rs with scikit-learn, scipy, transformers and torchmetrics.

    pip install scikit-learn==1.9.1 scipy==1.17.1 torchmetrics==1.9.0 torch==2.9.0 transformers==4.57.6
    python make_metrics.py > metrics.json

220 random cases of each kind and every degenerate one. Undefined values (nan) are 0, as in the GLUE evaluation.
"""

import json
import math
import random
import warnings

import torch
from scipy import stats
from sklearn import metrics
from torchmetrics.functional.classification import multiclass_confusion_matrix
from torchmetrics.functional.text import squad
from transformers.data.metrics.squad_metrics import compute_exact, compute_f1

warnings.simplefilter("ignore")
rng = random.Random(0)


def defined(value):
    value = float(value)
    return 0.0 if math.isnan(value) else value


def classification(predicted, gold, classes):
    matrix = multiclass_confusion_matrix(torch.tensor(predicted), torch.tensor(gold), num_classes=classes)
    return {
        "predicted": predicted,
        "gold": gold,
        "classes": classes,
        "accuracy": metrics.accuracy_score(gold, predicted),
        "f1": metrics.f1_score(gold, predicted, labels=[1], average="macro", zero_division=0),
        "macro_f1": metrics.f1_score(gold, predicted, average="macro", zero_division=0),
        "matthews": defined(metrics.matthews_corrcoef(gold, predicted)),
        "confusion": matrix.tolist(),
    }


def correlation(a, b):
    return {"a": a, "b": b, "pearson": defined(stats.pearsonr(a, b)[0]), "spearman": defined(stats.spearmanr(a, b)[0])}


def answer(prediction, golds):
    scores = squad(
        {"prediction_text": prediction, "id": "0"},
        {"answers": {"answer_start": [0] * len(golds), "text": golds}, "id": "0"},
    )
    exact, f1 = scores["exact_match"].item() / 100, scores["f1"].item() / 100
    # Two independent implementations of the official evaluation must agree.
    assert exact == max(compute_exact(g, prediction) for g in golds), (prediction, golds)
    assert math.isclose(f1, max(compute_f1(g, prediction) for g in golds), abs_tol=1e-6), (prediction, golds)
    return {"prediction": prediction, "golds": golds, "exact_match": exact, "f1": f1}


classes = []
for case in range(220):
    k = rng.choice([2, 2, 2, 3, 5, 9])
    n = rng.randint(1, 40)
    gold = [rng.randrange(k) for _ in range(n)]
    predicted = [g if rng.random() < rng.random() else rng.randrange(k) for g in gold]
    classes.append(classification(predicted, gold, k))
for predicted, gold, k in [
    ([0, 0, 0], [0, 0, 0], 2), ([1, 1, 1], [1, 1, 1], 2), ([0, 0, 0], [1, 1, 1], 2), ([1, 1, 1], [0, 0, 0], 2),
    ([0, 0, 0, 0], [0, 1, 0, 1], 2), ([1, 1, 1, 1], [0, 1, 0, 1], 2), ([0, 1, 0, 1], [0, 0, 0, 0], 2),
    ([0, 1, 0, 1], [1, 1, 1, 1], 2), ([0], [0], 2), ([1], [0], 2), ([2, 2, 2], [0, 1, 2], 3), ([0, 1], [1, 0], 2),
]:
    classes.append(classification(predicted, gold, k))

correlations = []
for case in range(220):
    n = rng.randint(2, 40)
    ties = rng.random() < 0.5
    draw = (lambda: float(rng.randint(0, 5))) if ties else (lambda: rng.uniform(-5, 5))
    a = [draw() for _ in range(n)]
    b = [x * rng.choice([-1, 1]) + rng.gauss(0, 1) if rng.random() < 0.7 else draw() for x in a]
    correlations.append(correlation(a, b))
for a, b in [
    ([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]), ([1.0, 2.0, 3.0], [2.0, 2.0, 2.0]), ([1.0, 1.0], [2.0, 2.0]),
    ([1.0, 2.0], [1.0, 2.0]), ([1.0, 2.0], [2.0, 1.0]), ([0.1, 0.1, 0.3], [5.0, 5.0, 5.0]),
    ([1e-9, 2e-9, 3e-9], [1e9, 3e9, 2e9]), ([1.0, 1.0, 2.0, 2.0], [1.0, 2.0, 1.0, 2.0]),
]:
    correlations.append(correlation(a, b))

answers = [
    answer(prediction, golds)
    for prediction, golds in [
        ("Denver Broncos", ["Denver Broncos", "Denver Broncos", "Broncos"]),
        ("the Denver Broncos", ["Denver Broncos"]),
        ("Denver", ["Denver Broncos"]),
        ("DENVER BRONCOS!", ["denver broncos"]),
        ("An apple a day", ["apple day"]),
        ("theatre", ["theatre", "atre"]),
        ("a", ["the"]),
        ("1,000", ["1000"]),
        ("24–10", ["24-10"]),
        ("24-10", ["2410"]),
        ("café", ["cafe", "Café"]),
        ("ÉCOLE", ["école"]),
        ("“quoted”", ["quoted"]),
        ("\"quoted\"", ["quoted"]),
        ("  many   spaces\there ", ["many spaces here"]),
        ("non\u00a0breaking", ["non breaking"]),
        ("cat cat dog", ["cat dog dog"]),
        ("one two three four", ["three four five", "one two", "six"]),
        ("nothing", ["something else"]),
        ("東京", ["東京", "京都"]),
        ("don't", ["dont"]),
        ("U.S.A.", ["USA", "United States"]),
        ("in the year of the dragon", ["year of dragon"]),
        ("$3.5 million", ["3.5 million", "$3.5 million dollars"]),
        ("anthem", ["an them"]),
        ("", [""]),
        ("", ["something"]),
        ("something", [""]),
    ]
]

print(json.dumps({"classification": classes, "correlation": correlations, "answers": answers}))
