"""Nests of tuples, lists and dicts, taken apart into their tensors and put together again."""

from __future__ import annotations

from typing import Any, Callable, Hashable, List, Tuple

from ._core import Tensor, Variable
from ._core import tensor as _tensor


class Leaf:
    """Where a tensor stood."""

    __slots__ = ()


LEAF = Leaf()


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") or hasattr(value, "__dlpack__")


def flatten(value: Any) -> Tuple[List[Tensor], Hashable, Callable[[List[Tensor]], Any]]:
    """The tensors in `value`, its structure (equal for values of equal structure), and the way back.

    Tensors, variables, arrays and floats are leaves; every other value is part of the structure.
    """
    leaves: List[Tensor] = []

    def take(part: Any) -> Tuple[Hashable, Callable[[List[Tensor]], Any]]:
        if isinstance(part, (Tensor, Variable)) or isinstance(part, float) or _is_array(part):
            leaves.append(part if isinstance(part, Tensor) else _tensor(part))
            at = len(leaves) - 1
            return LEAF, lambda tensors: tensors[at]
        if isinstance(part, (list, tuple)):
            taken = [take(each) for each in part]
            kind = type(part)
            named = hasattr(part, "_fields")

            def put_sequence(tensors: List[Tensor]) -> Any:
                parts = [put(tensors) for _, put in taken]
                return kind(*parts) if named else kind(parts)

            return (kind, tuple(key for key, _ in taken)), put_sequence
        if isinstance(part, dict):
            taken_items = [(name, take(part[name])) for name in part]

            def put_dict(tensors: List[Tensor]) -> Any:
                return {name: put(tensors) for name, (_, put) in taken_items}

            return (dict, tuple((name, key) for name, (key, _) in taken_items)), put_dict
        try:
            hash(part)
        except TypeError:
            raise TypeError(
                f"a {type(part).__name__} cannot be an argument or a result here: "
                "expected tensors, arrays, numbers, strings, and lists, tuples and dicts of them"
            ) from None
        return (type(part), part), lambda tensors: part

    key, put = take(value)
    return leaves, key, put
