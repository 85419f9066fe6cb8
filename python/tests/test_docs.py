"""The Python on the pages, run from top to bottom, with what it prints."""

import contextlib
import io
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize("page, outputs", [("docs/python.md", 5), ("README.md", 1)])
def test_the_page_runs(page, outputs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text()
    blocks = re.findall(r"```(python|output)\n(.*?)```", text, re.S)
    names, checked, printed = {"__name__": "page"}, 0, None
    for kind, code in blocks:
        if kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(code, page, "exec"), names)
            printed = out.getvalue()
        elif printed is not None:
            assert printed == code
            printed = None
            checked += 1
    assert checked == outputs
