"""What Python expects of an array: operators, indexing, methods, printing, pickling."""

from __future__ import annotations

import operator
from typing import Any, List, Tuple

from . import _core
from ._core import DType, Tensor, Variable

_END = 2**63 - 1
_WHOLE = slice(None)


# ---- indexing, as NumPy has it


class _Choice:
    """x[True], x[False]: a new axis with one element, or none."""

    def __init__(self, taken: bool) -> None:
        self.taken = taken


def _nonzero(mask: Any, x: Tensor, axis: int) -> List[Any]:
    """Where a boolean array is true, one array of positions for each of its axes. It is read at the call."""
    import numpy

    values = numpy.asarray(mask)
    if values.ndim == 0:
        return [_Choice(bool(values))]
    for i, size in enumerate(values.shape):
        if axis + i < x.ndim and x.shape[axis + i] != size:
            raise IndexError(
                f"a boolean index must have the size of the axis: axis {axis + i} has {x.shape[axis + i]} elements, the index {size}"
            )
    return list(numpy.nonzero(values))


def _arrays_of(part: Any, x: Tensor, axis: int) -> List[Any]:
    """An index that is neither None, `...` nor a slice, as numbers and arrays of positions."""
    if isinstance(part, bool):
        return [_Choice(part)]
    if isinstance(part, int):
        return [part]
    if isinstance(part, Variable):
        part = part.value()
    if isinstance(part, Tensor):
        if part.dtype == _core.bool_:
            return _nonzero(part, x, axis)
        if part.dtype in (_core.f64, _core.f32, _core.f16, _core.bf16):
            raise IndexError(f"arrays of positions must be of integers or bools, got {part.dtype.name}")
        return [part]
    if not isinstance(part, (list, tuple)):
        try:
            return [operator.index(part)]
        except TypeError:
            pass
    import numpy

    array = numpy.asarray(part)
    if array.dtype.kind == "b":
        return _nonzero(array, x, axis)
    if array.size == 0 and isinstance(part, (list, tuple)):
        array = array.astype("int64")
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"an index cannot be a {type(part).__name__}: expected integers, slices, None, ... or arrays of integers or bools"
        )
    return [int(array)] if array.ndim == 0 else [array.astype("int64")]


def _axes_used(part: Any) -> int:
    return 0 if part is None or part is Ellipsis or isinstance(part, _Choice) else 1


def _index(x: Tensor, key: Any) -> Tensor:
    parts: List[Any] = []
    key = key if isinstance(key, tuple) else (key,)
    if sum(1 for part in key if part is Ellipsis) > 1:
        raise IndexError("an index can have one ellipsis (...) only")
    for at, part in enumerate(key):
        if part is None or part is Ellipsis or isinstance(part, slice):
            parts.append(part)
            continue
        axis = sum(_axes_used(each) for each in parts)
        if any(each is Ellipsis for each in parts):  # counted from the end
            axis = x.ndim - sum(getattr(each, "ndim", 1) if _is_mask(each) else _axes_used(each) for each in key[at:])
        parts.extend(_arrays_of(part, x, max(axis, 0)))
    used = sum(_axes_used(part) for part in parts)
    if used > x.ndim:
        raise IndexError(f"too many indices: a tensor of shape {list(x.shape)} has {x.ndim} axes, got {used} indices")
    if not any(part is Ellipsis for part in parts):
        parts.append(Ellipsis)
    return _apply(x, parts, x.ndim - used)


def _is_mask(part: Any) -> bool:
    return str(getattr(part, "dtype", "")) == "bool"


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


def _wrapped(positions: Any, size: int, axis: int) -> Tensor:
    """Negative positions count from the end. Those of an array are checked here, those of a tensor when they are computed."""
    if isinstance(positions, Tensor):
        wide = positions.astype("i64")
        return _core.where(wide < 0, wide + size, wide)
    wrong = positions[(positions < -size) | (positions >= size)]
    if wrong.size:
        raise IndexError(f"index {wrong.flat[0]} is out of range for axis {axis} of size {size}")
    return _core.tensor(positions + (positions < 0) * size)


