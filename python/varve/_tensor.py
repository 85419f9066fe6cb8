"""What Python expects of an array: operators, indexing, methods, printing, pickling."""

from __future__ import annotations

import operator
from typing import Any, Callable, Dict, Iterator, Tuple

from . import _core
from ._core import DType, Tensor, Variable
from ._html import html_of_tensor
from ._indexing import index


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
        raise ValueError(
            f"the truth of a tensor of shape {list(self.shape)} is not one value: use varve.any(x) or varve.all(x)"
        )
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
        raise TypeError(f"a format like {spec!r} is for one number; this tensor has shape {list(self.shape)}. Use .item() or .numpy()")
    return str(self)


def _whole(self: Tensor) -> int:
    if self.dtype in (_core.f64, _core.f32, _core.f16, _core.bf16):
        raise TypeError(f"a tensor of {self.dtype.name} cannot be an index: convert it with int(x)")
    return operator.index(self.item())


# ---- copies of it elsewhere


def _reduce(self: Tensor) -> Any:
    return (_rebuilt, (self.dtype.name, self.shape, _raw(self)))


def _raw(x: Tensor) -> bytes:
    raw: bytes = (x.numpy().view("uint16") if x.dtype == _core.bf16 else x.numpy()).tobytes()
    return raw


def _rebuilt(dtype: str, shape: Tuple[int, ...], raw: bytes) -> Tensor:
    import numpy

    if dtype == "bf16":
        import ml_dtypes

        return _core.tensor(numpy.frombuffer(raw, "uint16").view(ml_dtypes.bfloat16).reshape(shape))
    names = {"f64": "float64", "f32": "float32", "f16": "float16", "i64": "int64", "i32": "int32", "i8": "int8", "u8": "uint8"}
    return _core.tensor(numpy.frombuffer(raw, names.get(dtype, "bool")).reshape(shape))


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


# ---- methods


def _tolist(self: Any) -> Any:
    """The values as nested lists of Python's numbers; of a tensor without axes, the number.

    >>> import varve as vv
    >>> vv.tensor([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    """
    value = _value(self)
    return (value.astype("f32") if value.dtype == _core.bf16 else value).numpy().tolist()


def _shape_of(shape: Tuple[Any, ...]) -> Any:
    return shape[0] if len(shape) == 1 else shape


def _reshape(self: Any, *shape: Any) -> Tensor:
    """The same elements with other axes; one size may be -1.

    >>> import varve as vv
    >>> vv.arange(6).reshape(2, -1).shape
    (2, 3)
    """
    return _core.reshape(self, _shape_of(shape))


def _transpose(self: Any, *axes: Any) -> Tensor:
    """The axes in another order: reversed unless given.

    >>> import varve as vv
    >>> vv.zeros((2, 3, 4)).transpose(0, 2, 1).shape
    (2, 4, 3)
    """
    return _core.transpose(self, _shape_of(axes) if axes else range(self.ndim)[::-1])


def _last_two(self: Any) -> Tensor:
    """The last two axes swapped: of a batch of matrices, each one transposed.

    >>> import varve as vv
    >>> vv.zeros((5, 2, 3)).mT.shape
    (5, 3, 2)
    """
    return _core.transpose(self)


def _flatten(self: Any) -> Tensor:
    """All elements along one axis. The function `varve.flatten(x)` keeps the first axis, as the layer does.

    >>> import varve as vv
    >>> vv.zeros((2, 3, 4)).flatten().shape
    (24,)
    """
    return _core.reshape(self, (-1,))


def _bytes(self: Any) -> int:
    """Bytes of the elements.

    >>> import varve as vv
    >>> vv.zeros((2, 3), dtype="f16").nbytes
    12
    """
    count: int = _value(self).size
    return count * _SIZES.get(str(self.dtype), 1)


_SIZES = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "f16": 2, "bf16": 2}


def _along(name: str, example: Tuple[str, str]) -> Callable[..., Any]:
    """Of a function along one axis, the method as NumPy has it: over all elements unless an axis is given."""
    function = getattr(_core, name)

    def method(self: Any, axis: Any = None, **options: Any) -> Any:
        options = {name: value for name, value in options.items() if name not in _ASKED or value is not None}
        return function(_flatten(self), 0, **options) if axis is None else function(self, axis, **options)

    return _named(method, name, example)


def _std(self: Any, axis: Any = None, keepdims: bool = False, ddof: int = 0) -> Tensor:
    """The standard deviation over axes, or over all of them.

    >>> import varve as vv
    >>> vv.tensor([1.0, 3.0]).std().item()
    1.0
    """
    return _core.sqrt(_core.var(self, axis=axis, keepdims=keepdims, ddof=ddof))


def _detach(self: Any) -> Tensor:
    """The same values, through which no gradient flows.

    >>> import varve as vv
    >>> vv.grad(lambda x: (x * x.detach()).sum())(vv.tensor([3.0])).tolist()
    [3.0]
    """
    return _core.stop_gradient(self)


def _copy(self: Tensor) -> Tensor:
    """The tensor itself: it never changes. `numpy.array(x)` is a copy that you can write to.

    >>> import varve as vv
    >>> x = vv.zeros((2,))
    >>> x.copy() is x
    True
    """
    return self


