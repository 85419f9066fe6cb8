"""Methods of tensors and variables: NumPy's, by the library's functions."""

from __future__ import annotations

from typing import Any, Callable, Dict, Tuple

from . import _core
from ._core import Tensor


def _value(self: Any) -> Tensor:
    return self if isinstance(self, Tensor) else self.value()


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


def itself(self: Tensor) -> Tensor:
    """The tensor itself: it never changes. `numpy.array(x)` is a copy that you can write to.

    >>> import varve as vv
    >>> x = vv.zeros((2,))
    >>> x.copy() is x
    True
    """
    return self


_ASKED = ("out", "dtype", "where", "initial")
# Methods that are functions of the library, with an example of each.
_FUNCTIONS: Dict[str, Tuple[str, str]] = {
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
        return function(
            self, *args, **{name: value for name, value in options.items() if name not in _ASKED or value is not None}
        )

    return _named(method, name, example)


def numpy_of(self: Any) -> Any:
    """What it holds as a read-only NumPy array that shares memory.

    >>> import varve as vv
    >>> vv.Variable([1.0]).numpy()
    array([1.], dtype=float32)
    """
    return self.value().numpy()


def _property(get: Callable[[Any], Any], doc: Any = None) -> property:
    return property(get, doc=doc or get.__doc__)


METHODS: Dict[str, Any] = {
    **{name: _method(name, example) for name, example in _FUNCTIONS.items()},
    **{name: _along(name, example) for name, example in _ALONG.items()},
    "tolist": _tolist, "reshape": _reshape, "transpose": _transpose, "std": _std, "detach": _detach, "flatten": _flatten,
    "ravel": _flatten, "mT": _property(_last_two), "nbytes": _property(_bytes),
    "T": _property(_transpose, "The axes reversed.\n\n>>> import varve as vv\n>>> vv.zeros((2, 3, 4)).T.shape\n(4, 3, 2)\n"),
}  # fmt: skip
