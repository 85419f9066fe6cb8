"""What type checkers say: of the package itself, and of a program that uses it."""

import json
import pathlib
import shutil
import subprocess
import sys

import pytest

import varve

HERE = pathlib.Path(__file__).parent
PACKAGE = pathlib.Path(varve.__file__).parent


def test_mypy_accepts_the_package_and_a_program(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed")
    shutil.copy(HERE / "typed_program.py", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={tmp_path}", "-p", "varve", "-m", "typed_program"],
        cwd=tmp_path, env={"MYPYPATH": f"{PACKAGE.parent}:{tmp_path}", "PATH": ""}, capture_output=True, text=True,
    )  # fmt: skip
    wrong = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert not wrong and done.stdout, "\n".join(wrong) + done.stderr


def test_mypy_sees_what_is_wrong(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed")
    wrong = ['nn.Dense("many")', "optim.Adam(bta1=0.9)", "vv.softmax(vv.ones(3), axs=1)", "zoo.lenet6()", "vv.ones(2).foo()"]
    (tmp_path / "wrong.py").write_text("import varve as vv\nfrom varve import nn, optim, zoo\n" + "\n".join(wrong) + "\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={tmp_path}", "wrong.py"],
        cwd=tmp_path, env={"MYPYPATH": str(PACKAGE.parent), "PATH": ""}, capture_output=True, text=True,
    )  # fmt: skip
    for line in range(3, 3 + len(wrong)):
        assert f"wrong.py:{line}: error" in done.stdout, wrong[line - 3]


def test_pyright_accepts_a_program(tmp_path):
    pytest.importorskip("pyright", reason="pyright is not installed")
    shutil.copy(HERE / "typed_program.py", tmp_path)
    config = {"include": ["typed_program.py"], "extraPaths": [str(PACKAGE.parent)], "typeCheckingMode": "standard"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    done = subprocess.run([sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", str(tmp_path)], cwd=tmp_path, capture_output=True, text=True)
    assert "0 errors" in done.stdout, done.stdout[-4000:] + done.stderr
