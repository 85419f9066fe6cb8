"""Every public name says what it is and shows a call that runs."""

import doctest
import importlib
import inspect

import pytest

import varve as vv
from varve import data, distributed, nn, optim, train, zoo

MODULES = ["varve", "varve.nn", "varve.optim", "varve.data", "varve.train", "varve.zoo", "varve.linalg", "varve.fft", "varve.distributed", "varve.ray",
           "varve.spark"]  # fmt: skip

# Names without an example of their own, and why.
_CALLED = "the library calls it"
NO_EXAMPLE = {
    "varve.nn.Module.forward": "a subclass defines it", "varve.nn.ModuleDict.forward": "it has none", "varve.nn.ModuleList.forward": "it has none",
    **{f"varve.train.Callback.{name}": _CALLED for name in ("begin", "step_end", "epoch_end", "end", "name", "state", "restore")},
}  # fmt: skip


def public(module):
    """The names of a module, and those of a module without __all__ that it does not merely import."""
    if hasattr(module, "__all__"):
        return {name: getattr(module, name) for name in module.__all__ if not name.startswith("__")}
    found = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    return {name: value for name, value in found.items() if ours(module, value)}


def ours(module, value):
    where = getattr(value, "__module__", None)
    return where == module.__name__ or where == "varve._core"


def members(name, cls):
    """The public methods and properties that a class adds to its bases."""
    for member, value in vars(cls).items():
        if not member.startswith("_") and (callable(value) or isinstance(value, (property, staticmethod, classmethod))
                                           or type(value).__name__ in ("nb_method", "nb_func", "getset_descriptor")):
            yield f"{name}.{member}", getattr(cls, member) if not isinstance(value, property) else value


def everything():
    seen = {}
    for module in MODULES:
        for name, value in public(importlib.import_module(module)).items():
            if inspect.ismodule(value) or not (callable(value) or inspect.isclass(value)):
                continue
            full = f"{module}.{name}"
            seen.setdefault(id(value), (full, value))
            if inspect.isclass(value):
                for path, member in members(full, value):
                    seen.setdefault(id(member), (path, member))
    return sorted(seen.values(), key=lambda each: each[0])


EVERYTHING = everything()


def in_the_example_of_its_class(name):
    owner, _, member = name.rpartition(".")
    doc = next((value.__doc__ or "" for full, value in EVERYTHING if full == owner), "")
    return any(f".{member}" in line for line in doc.splitlines() if line.lstrip().startswith((">>>", "...")))


def test_everything_public_has_a_docstring_with_an_example():
    lacking = []
    for name, value in EVERYTHING:
        doc = value.__doc__ or ""
        if name in NO_EXAMPLE:
            continue
        shown = isinstance(value, property) or in_the_example_of_its_class(name)
        if not doc.strip() or (">>>" not in doc and not shown):
            lacking.append(name)
    assert not lacking, f"{len(lacking)} of {len(EVERYTHING)}: " + ", ".join(lacking)


def test_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    failed = []
    for name, value in EVERYTHING:
        doc = inspect.getdoc(value) or ""
        if ">>>" not in doc or name.startswith(("varve.ray.", "varve.spark.")):  # test_ray.py and test_spark.py train there
            continue
        names = {"vv": vv, "nn": nn, "optim": optim, "data": data, "train": train, "zoo": zoo, "distributed": distributed}
        said = []
        runner.run(parser.get_doctest(doc, names, name, None, 0), out=said.append)
        if said:
            failed.append("".join(said))
    assert not failed, "\n".join(failed)
    assert runner.tries > 250


@pytest.mark.parametrize("module", MODULES)
def test_help_teaches(module):
    doc = importlib.import_module(module).__doc__ or ""
    assert len(doc.splitlines()) > 5 or module == "varve.zoo", f"help({module}) says little"
