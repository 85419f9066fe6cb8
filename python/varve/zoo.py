"""Networks by name: `zoo.resnet20()`, or `zoo.make("resnet20", classes=100)`."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Tuple

from . import _core
from ._modules import remember


class Entry(NamedTuple):
    name: str
    doc: str
    input: List[int]
    dtype: Any
    classes: int
    parameters: int


def entries() -> List[Entry]:
    """What there is."""
    return [Entry(*each) for each in _core._zoo()]


def make(name: str, **sizes: float) -> _core.Module:
    """A network of the zoo, not built yet."""
    return remember(_core._zoo_make(name, {key: float(value) for key, value in sizes.items()}), make, name, **sizes)


def __getattr__(name: str) -> Any:
    for entry in _core._zoo():
        if entry[0].replace("-", "_") == name:
            return lambda **sizes: make(entry[0], **sizes)
    raise AttributeError(f"varve.zoo has no network {name!r}; varve.zoo.entries() lists them")
