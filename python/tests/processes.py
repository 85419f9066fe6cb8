"""Programs that tests run in a process of their own."""

import os
import pathlib
import subprocess
import sys
import textwrap

import varve as vv

ROOT = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(vv.__file__).parents[2]


def run(code, **variables):
    """Runs a program in a process of its own, the tests' folder and the examples on its path."""
    path = os.pathsep.join([str(pathlib.Path(vv.__file__).parents[1]), str(ROOT / "python/tests"), str(ROOT / "examples/python")])
    environment = {**os.environ, "PYTHONPATH": path, **{name: str(value) for name, value in variables.items()}}
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
