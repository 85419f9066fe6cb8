"""Nests of tuples, lists, dicts and dataclasses, taken apart into their tensors and put together again.

A nest becomes its leaves and its structure. A structure is hashable, and equal for nests of equal structure: LEAF where
a tensor stood, (kind, type, names, parts) for what holds others, (VALUE, type, value) for every other value.
"""

from __future__ import annotations

from collections import OrderedDict

from ._core import Tensor, Variable, _take
from ._core import tensor as _tensor

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import
    from typing import Any, Hashable, Iterator, List, Optional, Tuple

LEAF: Hashable = None
_SEQUENCE, _NAMED, _DICT, _DATACLASS, _VALUE = range(5)


def take(nest: Any, leaves: List[Tensor]) -> Hashable:
    """The nest's structure; its tensors go to the end of `leaves`.

    Tensors, variables, arrays and floats are leaves; every other value is part of the structure.
    """
    structure: Hashable = _take(nest, leaves, _take_other)
    return structure


def _take_other(nest: Any, leaves: List[Tensor]) -> Hashable:
    """What the module's own code (nests.cpp) does not know: it takes plain tuples, lists, dicts and numbers."""
    kind = type(nest)
    if isinstance(nest, dict):
        plain = kind.__init__ in (dict.__init__, OrderedDict.__init__)
        rebuilt = kind if plain else dict  # a class with a constructor of its own: a dict
        return (_DICT, rebuilt, tuple(nest), tuple([take(part, leaves) for part in nest.values()]))
    if isinstance(nest, (list, tuple)):
        parts = tuple([take(part, leaves) for part in nest])
        return (_NAMED if hasattr(nest, "_fields") else _SEQUENCE, kind, parts)
    if isinstance(nest, (Tensor, Variable, float)) or hasattr(kind, "__array__") or hasattr(kind, "__dlpack__"):
        leaves.append(nest if isinstance(nest, Tensor) else _tensor(nest))
        return LEAF
    if hasattr(kind, "__dataclass_fields__"):
        from dataclasses import fields  # slow to import

        names = tuple([field.name for field in fields(nest)])
        return (_DATACLASS, kind, names, tuple([take(getattr(nest, name), leaves) for name in names]))
    try:
        hash(nest)
    except TypeError:
        raise TypeError(
            f"a {kind.__name__} cannot be an argument or a result here: "
            "expected tensors, arrays, numbers, strings, or lists, tuples, dicts and dataclasses of them"
        ) from None
    return (_VALUE, kind, nest)


def put(structure: Any, leaves: Iterator[Any]) -> Any:
    """The nest of this structure with these leaves."""
    if structure is LEAF:
        return next(leaves)
    what, kind = structure[0], structure[1]
    if what == _VALUE:
        return structure[2]
    if what == _SEQUENCE:
        parts = [put(part, leaves) for part in structure[2]]
        return parts if kind is list else kind(parts)
    if what == _NAMED:
        return kind(*[put(part, leaves) for part in structure[2]])
    values = zip(structure[2], [put(part, leaves) for part in structure[3]])
    if what == _DICT:
        made = kind()
        made.update(values)
        return made
    made = object.__new__(kind)
    for name, value in values:
        object.__setattr__(made, name, value)  # frozen ones too
    return made


def flatten(nest: Any) -> Tuple[List[Tensor], Hashable]:
    """The tensors in a nest, and its structure."""
    leaves: List[Tensor] = []
    return leaves, take(nest, leaves)


def unflatten(structure: Hashable, leaves: List[Tensor]) -> Any:
    """The nest of this structure with these tensors."""
    return leaves[0] if structure is LEAF else put(structure, iter(leaves))


def only_tensors(structure: Any, what: str) -> Optional[str]:
    """Why a gradient cannot have this structure; None when it can: it holds tensors and nothing else."""
    if structure is LEAF:
        return None
    if structure[0] == _VALUE:
        return f"{what} holds {structure[2]!r}, which has no gradient: expected tensors, arrays and floats"
    for part in structure[-1]:
        why = only_tensors(part, what)
        if why:
            return why
    return None
