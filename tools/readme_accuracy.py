#!/usr/bin/python3
"""Writes README.md's table of accuracies from the records of `varve train NAME seed=N --json`.

    build/varve train fnn-mnist seed=0 --json >> bench/results/accuracy.jsonl
    tools/readme_accuracy.py
"""
import collections
import json
import pathlib
import re

root = pathlib.Path(__file__).resolve().parent.parent
runs = collections.defaultdict(dict)
for line in (root / "bench/results/accuracy.jsonl").read_text().splitlines():
    record = json.loads(line)
    runs[record["name"]][record["seed"]] = record


def score(record):
    if record.get("test_perplexity"):
        return f"{record['best']:.1f} / {record['test_perplexity']:.1f}"
    return f"{100 * record['test_accuracy']:.2f}%"


rows = ["| command | test accuracy, each seed | mean | seconds, threads |", "|---|---|---|---|"]
for name, seeds in runs.items():
    records = [seeds[s] for s in sorted(seeds)]
    each = ", ".join(score(r) for r in records)
    words = any(r.get("test_perplexity") for r in records)
    mean = "" if words else f"{100 * sum(r['test_accuracy'] for r in records) / len(records):.2f}%"
    if words:
        each = "perplexity, validation / test: " + each
    times = ", ".join(f"{r['train_seconds']:.0f} on {r['threads']}" for r in records)
    rows.append(f"| `varve train {name} epochs={records[0]['epochs']}` | {each} | {mean} | {times} |")

page = root / "README.md"
text = page.read_text()
table = "<!-- accuracy -->\n" + "\n".join(rows) + "\n<!-- /accuracy -->"
text, found = re.subn(r"<!-- accuracy -->.*<!-- /accuracy -->", lambda _: table, text, flags=re.S)
if not found:
    raise SystemExit("README.md: the lines <!-- accuracy --> and <!-- /accuracy --> are missing")
page.write_text(text)
