"""Scores of TF-IDF and logistic regression (scikit-learn) on three of the additional tasks, divided as this program divides them:
what the search without BERT is held against. Writes `tfidf.json`. Needs scikit-learn (made with 1.9):

    python make_tfidf.py DATA            # DATA/additional/sms_spam/…, as docs/data.md says
"""

import csv
import json
import pathlib
import sys
import tarfile

import sklearn
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

MASK = (1 << 64) - 1


def splitmix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def mix(parts):
    state = 0
    for part in parts:
        state = splitmix(state ^ splitmix(part))
    return state


def divided(rows):
    """`tasks::shuffle::split` with seed 0."""
    order = list(range(len(rows)))
    for i in range(len(rows) - 1, 0, -1):
        j = mix([0, 0, 0, i]) % (i + 1)
        order[i], order[j] = order[j], order[i]
    rows = [rows[i] for i in order]
    train = len(rows) * 8 // 10
    validation = (len(rows) - train) // 2
    return rows[:train], rows[train : train + validation], rows[train + validation :]


def sms(folder):
    lines = (folder / "sms_spam/SMSSpamCollection").read_text(encoding="utf-8").split("\n")
    return [tuple(reversed(line.rstrip("\r").split("\t"))) for line in lines if line]


def airline(folder):
    with open(folder / "crowdflower_airline/Airline-Sentiment-2-w-AA.csv", encoding="utf-8", newline="") as file:
        return [(row["text"], row["airline_sentiment"]) for row in csv.DictReader(file)]


def newsgroups(folder):
    posts = []
    with tarfile.open(folder / "20newsgroups/20news-bydate.tar.gz") as archive:
        for entry in archive:
            steps = entry.name.split("/")
            if entry.isfile() and len(steps) >= 3 and steps[-3].startswith("20news-bydate"):
                posts.append((archive.extractfile(entry).read().decode("latin-1"), steps[-2]))
    return posts


folder = pathlib.Path(sys.argv[1]) / "additional"
found = {"scikit-learn": sklearn.__version__}
for task, read in {"sms-spam": sms, "airline": airline, "20-newsgroups": newsgroups}.items():
    parts = divided(read(folder))
    train, validation, test = ([list(column) for column in zip(*part)] for part in parts)
    vectorizer = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2)
    model = LogisticRegression(C=10, max_iter=1000).fit(vectorizer.fit_transform(train[0]), train[1])
    scores = {name: model.score(vectorizer.transform(part[0]), part[1]) for name, part in {"validation": validation, "test": test}.items()}
    found[task] = {"sizes": [len(part) for part in parts]} | scores
    print(task, found[task])
(pathlib.Path(__file__).parent / "tfidf.json").write_text(json.dumps(found, indent=2) + "\n")
