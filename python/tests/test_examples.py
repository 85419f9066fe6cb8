"""The programs of examples/python, which check themselves."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/python"


@pytest.mark.parametrize("name, arguments, printed", [("digits.py", ["2"], "accuracy 0.8"), ("own_parts.py", [], "the points are met")])
def test_the_example_runs(name, arguments, printed, tmp_path):
    done = subprocess.run([sys.executable, EXAMPLES / name, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout
