"""What Python expects of an array: operators, indexing, methods, printing, pickling."""

from __future__ import annotations

import operator
from typing import Any, List, Tuple

from . import _core
from ._core import DType, Tensor, Variable

_END = 2**63 - 1


def _positions(mask: Any) -> Any:
    """Where a boolean array is true, as i64; read at the call."""
    import numpy

    values = mask.numpy() if isinstance(mask, Tensor) else numpy.asarray(mask)
    return [_core.tensor(each) for each in numpy.nonzero(values)]


def _is_bool_array(part: Any) -> bool:
    if isinstance(part, Tensor):
        return part.dtype == _core.bool_
    if isinstance(part, (list, tuple)):
        return bool(part) and all(isinstance(each, bool) for each in part)
    return getattr(getattr(part, "dtype", None), "name", "") == "bool"


def _index(x: Tensor, key: Any) -> Tensor:
    parts: List[Any] = list(key) if isinstance(key, tuple) else [key]
    expanded: List[Any] = []
    for part in parts:
        if _is_bool_array(part) and not isinstance(part, bool):
            expanded.extend(_positions(part))
        else:
            expanded.append(part)
    parts = expanded
    used = sum(1 for part in parts if part is not None and part is not Ellipsis)
    if used > x.ndim:
        raise IndexError(f"too many indices: a tensor of shape {list(x.shape)} has {x.ndim} axes, got {used} indices")
    if sum(1 for part in parts if part is Ellipsis) > 1:
        raise IndexError("an index can have one ellipsis (...) only")
    if Ellipsis not in [part if part is Ellipsis else None for part in parts]:
        parts.append(Ellipsis)
    at = next(i for i, part in enumerate(parts) if part is Ellipsis)
    parts[at : at + 1] = [slice(None)] * (x.ndim - used)
    return _apply(x, parts)


def _apply(x: Tensor, parts: List[Any]) -> Tensor:
    """Slices and numbers first, on the axes of x; then new axes; then arrays of positions."""
    ranges: List[Tuple[int, int, int]] = []
    flips: List[int] = []
    drop: List[int] = []
    arrays: List[Tuple[int, Any]] = []
    new: List[int] = []
    axis = 0
    kept = 0  # axes of the result before arrays are applied
    for part in parts:
        if part is None:
            new.append(kept)
            kept += 1
            continue
        size = x.shape[axis]
        if isinstance(part, slice):
            begin, end, step = part.indices(size)
            if step < 0:
                count = max(0, -(-(begin - end) // -step))
                ranges.append((begin + (count - 1) * step if count else 0, begin + 1 if count else 0, -step))
                flips.append(axis)
            else:
                ranges.append((begin, max(begin, end), step))
            kept += 1
        elif hasattr(part, "__index__") and not isinstance(part, (bool,)) and getattr(part, "ndim", 0) == 0 and not isinstance(part, Tensor):
            i = operator.index(part)
            if not -size <= i < size:
                raise IndexError(f"index {i} is out of range for axis {axis} of size {size}")
            i += size if i < 0 else 0
            ranges.append((i, i + 1, 1))
            drop.append(axis)
        elif isinstance(part, (Tensor, list)) or hasattr(part, "__array__"):
            ranges.append((0, _END, 1))
            arrays.append((kept, _core.tensor(part) if not isinstance(part, Tensor) else part))
            kept += 1
        else:
            raise TypeError(
                f"an index cannot be a {type(part).__name__}: expected integers, slices, None, ... or arrays of integers or bools"
            )
        axis += 1
    y = x
    if any(r != (0, _END, 1) and r != (0, x.shape[i], 1) for i, r in enumerate(ranges)):
        y = _core._slice(y, ranges)
    if flips:
        y = _core.flip(y, flips)
    if drop:
        y = _core.squeeze(y, drop)
    for place in new:
        y = _core.expand_dims(y, place)
    return _gather(y, arrays) if arrays else y


def _wrapped(indices: Tensor, size: int) -> Tensor:
    """Negative positions count from the end."""
    wide = indices.astype("i64")
    return _core.where(wide < 0, wide + size, wide)


def _gather(x: Tensor, arrays: List[Tuple[int, Tensor]]) -> Tensor:
    if len(arrays) == 1:
        axis, indices = arrays[0]
        return _core.gather(x, _wrapped(indices, x.shape[axis]), axis)
    axes = [axis for axis, _ in arrays]
    if axes != list(range(axes[0], axes[0] + len(axes))):
        raise NotImplementedError("arrays of positions must stand side by side in an index; index twice instead")
    # One flat axis in place of several: position = (i · n1 + j) · n2 + k …
    flat = None
    for axis, indices in arrays:
        here = _wrapped(indices, x.shape[axis])
        flat = here if flat is None else flat * x.shape[axis] + here
    shape = list(x.shape)
    merged = shape[: axes[0]] + [-1] + shape[axes[-1] + 1 :]
    return _core.gather(_core.reshape(x, merged), flat, axes[0])


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


def _dlpack(self: Tensor, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None) -> Any:
    return self._dlpack()


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
    Tensor.__dlpack__ = _dlpack
    Tensor.__dlpack_device__ = lambda self: (1, 0)
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
