"""Networks by name.

    model = zoo.resnet20()                      # not built: fit, or build((32, 32, 3)), makes its variables
    model = zoo.make("resnet20", classes=100)   # the same, with other sizes
    for entry in zoo.entries():                 # what there is, from which paper, for which input
        print(entry.name, entry.input, entry.parameters)

Each is made of the layers of varve.nn, and can be trained, frozen, saved and looked at like any other.
"""

from __future__ import annotations

from . import _core
from ._core import Entry, Module, Tensor
from ._modules import remember
from ._networks import *

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import
    from typing import Any, List

from . import _networks

__all__ = ["Entry", "contrastive_divergence", "entries", "find", "make"]
__all__ += _networks.__all__


def entries() -> List[Entry]:
    """What there is.

    >>> "resnet50" in [entry.name for entry in zoo.entries()]
    True
    """
    return _core._zoo()


def find(name: str) -> Entry:
    """A network's entry; an unknown name is an error that names the nearest.

    >>> zoo.find("lenet5").classes
    10
    """
    return _core._zoo_find(name)


def make(name: str, **sizes: float) -> Module:
    """A network of the zoo, not built yet. Sizes: classes, and those that its entry lists.

    >>> zoo.make("lenet5", classes=26).built
    False
    """
    return remember(_core._zoo_make(name, {key: float(value) for key, value in sizes.items()}), make, name, **sizes)


def contrastive_divergence(
    rbm: Module, x: Any, *, seed: int = 0, stream: str = "", counter: Any = None
) -> List[Tensor]:
    """One step of contrastive divergence (CD-1) for a built "rbm" and a batch of probabilities.

    Returns the gradient of each of its parameters, for an optimiser. The counter must advance from batch to batch.

    >>> rbm = zoo.make("rbm")
    >>> rbm.build(zoo.find("rbm").input)
    >>> len(zoo.contrastive_divergence(rbm, vv.uniform((4, *zoo.find("rbm").input)))) == len(rbm.parameters())
    True
    """
    return _core._contrastive_divergence(rbm, x, seed, stream, counter)


if not TYPE_CHECKING:  # type checkers know the names

    def __getattr__(name: str) -> Any:
        raise AttributeError(f"varve.zoo has no network {name!r}; varve.zoo.entries() lists them")


def __dir__() -> List[str]:
    return sorted(__all__)
