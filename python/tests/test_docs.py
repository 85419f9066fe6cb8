"""The Python on the pages, run from top to bottom, with what it prints."""

from __future__ import annotations

import os
import re

import pages
import pytest

import varve as vv

# Pages that show every step in both languages.
TUTORIALS = ["tensors", "gradients", "compile", "linear-algebra-and-fft", "layers", "training", "data", "gpu", "threads", "zoo", "own-operator"]
PAGES = ["README.md", "docs/python.md", "docs/from-pytorch.md", "docs/from-keras.md", "docs/model-parallel.md", "docs/dynamic-graphs.md", "docs/data-kinds.md"] + [f"docs/{name}.md" for name in TUTORIALS]
# The other framework's programs: the module they need, and what must stand in the environment before it is imported.
NEIGHBOURS = {"torch": "docs/from-pytorch.md", "keras": "docs/from-keras.md"}
# Programs for a cluster: test_ray.py and test_spark.py run them.
CLUSTERS = {"ray": "docs/clusters.md", "spark": "docs/clusters.md"}


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


def test_no_python_on_a_page_is_left_out():
    kinds = {"python", *(f"python {name}" for name in (*NEIGHBOURS, *CLUSTERS))}
    with_python = set()
    for path in [pages.ROOT / "README.md", *(pages.ROOT / "docs").rglob("*.md")]:
        page = path.relative_to(pages.ROOT).as_posix()
        found = {block.kind for block in pages.blocks(page) if block.kind.startswith(("python", "py"))}
        assert found <= kinds, page
        if found:
            with_python.add(page)
    assert with_python == {*PAGES, *CLUSTERS.values()}


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


def neighbour(name):
    """The other framework; Keras computes with PyTorch unless told otherwise, so that TensorFlow is not needed."""
    if name == "keras":
        os.environ.setdefault("KERAS_BACKEND", "torch")
        pytest.importorskip("torch", reason="Keras' programs run on PyTorch, which is not installed: tools/test-python --neighbours")
    return pytest.importorskip(name, reason=f"{name} is not installed: tools/test-python --neighbours runs its programs")


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_the_other_frameworks_programs_run(name):
    neighbour(name)
    assert any(step.printed for step in pages.program(NEIGHBOURS[name], f"python {name}"))
    pages.run(NEIGHBOURS[name], f"python {name}")


def code_in_tables(page, titles):
    """The `code` in the columns of a page's tables whose head is one of titles."""
    wanted, found = [], []
    for line in (pages.ROOT / page).read_text().splitlines():
        if not line.startswith("|"):
            wanted = []
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not wanted:
            wanted = [cells[i] in titles for i in range(len(cells))] or [False]
        elif not set(line) <= set("|-: "):
            found += [code for cell, take in zip(cells, wanted) if take for code in re.findall(r"`([^`]+)`", cell)]
    return found


OURS = {"vv": vv, "nn": vv.nn, "optim": vv.optim, "data": vv.data, "train": vv.train, "zoo": vv.zoo}
OBJECTS = {
    "model": vv.nn.Sequential, "x": vv.Tensor, "d": vv.data.Dataset, "bound": vv.optim.BoundOptimizer, "step": type(vv.compile(abs)),
    "history": vv.train.History,
}  # fmt: skip


def named(kind, name):
    """A loss or metric that the library does not know is refused before anything else is looked at."""
    model, rows = vv.nn.Sequential(vv.nn.Dense(1)), (vv.zeros((2, 1)), vv.zeros((2, 1)))
    try:
        vv.train.evaluate(model, rows, **({"loss": name} if kind == "loss" else {"loss": "mse", "metrics": [name]}))
    except ValueError as error:
        assert "unknown" not in str(error)


def test_an_unknown_name_would_be_seen():
    with pytest.raises(AssertionError):
        named("loss", "cross_entropie")
    with pytest.raises(AssertionError):
        named("metric", "acuracy")


@pytest.mark.parametrize("page", NEIGHBOURS.values())
def test_every_name_of_the_tables_exists(page):
    codes = code_in_tables(page, ("Varve", "in `fit`", "in a loop"))
    checked = 0
    for code in codes:
        for owner, name in re.findall(r"(?<![\w.])(\w+)\.(\w+)", code):
            if owner in OURS or owner in OBJECTS:
                assert hasattr(OURS.get(owner) or OBJECTS[owner], name), f"{page}: {code}"
                checked += 1
        for layer, options in re.findall(r"\bnn\.(\w+)\(([^()]*)\)", code):
            keys = [key for key, *_ in getattr(getattr(vv.nn, layer), "_keys", [])]
            for option in re.findall(r"(\w+)=", options):
                assert not keys or option in keys, f"{page}: {code}"
        for name in re.findall(r"loss=\"(\w+)\"", code):
            named("loss", name)
        for names in re.findall(r"metrics=\[([^]]*)\]", code):
            for name in re.findall(r"\"(\w+)\"", names):
                named("metric", name)
    assert checked > 60


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_the_other_frameworks_names_exist_too(name):
    module = neighbour(name)
    roots = {"torch": module, "nn": getattr(module, "nn", None), "keras": module}
    if name == "torch":
        import torch.nn.functional
        import torch.utils.checkpoint

        roots["F"] = torch.nn.functional
    checked = 0
    for code in code_in_tables(NEIGHBOURS[name], ("PyTorch", "Keras")):
        for path in re.findall(r"(?<![\w.])((?:torch|nn|F|keras)(?:\.\w+)+)", code):
            at = None
            for part in path.split("."):
                at = roots[part] if at is None else getattr(at, part)
            checked += 1
    assert checked > 20
