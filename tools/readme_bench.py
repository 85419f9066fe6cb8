#!/usr/bin/env python3
"""Writes README.md's tables of speeds.

    tools/readme_bench.py [build/varve] [records.jsonl...]     training steps, from records (bench/results/step*.jsonl)
    tools/readme_bench.py --ops [build/varve]                  operators, measured here and now

The first takes what `varve bench report` makes of the records, so that README and report say the same. The second
measures: run it on a machine that does nothing else.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS = ["1024x1024x1024", "64x2048x26752", "16x56x56x64 3x3", "16x14x14x1024 1x1", "chain of 8", "softmax", "cross_entropy",
        "layer_norm", "lstm", "attention", "adam_update"]


def replace(name, text):
    """Puts the text between <!-- name --> and <!-- /name --> of README.md."""
    page = ROOT / "README.md"
    old = page.read_text(encoding="utf-8")
    block = f"<!-- {name} -->\n{text}\n<!-- /{name} -->"
    new, found = re.subn(rf"<!-- {name} -->.*?<!-- /{name} -->", lambda _: block, old, flags=re.S)
    if not found:
        sys.exit(f"README.md: the lines <!-- {name} --> and <!-- /{name} --> are missing")
    page.write_text(new, encoding="utf-8")


def steps(varve, records):
    """The tables at the suite's own batch sizes, one for each machine and precision."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "report.md"
        subprocess.run([varve, "bench", "report", *map(str, records), f"markdown={out}"], check=True,
                       stdout=subprocess.DEVNULL)
        text = out.read_text(encoding="utf-8")
    counts = "\n".join(line for line in text.split("<!-- steps -->")[0].splitlines() if line.startswith("- "))
    found = re.search(r"<!-- steps -->\n## [^\n]*\n\n(.*?)<!-- /steps -->", text, flags=re.S)
    if not found:
        sys.exit("no records of steps in " + ", ".join(map(str, records)))
    tables = re.sub(r"<details>.*?</details>\n*", "", found[1], flags=re.S)  # other batch sizes and numbers of threads
    replace("steps", counts + "\n\n" + tables.strip())


def operators(varve):
    info = json.loads(subprocess.check_output([varve, "info", "--json"]))
    lines = subprocess.check_output([varve, "bench", "ops", "--json", *ROWS], text=True).splitlines()
    rows = [json.loads(line) for line in lines]
    measured = [row for row in rows if "error" not in row]
    if any(not row["steady"] for row in measured):
        sys.exit("the machine was not steady: " + ", ".join(row["op"] for row in measured if not row["steady"]))
    peak = measured[0]
    text = [f"{info['cpu']}, {info['isa']}, {peak['threads']} threads, oneDNN {info['onednn']}; peak measured around "
            f"each row, here {peak['peak_gflops']:.0f} GFLOP/s and {min(r['peak_gbps'] for r in measured):.0f} to "
            f"{max(r['peak_gbps'] for r in measured):.0f} GB/s.", "",
            "| operator | shape | ms | GFLOP/s | GB/s | of peak |", "|---|---|---|---|---|---|"]
    for row in measured:
        share = row["gflops"] / row["peak_gflops"]
        if not row["in_cache"]:
            share = max(share, row["gbps"] / row["peak_gbps"])
        text.append(f"| {row['op']} | {row['shape']} | {row['ms']:.2f} | {row['gflops']:.0f} | {row['gbps']:.1f} "
                    f"| {100 * share:.0f}% |")
    replace("bench", "\n".join(text))


def main():
    words = sys.argv[1:]
    ops = "--ops" in words
    words = [word for word in words if word != "--ops"]
    records = [word for word in words if word.endswith(".jsonl")]
    programs = [word for word in words if not word.endswith(".jsonl")]
    varve = programs[0] if programs else str(ROOT / "build/varve")
    if ops:
        operators(varve)
    else:
        steps(varve, records or sorted((ROOT / "bench/results").glob("step*.jsonl")))


if __name__ == "__main__":
    main()