def _gather(x: Tensor, arrays: List[Tuple[int, Tensor]], first: bool) -> Tensor:
    """`first`: the axes of the arrays come before all others, since something stands between them."""
    axes = [axis for axis, _ in arrays]
    if len(arrays) == 1 and not first:
        return _core.gather(x, arrays[0][1], axes[0])
    others = [axis for axis in range(x.ndim) if axis not in axes]
    at = 0 if first else axes[0]
    order = others[:at] + axes + others[at:]
    y = x if order == list(range(x.ndim)) else _core.transpose(x, order)
    # One flat axis in place of several: position = (i · n1 + j) · n2 + k …, and past its end where one of them is wrong.
    flat: Any = None
    inside: Any = None
    for axis, positions in arrays:
        size = x.shape[axis]
        flat = positions if flat is None else flat * size + positions
        if len(arrays) > 1:
            right = (positions >= 0) & (positions < size)
            inside = right if inside is None else inside & right
    total = 1
    for axis in axes:
        total *= x.shape[axis]
    if inside is not None:
        flat = _core.where(inside, flat, total)
    shape = [x.shape[axis] for axis in others[:at]] + [total] + [x.shape[axis] for axis in others[at:]]
    return _core.gather(_core.reshape(y, shape), flat, at)


def _refuse_assignment(self: Any, key: Any, value: Any) -> None:
    raise TypeError(
        "a tensor's elements cannot be assigned: tensors never change. "
        "Use varve.where(condition, value, x), varve.scatter_add(x, indices, updates), or concatenate parts"
    )


def _binary(name: str, swapped: bool = False) -> Any:
    function = getattr(_core, name)

    def method(self: Any, other: Any) -> Any:
        if other is None or isinstance(other, str):
            return NotImplemented
        return function(other, self) if swapped else function(self, other)

    return method


def _method(name: str) -> Any:
    function = getattr(_core, name)

    def method(self: Any, *args: Any, **options: Any) -> Any:
        return function(self, *args, **options)

    method.__name__ = name
    method.__doc__ = function.__doc__
    return method


def _bool(self: Tensor) -> bool:
    if self.size != 1:
        raise ValueError(
            f"the truth of a tensor of shape {list(self.shape)} is not one value: use varve.any(x) or varve.all(x)"
        )
    return bool(self.item())


def _iterate(self: Tensor) -> Any:
    if self.ndim == 0:
        raise TypeError("a tensor without axes cannot be iterated over")
    return (self[i] for i in range(self.shape[0]))


def _reduce(self: Tensor) -> Any:
    return (_rebuilt, (self.dtype.name, self.shape, _raw(self)))


def _raw(x: Tensor) -> bytes:
    return (x.numpy().view("uint16") if x.dtype == _core.bf16 else x.numpy()).tobytes()


def _rebuilt(dtype: str, shape: Tuple[int, ...], raw: bytes) -> Tensor:
    import numpy

    if dtype == "bf16":
        import ml_dtypes

        return _core.tensor(numpy.frombuffer(raw, "uint16").view(ml_dtypes.bfloat16).reshape(shape))
    names = {"f64": "float64", "f32": "float32", "f16": "float16", "i64": "int64", "i32": "int32", "i8": "int8", "u8": "uint8"}
    return _core.tensor(numpy.frombuffer(raw, names.get(dtype, "bool")).reshape(shape))


def _array(self: Any, dtype: Any = None, copy: Any = None) -> Any:
    value = (self if isinstance(self, Tensor) else self.value()).numpy()
    if dtype is not None and value.dtype != dtype:
        return value.astype(dtype)
    return value.copy() if copy else value


def _value(self: Any) -> Tensor:
    return self if isinstance(self, Tensor) else self.value()


