"""What Python expects of an array: operators, indexing, methods, printing, pickling."""

from __future__ import annotations

import operator
from typing import Any, Callable, Iterator, Tuple

from . import _core
from ._core import DType, Tensor, Variable
from ._html import html_of_tensor
from ._indexing import index
from ._methods import METHODS, itself, numpy_of


def _value(self: Any) -> Tensor:
    return self if isinstance(self, Tensor) else self.value()


# ---- operators


def _fits(other: Any) -> bool:
    """Whether an operator takes it: a number, a list, an array; anything else may know what to do with a tensor itself."""
    return isinstance(other, (int, float, list, tuple)) or hasattr(other, "__array__") or hasattr(other, "__dlpack__")


def _binary(name: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
    function = getattr(_core, name)

    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, Tensor) and not _fits(other):
            return NotImplemented
        return function(other, self) if swapped else function(self, other)

    return method


def _divmod(self: Any, other: Any) -> Any:
    return (self // other, self % other) if _fits(other) else NotImplemented


def _rdivmod(self: Any, other: Any) -> Any:
    return (other // self, other % self) if _fits(other) else NotImplemented


def _xor(self: Tensor, other: Any) -> Any:
    if not _fits(other):
        return NotImplemented
    return _core.not_equal(_core.cast(self, "bool"), _core.cast(other, "bool"))


def _refuse_assignment(self: Any, key: Any, value: Any) -> None:
    """Tensors never change.

    >>> import varve as vv
    >>> x = vv.zeros((2,))
    >>> x[0] = 1
    Traceback (most recent call last):
        ...
    TypeError: a tensor's elements cannot be assigned: tensors never change. Use varve.where(condition, value, x), \
varve.scatter_add(x, indices, updates), or varve.concat of parts
    """
    raise TypeError(
        "a tensor's elements cannot be assigned: tensors never change. "
        "Use varve.where(condition, value, x), varve.scatter_add(x, indices, updates), or varve.concat of parts"
    )


# ---- what Python asks of a sequence and of a number


def _bool(self: Tensor) -> bool:
    if self.size != 1:
        raise ValueError(f"the truth of a tensor of shape {list(self.shape)} is not one value: use varve.any(x) or varve.all(x)")
    return bool(self.item())


def _iterate(self: Any) -> Iterator[Tensor]:
    if self.ndim == 0:
        raise TypeError("a tensor without axes cannot be iterated over")
    value = _value(self)
    return (value[i] for i in range(value.shape[0]))


def _contains(self: Any, value: Any) -> bool:
    found = _core.equal(_value(self), value)
    return bool(_core.any(found)) if found.size else False


def _format(self: Tensor, spec: str) -> str:
    if self.size == 1 and self.ndim == 0:
        return format(self.item(), spec)
    if spec:
        raise TypeError(
            f"a format like {spec!r} is for one number; this tensor has shape {list(self.shape)}. Use .item() or .numpy()"
        )
    return str(self)


def _whole(self: Tensor) -> int:
    if self.dtype in (_core.f64, _core.f32, _core.f16, _core.bf16):
        raise TypeError(f"a tensor of {self.dtype.name} cannot be an index: convert it with int(x)")
    return operator.index(self.item())


# ---- copies of it elsewhere


def _reduce(self: Tensor) -> Any:
    return (_rebuilt, (str(self.dtype), self.shape, self._raw()))


def _rebuilt(dtype: str, shape: Tuple[int, ...], raw: bytes) -> Tensor:
    return _core._from_raw(dtype, shape, raw)


_NUMPY = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "i64": "int64",
    "i32": "int32",
    "i8": "int8",
    "u8": "uint8",
    "bool": "bool",
}


def _numpy_dtype(self: Any) -> Any:
    """The same type for NumPy; bf16 is that of ml_dtypes.

    >>> import numpy, varve as vv
    >>> numpy.zeros(2, vv.f16).dtype
    dtype('float16')
    """
    import numpy

    if str(self) == "bf16":
        import ml_dtypes

        return numpy.dtype(ml_dtypes.bfloat16)
    return numpy.dtype(_NUMPY[str(self)])


def _array(self: Any, dtype: Any = None, copy: Any = None) -> Any:
    value = _value(self).numpy()
    if dtype is not None and value.dtype != dtype:
        if copy is False:
            raise ValueError(f"copy=False cannot be kept: {value.dtype} becomes {dtype}. Pass copy=None.")
        return value.astype(dtype)
    return value.copy() if copy else value


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
    device: Tuple[int, int] = _core._dlpack_device(_value(self))
    return device


_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide", "mod": "remainder",
    "pow": "power", "matmul": "matmul",
}  # fmt: skip
_COMPARISONS = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}


