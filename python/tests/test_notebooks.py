"""The notebooks run from top to bottom; each ends with a check of its own. The executed ones are kept for the site."""

from __future__ import annotations

import json
import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))

nbclient = pytest.importorskip("nbclient", reason="notebooks need nbclient and ipykernel: tools/test-python installs them")
pytest.importorskip("ipykernel", reason="notebooks need nbclient and ipykernel: tools/test-python installs them")


def test_there_are_notebooks():
    assert len(NOTEBOOKS) >= 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_is_stored_without_outputs(path):
    for cell in json.loads(path.read_text())["cells"]:
        assert not cell.get("outputs") and cell.get("execution_count") is None, "".join(cell["source"])[:60]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs(path, tmp_path, monkeypatch):
    import nbformat

    # What CI runs needs no download; a machine that has real data shows them when the notebook is run by hand.
    monkeypatch.setenv("VARVE_DATA", os.environ.get("VARVE_TEST_DATA", str(tmp_path)))
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [out for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs]
    assert any("text/html" in out.get("data", {}) for out in shown), "nothing shows itself as HTML"
    assert not any(out.get("name") == "stderr" and "Warning" in out["text"] for out in shown)
    if (ROOT / "build").is_dir():
        (ROOT / "build/notebooks").mkdir(exist_ok=True)
        nbformat.write(notebook, ROOT / "build/notebooks" / path.name)
