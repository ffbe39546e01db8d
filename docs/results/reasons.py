"""The pilot's task: why a tweet about an airline complains. No figure or table reports it.

usage: reasons.py Airline-Sentiment-2-w-AA.csv reasons.csv
"""
import csv, sys

with open(sys.argv[1], encoding="utf-8", errors="replace", newline="") as source, open(sys.argv[2], "w", encoding="utf-8", newline="") as target:
    rows = csv.writer(target)
    rows.writerow(["text", "label"])
    rows.writerows([row["text"], row["negativereason"]] for row in csv.DictReader(source) if row["negativereason"])
