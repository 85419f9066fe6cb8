"""Indexing as NumPy has it, of operators: slices, gathers, transposes. Only boolean arrays are read."""

from __future__ import annotations

import operator
from typing import Any, List, Tuple

from . import _core
from ._core import Tensor, Variable

_END = 2**63 - 1


class _Choice:
    """x[True], x[False]: a new axis with one element, or none."""

    def __init__(self, taken: bool) -> None:
        self.taken = taken


def _normal(part: Any) -> Any:
    """An index as None, `...`, a slice, a number, a choice, a tensor of positions, or a NumPy array of positions or bools."""
    if part is None or part is Ellipsis or isinstance(part, slice):
        return part
    if isinstance(part, bool):
        return _Choice(part)
    if isinstance(part, int):
        return part
    if isinstance(part, Variable):
        part = part.value()
    if isinstance(part, Tensor):
        if part.dtype == _core.bool_:
            return part.numpy() if part.ndim else _Choice(bool(part))
        if part.dtype in (_core.f64, _core.f32, _core.f16, _core.bf16):
            raise IndexError(f"arrays of positions must be of integers or bools, got {part.dtype.name}")
        return part
    if not isinstance(part, (list, tuple)):
        try:
            return operator.index(part)
        except TypeError:
            pass
    import numpy

    array = numpy.asarray(part)
    if array.size == 0 and isinstance(part, (list, tuple)):
        array = array.astype("int64")
    if array.dtype.kind not in "biu":
        raise TypeError(
            f"an index cannot be a {type(part).__name__}: expected integers, slices, None, ... or arrays of integers or bools"
        )
    if array.ndim == 0:
        return _Choice(bool(array)) if array.dtype.kind == "b" else int(array)
    return array if array.dtype.kind == "b" else array.astype("int64")


def _axes_of(part: Any) -> int:
    """How many axes an index uses up."""
    if part is None or part is Ellipsis or isinstance(part, _Choice):
        return 0
    return part.ndim if _is_mask(part) else 1


def _is_mask(part: Any) -> bool:
    return not isinstance(part, (slice, int, Tensor)) and getattr(part, "dtype", None) == "bool"


def _positions(mask: Any, x: Tensor, axis: int) -> Any:
    """Where a boolean array is true, one array of positions for each of its axes."""
    for i, size in enumerate(mask.shape):
        if x.shape[axis + i] != size:
            raise IndexError(
                f"a boolean index must have the size of its axis: axis {axis + i} has {x.shape[axis + i]} elements, "
                f"the index {size}"
            )
    return mask.nonzero()


def index(x: Tensor, key: Any) -> Tensor:
    """x[key] with NumPy's rules: slices, numbers, None, `...`, arrays of integers and of bools, in any combination.

    >>> import varve as vv
    >>> x = vv.arange(6).reshape(2, 3)
    >>> x[:, ::-1].tolist(), x[..., None].shape, x[[1, 0], [2, -1]].tolist(), x[x > 3].tolist()
    ([[2, 1, 0], [5, 4, 3]], (2, 3, 1), [5, 2], [4, 5])
    """
    if type(key) is int and x.ndim and -x.shape[0] <= key < x.shape[0]:  # a row: what loops ask for
        row = key + (x.shape[0] if key < 0 else 0)
        return _core.squeeze(_core._slice(x, [(row, row + 1, 1)]), 0)
    given = [_normal(part) for part in (key if isinstance(key, tuple) else (key,))]
    used = sum(_axes_of(part) for part in given)
    if used > x.ndim:
        raise IndexError(f"too many indices: a tensor of shape {list(x.shape)} has {x.ndim} axes, got {used} indices")
    ellipses = sum(1 for part in given if part is Ellipsis)
    if ellipses > 1:
        raise IndexError("an index can have one ellipsis (...) only")
    if ellipses == 0:
        given.append(Ellipsis)
    parts: List[Any] = []
    axis = 0
    for part in given:
        parts.extend(_positions(part, x, axis) if _is_mask(part) else [part])
        axis += x.ndim - used if part is Ellipsis else _axes_of(part)
    return _apply(x, parts, x.ndim - used)


