#!/usr/bin/env python3
"""Writes the table of speeds in README.md from what `varve bench ops --json` measures here, now.

    tools/readme_bench.py [build/varve]

Run it on a machine that does nothing else.
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS = ["1024x1024x1024", "64x2048x26752", "16x56x56x64 3x3", "16x14x14x1024 1x1", "chain of 8", "softmax", "cross_entropy",
        "layer_norm", "lstm", "attention", "adam_update"]


def main():
    varve = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/varve")
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
    page = ROOT / "README.md"
    old = page.read_text(encoding="utf-8")
    table = "<!-- bench -->\n" + "\n".join(text) + "\n<!-- /bench -->"
    page.write_text(re.sub(r"<!-- bench -->.*?<!-- /bench -->", lambda _: table, old, flags=re.S), encoding="utf-8")


if __name__ == "__main__":
    main()
