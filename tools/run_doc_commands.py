#!/usr/bin/env python3
"""Runs the shell blocks of README.md and docs/ that are marked ```sh run or ```sh gpu, each in an empty folder.

    tools/run_doc_commands.py VARVE PAGE.md...

VARVE is the command that was built: `varve` and `build/varve` in a block mean it. Where no GPU can be used, the blocks
marked gpu run with device=cpu: their words are checked, if not their speed.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile


def gpu_usable(varve):
    done = subprocess.run([varve, "info", "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["cuda"]["usable"]


def main():
    varve = pathlib.Path(sys.argv[1]).resolve()
    device = "cuda" if gpu_usable(varve) else "cpu"
    ran, failed = 0, 0
    for path in map(pathlib.Path, sys.argv[2:]):
        for kind, block in re.findall(r"^```sh (run|gpu)\n(.*?)^```", path.read_text(encoding="utf-8"), re.M | re.S):
            if kind == "gpu":
                block = block.replace("device=cuda", f"device={device}")
            script = re.sub(r"(?m)(^|[|;&]\s*)(build/)?varve\b", rf"\1{varve}", block)
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=folder, capture_output=True,
                                      text=True, check=False)
            ran += 1
            if done.returncode != 0:
                failed += 1
                print(f"{path}: exit code {done.returncode} of\n{block}{done.stdout}{done.stderr}")
    print(f"{ran} blocks ran, {failed} failed")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