def _install_on_both(cls: Any) -> None:
    """A variable computes as the tensor that it holds."""
    for python, ours in _OPERATORS.items():
        setattr(cls, f"__{python}__", _binary(ours))
        setattr(cls, f"__r{python}__", _binary(ours, swapped=True))
    for python, ours in _COMPARISONS.items():
        setattr(cls, f"__{python}__", _binary(ours))
    cls.__divmod__, cls.__rdivmod__ = _divmod, _rdivmod
    cls.__neg__ = lambda self: _core.negative(self)
    cls.__pos__ = lambda self: _core.identity(self)
    cls.__abs__ = lambda self: _core.abs(self)
    cls.__round__ = lambda self, digits=0: _core.round(self * 10.0**digits) / 10.0**digits if digits else _core.round(self)
    cls.__array__ = _array
    cls.__array_priority__ = 1000  # NumPy leaves mixed operators to us
    cls.__dlpack__, cls.__dlpack_device__ = _dlpack, _dlpack_device
    cls.__getitem__ = lambda self, key: index(_value(self), key)
    cls.__setitem__ = _refuse_assignment
    cls.__iter__, cls.__contains__ = _iterate, _contains
    for name, method in METHODS.items():
        setattr(cls, name, method)
    cls._repr_html_ = html_of_tensor


def _no_attribute(self: Tensor, name: str) -> Any:
    if name.startswith("__"):  # NumPy asks for several
        raise AttributeError(name)
    from ._hints import METHODS, missing

    raise missing("a varve.Tensor", name, METHODS)


def _item(self: Variable) -> Any:
    """The one element, as a Python number.

    >>> import varve as vv
    >>> vv.Variable([2.5]).item()
    2.5
    """
    return self.value().item()


def _install() -> None:
    _install_on_both(Tensor)
    _install_on_both(Variable)
    tensor: Any = Tensor
    tensor.__eq__, tensor.__ne__ = _binary("equal"), _binary("not_equal")
    tensor.__hash__ = object.__hash__  # by identity
    tensor.__and__ = tensor.__rand__ = _binary("logical_and")
    tensor.__or__ = tensor.__ror__ = _binary("logical_or")
    tensor.__xor__ = tensor.__rxor__ = _xor
    tensor.__invert__ = lambda self: _core.logical_not(self)
    tensor.__bool__ = _bool
    tensor.__float__ = lambda self: float(self.item())
    tensor.__int__ = lambda self: int(self.item())
    tensor.__complex__ = lambda self: complex(self.item())
    tensor.__index__ = _whole
    tensor.__reduce__ = _reduce
    tensor.copy = tensor.__copy__ = itself
    tensor.__deepcopy__ = lambda self, memo: self
    tensor.__repr__ = lambda self: f"tensor({self._text()}, {self.dtype.name})"
    tensor.__str__ = lambda self: self._text()
    tensor.__format__ = _format
    tensor.__getattr__ = _no_attribute
    variable: Any = Variable
    variable.__repr__ = lambda self: f"Variable({self.name!r}, {list(self.shape)}, {self.dtype.name})"
    variable.__reduce__ = lambda self: (Variable, (self.value(), self.name, self.trainable))
    variable.__len__ = lambda self: len(self.value())
    variable.__float__ = lambda self: float(self.value())
    variable.numpy = numpy_of
    variable.item = _item
    dtype: Any = DType
    dtype.__str__ = lambda self: self.name.rstrip("_")
    dtype.__repr__ = lambda self: f"varve.{self.name}"
    dtype.dtype = property(_numpy_dtype, doc=_numpy_dtype.__doc__)  # numpy.dtype(varve.f32) asks for it


_install()
