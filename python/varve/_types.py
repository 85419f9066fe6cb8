"""Names for what functions take, for type checkers."""

from __future__ import annotations

import os
from typing import Any, Protocol, Sequence, Union

from ._core import DType, Tensor, Variable


class SupportsArray(Protocol):
    """An array of NumPy, or what NumPy can read."""

    def __array__(self, *args: Any, **options: Any) -> Any: ...


class SupportsDLPack(Protocol):
    """A tensor of PyTorch, JAX or CuPy."""

    def __dlpack__(self, *args: Any, **options: Any) -> Any: ...


TensorLike = Union[Tensor, Variable, float, int, bool, SupportsArray, SupportsDLPack, Sequence[Any]]
DTypeLike = Union[DType, str, type, Any]
ShapeLike = Union[int, Sequence[int]]
PaddingLike = Union[int, Sequence[Union[int, Sequence[int]]]]
PathLike = Union[str, "os.PathLike[str]"]