def _dlpack(self: Any, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None) -> Any:
    """A DLPack capsule of the values, for `torch.from_dlpack(x)` and the like: shared, not copied, and never to be written.

    >>> import numpy, varve as vv
    >>> x = vv.tensor([1.0, 2.0])
    >>> numpy.from_dlpack(x)
    array([1., 2.], dtype=float32)
    """
    return _core._to_dlpack(_value(self), stream, max_version, dl_device, copy)


def _dlpack_device(self: Any) -> Tuple[int, int]:
    """Where the values lie, in DLPack's numbers: (1, 0) is the processor, (2, n) the GPU cuda:n.

    >>> import varve as vv
    >>> vv.zeros((2,)).__dlpack_device__()
    (1, 0)
    """
    return _core._dlpack_device(_value(self))


def _html(self: Tensor) -> str:
    import html

    sizes = " × ".join(str(size) for size in self.shape) or "scalar"
    return f"<div><small>{sizes} · {self.dtype.name}</small><pre>{html.escape(self._text())}</pre></div>"


def _install() -> None:
    for cls in (Tensor, Variable):
        for python, ours in {
            "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
            "mod": "remainder", "pow": "power", "matmul": "matmul",
        }.items():  # fmt: skip
            setattr(cls, f"__{python}__", _binary(ours))
            setattr(cls, f"__r{python}__", _binary(ours, swapped=True))
        for python, ours in {
            "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
        }.items():  # fmt: skip
            setattr(cls, f"__{python}__", _binary(ours))
        cls.__neg__ = lambda self: _core.negative(self)
        cls.__pos__ = lambda self: _core.identity(self)
        cls.__abs__ = lambda self: _core.abs(self)
        cls.__array__ = _array
        cls.__dlpack__ = _dlpack
        cls.__dlpack_device__ = _dlpack_device
        cls.__array_priority__ = 1000  # NumPy leaves mixed operators to us
        cls.__getitem__ = lambda self, key: _index(self if isinstance(self, Tensor) else self.value(), key)
        for name in (
            "sum", "mean", "prod", "max", "min", "any", "all", "var", "argmax", "argmin", "cumsum", "sort", "argsort",
            "softmax", "log_softmax", "squeeze", "flatten", "transpose", "exp", "log", "sqrt", "tanh", "relu", "sigmoid",
            "abs", "clip", "square",
        ):  # fmt: skip
            setattr(cls, name, _method(name))
    Tensor.__eq__ = _binary("equal")
    Tensor.__ne__ = _binary("not_equal")
    Tensor.__hash__ = object.__hash__
    Tensor.__and__ = Tensor.__rand__ = _binary("logical_and")
    Tensor.__or__ = Tensor.__ror__ = _binary("logical_or")
    Tensor.__invert__ = lambda self: _core.logical_not(self)
    Tensor.__setitem__ = _refuse_assignment
    Tensor.__bool__ = _bool
    Tensor.__float__ = lambda self: float(self.item())
    Tensor.__int__ = lambda self: int(self.item())
    Tensor.__index__ = lambda self: operator.index(self.item())
    Tensor.__iter__ = _iterate
    Tensor.__reduce__ = _reduce
    Tensor.__copy__ = lambda self: self
    Tensor.__deepcopy__ = lambda self, memo: self
    Tensor.__repr__ = lambda self: f"tensor({self._text()}, {self.dtype.name})"
    Tensor.__str__ = lambda self: self._text()
    Tensor._repr_html_ = _html
    Tensor.tolist = lambda self: (self.astype("f32") if self.dtype == _core.bf16 else self).numpy().tolist()
    Tensor.reshape = lambda self, *shape: _core.reshape(self, shape[0] if len(shape) == 1 else shape)
    Tensor.T = property(lambda self: _core.transpose(self))
    Tensor.detach = lambda self: _core.stop_gradient(self)
    Variable.__repr__ = lambda self: f"Variable({self.name!r}, {list(self.shape)}, {self.dtype.name})"
    Variable.numpy = lambda self: self.value().numpy()
    Variable.tolist = lambda self: self.value().tolist()
    DType.__str__ = lambda self: self.name.rstrip("_")
    DType.__repr__ = lambda self: f"varve.{self.name}"


_install()
