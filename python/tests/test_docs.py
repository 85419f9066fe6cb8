"""The Python on the pages, run from top to bottom, with what it prints."""

from __future__ import annotations

import importlib
import re

import pages
import pytest

import varve as vv

# Pages that show every step in both languages.
TUTORIALS = ["tensors", "gradients", "compile", "layers", "training", "data", "gpu"]
PAGES = ["README.md", "docs/python.md"] + [f"docs/{name}.md" for name in TUTORIALS]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Pages write files, and turn what is global."""
    monkeypatch.chdir(tmp_path)
    threads = vv.threads()
    yield
    vv.set_threads(threads)
    vv.set_deterministic(False)
    vv.set_device("cpu")


@pytest.mark.parametrize("page", PAGES)
def test_the_page_runs(page):
    assert any(step.printed for step in pages.program(page)), "nothing that it prints is compared"
    pages.run(page)


@pytest.mark.parametrize("name", TUTORIALS)
def test_tutorials_show_both_languages(name):
    all_blocks = list(pages.blocks(f"docs/{name}.md"))
    alone = []
    for i, block in enumerate(all_blocks):
        if block.kind != "cpp":
            continue
        after = [b for b in all_blocks[i + 1 : i + 3] if b.below and b.kind != "output"]
        if not after or after[0].kind != "python":
            alone.append(block.start)
    assert alone == [], "C++ without the same in Python below it, at these lines"