# Methods that are functions of the library, with an example of each.
_METHODS: Dict[str, Tuple[str, str]] = {
    "sum": ("vv.tensor([[1, 2], [3, 4]]).sum(axis=0).tolist()", "[4, 6]"),
    "mean": ("vv.tensor([1.0, 3.0]).mean().item()", "2.0"),
    "prod": ("vv.tensor([2, 3, 4]).prod().item()", "24"),
    "max": ("vv.tensor([[1, 4], [3, 2]]).max(axis=1).tolist()", "[4, 3]"),
    "min": ("vv.tensor([[1, 4], [3, 2]]).min().item()", "1"),
    "any": ("vv.tensor([False, True]).any().item()", "True"),
    "all": ("vv.tensor([False, True]).all().item()", "False"),
    "var": ("vv.tensor([1.0, 3.0]).var().item()", "1.0"),
    "sort": ("vv.tensor([3, 1, 2]).sort().tolist()", "[1, 2, 3]"),
    "argsort": ("vv.tensor([3, 1, 2]).argsort().tolist()", "[1, 2, 0]"),
    "softmax": ("vv.tensor([0.0, 0.0]).softmax().tolist()", "[0.5, 0.5]"),
    "log_softmax": ("vv.tensor([7.0]).log_softmax().tolist()", "[0.0]"),
    "squeeze": ("vv.zeros((1, 2, 1)).squeeze().shape", "(2,)"),
    "repeat": ("vv.tensor([1, 2]).repeat(2, axis=0).tolist()", "[1, 1, 2, 2]"),
    "exp": ("vv.tensor([0.0]).exp().tolist()", "[1.0]"),
    "log": ("vv.tensor([1.0]).log().tolist()", "[0.0]"),
    "sqrt": ("vv.tensor([4.0]).sqrt().tolist()", "[2.0]"),
    "tanh": ("vv.tensor([0.0]).tanh().tolist()", "[0.0]"),
    "relu": ("vv.tensor([-1.0, 1.0]).relu().tolist()", "[0.0, 1.0]"),
    "sigmoid": ("vv.tensor([0.0]).sigmoid().tolist()", "[0.5]"),
    "abs": ("vv.tensor([-1.0]).abs().tolist()", "[1.0]"),
    "clip": ("vv.tensor([1.0, 5.0]).clip(0, 2).tolist()", "[1.0, 2.0]"),
    "round": ("vv.tensor([1.5, 2.5]).round().tolist()", "[2.0, 2.0]"),
    "square": ("vv.tensor([3.0]).square().tolist()", "[9.0]"),
}  # fmt: skip


_ALONG: Dict[str, Tuple[str, str]] = {
    "argmax": ("vv.tensor([[1, 4], [3, 2]]).argmax().item(), vv.tensor([[1, 4], [3, 2]]).argmax(axis=1).tolist()", "(1, [1, 0])"),
    "argmin": ("vv.tensor([3, 1, 2]).argmin().item()", "1"),
    "cumsum": ("vv.tensor([[1, 2], [3, 4]]).cumsum().tolist()", "[1, 3, 6, 10]"),
}  # fmt: skip


def _named(method: Any, name: str, example: Tuple[str, str]) -> Callable[..., Any]:
    about = (getattr(_core, name).__doc__ or "").split("\n\n")[-1].strip()
    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"varve.{name} of this tensor. {about}\n\n>>> import varve as vv\n>>> {example[0]}\n{example[1]}\n"
    return method  # type: ignore[no-any-return]


def _method(name: str, example: Tuple[str, str]) -> Callable[..., Any]:
    function = getattr(_core, name)

    def method(self: Any, *args: Any, **options: Any) -> Any:
        # numpy.sum(x) and the like ask with out=None and dtype=None.
        return function(self, *args, **{name: value for name, value in options.items() if name not in _ASKED or value is not None})

    return _named(method, name, example)


_ASKED = ("out", "dtype", "where", "initial")
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
    for name, example in _METHODS.items():
        setattr(cls, name, _method(name, example))
    for name, example in _ALONG.items():
        setattr(cls, name, _along(name, example))
    cls.tolist, cls.reshape, cls.transpose, cls.std, cls.detach = _tolist, _reshape, _transpose, _std, _detach
    cls.flatten = cls.ravel = _flatten
    cls.T = property(_transpose, doc="The axes reversed.\n\n>>> import varve as vv\n>>> vv.zeros((2, 3, 4)).T.shape\n(4, 3, 2)\n")
    cls.mT, cls.nbytes = property(_last_two, doc=_last_two.__doc__), property(_bytes, doc=_bytes.__doc__)
    cls._repr_html_ = html_of_tensor


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
    tensor.copy = tensor.__copy__ = _copy
    tensor.__deepcopy__ = lambda self, memo: self
    tensor.__repr__ = lambda self: f"tensor({self._text()}, {self.dtype.name})"
    tensor.__str__ = lambda self: self._text()
    tensor.__format__ = _format
    variable: Any = Variable
    variable.__repr__ = lambda self: f"Variable({self.name!r}, {list(self.shape)}, {self.dtype.name})"
    variable.__reduce__ = lambda self: (Variable, (self.value(), self.name, self.trainable))
    variable.__len__ = lambda self: len(self.value())
    variable.__float__ = lambda self: float(self.value())
    variable.numpy = _numpy
    dtype: Any = DType
    dtype.__str__ = lambda self: self.name.rstrip("_")
    dtype.__repr__ = lambda self: f"varve.{self.name}"


def _numpy(self: Any) -> Any:
    """What it holds as a read-only NumPy array that shares memory.

    >>> import varve as vv
    >>> vv.Variable([1.0]).numpy()
    array([1.], dtype=float32)
    """
    return self.value().numpy()


_install()