def _apply(x: Tensor, parts: List[Any], rest: int) -> Tensor:
    """Slices and numbers first, on the axes of x; then new axes; then arrays of positions."""
    ranges: List[Tuple[int, int, int]] = []
    flips: List[int] = []
    drop: List[int] = []
    arrays: List[Tuple[int, Any]] = []  # where each stands once slices, numbers and new axes are applied
    new: List[int] = []
    groups = 0  # of arrays and numbers side by side: more than one, and their axes come first
    inside = False
    has_arrays = any(not (part is None or part is Ellipsis or isinstance(part, (slice, int))) for part in parts)
    axis = kept = 0
    for part in parts:
        joins = has_arrays and not (part is None or part is Ellipsis or isinstance(part, slice))
        groups += 1 if joins and not inside else 0
        inside = joins
        if part is None:
            new.append(kept)
            kept += 1
        elif part is Ellipsis:
            ranges.extend([(0, _END, 1)] * rest)
            axis += rest
            kept += rest
        elif isinstance(part, slice):
            ranges.append(_range(part, x.shape[axis], axis, flips))
            axis += 1
            kept += 1
        elif isinstance(part, int):
            size = x.shape[axis]
            if not -size <= part < size:
                raise IndexError(f"index {part} is out of range for axis {axis} of size {size}")
            i = part + (size if part < 0 else 0)
            ranges.append((i, i + 1, 1))
            drop.append(axis)
            axis += 1
        elif isinstance(part, _Choice):
            new.append(kept)
            arrays.append((kept, _core.zeros((1 if part.taken else 0,), "i64")))
            kept += 1
        else:
            ranges.append((0, _END, 1))
            arrays.append((kept, _wrapped(part, x.shape[axis], axis)))
            axis += 1
            kept += 1
    y = x
    if any(r != (0, _END, 1) and r != (0, x.shape[i], 1) for i, r in enumerate(ranges)):
        y = _core._slice(y, ranges)
    if flips:
        y = _core.flip(y, flips)
    if drop:
        y = _core.squeeze(y, drop)
    for place in new:
        y = _core.expand_dims(y, place)
    return _gather(y, arrays, groups > 1) if arrays else y


def _range(part: slice, size: int, axis: int, flips: List[int]) -> Tuple[int, int, int]:
    begin, end, step = part.indices(size)
    if step > 0:
        return (begin, max(begin, end), step)
    count = max(0, -(-(begin - end) // -step))
    flips.append(axis)
    return (begin + (count - 1) * step, begin + 1, -step) if count else (0, 0, 1)


def _wrapped(positions: Any, size: int, axis: int) -> Any:
    """Negative positions count from the end. Those of an array are checked here, those of a tensor when they are computed."""
    if isinstance(positions, Tensor):
        wide = positions.astype("i64")
        return _core.where(wide < 0, wide + size, wide)
    wrong = positions[(positions < -size) | (positions >= size)]
    if wrong.size:
        raise IndexError(f"index {wrong.flat[0]} is out of range for axis {axis} of size {size}")
    return positions + (positions < 0) * size


def _gather(x: Tensor, arrays: List[Tuple[int, Any]], first: bool) -> Tensor:
    """`first`: the axes of the arrays come before all others, since something stands between them."""
    axes = [axis for axis, _ in arrays]
    if len(arrays) == 1 and not first:
        return _core.gather(x, arrays[0][1], axes[0])
    others = [axis for axis in range(x.ndim) if axis not in axes]
    at = 0 if first else axes[0]
    order = others[:at] + axes + others[at:]
    y = x if order == list(range(x.ndim)) else _core.transpose(x, order)
    # One flat axis in place of several: position = (i · n1 + j) · n2 + k …, and past its end where one of a tensor is wrong.
    flat: Any = None
    inside: Any = None
    for axis, positions in arrays:
        size = x.shape[axis]
        try:
            flat = positions if flat is None else flat * size + positions
        except ValueError:
            shapes = ", ".join(str(list(each.shape)) for _, each in arrays)
            raise IndexError(f"the arrays of an index must broadcast to one shape, got {shapes}") from None
        if len(arrays) > 1 and isinstance(positions, Tensor):
            right = (positions >= 0) & (positions < size)
            inside = right if inside is None else inside & right
    total = 1
    for axis in axes:
        total *= x.shape[axis]
    if inside is not None:
        flat = _core.where(inside, flat, total)
    shape = [x.shape[axis] for axis in others[:at]] + [total] + [x.shape[axis] for axis in others[at:]]
    return _core.gather(_core.reshape(y, shape), flat, at)
