"""Every public name says what it is and shows a call that runs."""

import doctest
import importlib
import inspect

import pytest

import varve as vv
from varve import data, nn, optim, train, zoo

MODULES = ["varve", "varve.nn", "varve.optim", "varve.data", "varve.train", "varve.zoo"]

# Names without an example of their own, and why.
NO_EXAMPLE = {}


def public(module):
    names = getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")]
    return {name: getattr(module, name) for name in names if not name.startswith("__")}


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


def test_everything_public_has_a_docstring_with_an_example():
    lacking = []
    for name, value in EVERYTHING:
        doc = value.__doc__ or ""
        field = isinstance(value, property)  # the example of its class shows it
        if (not doc.strip() or (">>>" not in doc and not field)) and name not in NO_EXAMPLE:
            lacking.append(name + ("" if doc.strip() else " (no docstring)"))
    assert not lacking, f"{len(lacking)} of {len(EVERYTHING)}: " + ", ".join(lacking)


def test_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    failed = []
    for name, value in EVERYTHING:
        doc = inspect.getdoc(value) or ""
        if ">>>" not in doc:
            continue
        names = {"vv": vv, "nn": nn, "optim": optim, "data": data, "train": train, "zoo": zoo}
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
