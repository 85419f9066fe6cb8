"""Operators of your own: formulas, rules and kernels written in Python."""

from __future__ import annotations

from . import _core
from ._core import Expr, Operator

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import
    from typing import Any, Callable, List, Optional, Union

__all__ = ["elementwise", "define", "add_kernel"]


def _arity(function: Callable[..., Any], where: str) -> int:
    import inspect  # slow to import

    kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        raise TypeError(f"{where}: the function must name its arguments; *args could be any number")
    return sum(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds)


def _symbols(result: Any, where: str) -> List[Expr]:
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    for each in results:
        if not isinstance(each, (Expr, float, int)):
            raise TypeError(f"{where} returned a {type(each).__name__}; expected a formula of its arguments")
    return [each if isinstance(each, Expr) else Expr.input(0) * 0 + each for each in results]


def elementwise(
    formula: Callable[..., Any],
    *,
    name: str = "",
    doc: str = "",
    derivative: Optional[Callable[..., Any]] = None,
    result: str = "promoted",
    differentiable: bool = True,
    smooth: bool = True,
) -> Operator:
    """An operator from what it does to one element: gradient, fusion, cost and every device follow.

    The formula is a function of one to three symbols; arithmetic, comparisons and varve's elementwise functions are
    what it can use, and `vv.where` chooses. It is called once. derivative(x…, y) returns the derivative by each input
    where the symbolic one will not do. result: "promoted" (the inputs' type), "floating" or "predicate" (bools).

    >>> @vv.elementwise
    ... def snake(x):
    ...     return x + vv.square(vv.sin(x))
    >>> snake(vv.tensor([0.0])).tolist(), vv.grad(lambda x: snake(x).sum())(vv.tensor([0.0])).tolist()
    ([0.0], [1.0])
    """
    if not callable(formula):
        raise TypeError(f"elementwise: formula must be a function of symbols, got {formula!r}")
    name = name or getattr(formula, "__name__", "").replace("<lambda>", "") or "elementwise"
    arity = _arity(formula, "elementwise")
    outputs = _symbols(formula(*[Expr.input(i) for i in range(arity)]), "the formula")
    slopes: List[Expr] = []
    if derivative is not None:
        slopes = _symbols(derivative(*[Expr.input(i) for i in range(arity + len(outputs))]), "the derivative")
        if len(slopes) != arity:
            raise ValueError(f"elementwise: the derivative returned {len(slopes)} formulas for {arity} inputs")
    doc = doc or (getattr(formula, "__doc__", None) or "").strip()
    return _core._elementwise(name, doc, arity, outputs, slopes, result, differentiable, smooth)


def define(
    name: str,
    *,
    shape: Callable[..., Any],
    decompose: Optional[Callable[..., Any]] = None,
    gradient: Optional[Callable[..., Any]] = None,
    batching: Optional[Union[str, Callable[..., Any]]] = None,
    kernel: Optional[Callable[..., Any]] = None,
    arity: Optional[int] = None,
    doc: str = "",
    differentiable: bool = True,
    pure: bool = True,
    random: bool = False,
) -> Operator:
    """A general operator from its rules, which are Python functions. Its fixed choices are given to each as keywords.

    shape(*types, **options) returns the result's `vv.TensorType`, or a list of them. decompose(*tensors, **options)
    writes it in other operators; kernel(*arrays, **options) computes it with NumPy (see `add_kernel`): one of the two is
    needed. gradient(inputs, outputs, dys, **options) returns a gradient, or None, for each input; without it the
    gradient is that of the decomposition. batching(inputs, batched, size, **options) computes many calls as one, for
    `vv.vmap`: inputs that are batched have a leading axis of that size, and so have all results; or it is "leading"
    (leading axes are a batch already), "along_axis" or "one_by_one" (a loop). Without it the decomposition is mapped.
    random: it draws numbers, and vmap lets each example draw its own. arity: the number of inputs, those of shape unless given; -1 is any.

    >>> scaled = vv.define("scaled", shape=lambda x, by: x, decompose=lambda x, by: x * by, arity=1)
    >>> scaled(vv.tensor([1.0, 2.0]), by=3.0).tolist()
    [3.0, 6.0]
    """
    for what, rule in (("shape", shape), ("decompose", decompose), ("gradient", gradient), ("kernel", kernel)):
        if not callable(rule) and (rule is not None or what == "shape"):
            raise TypeError(f"define: {what} must be a function, got {rule!r} ({type(rule).__name__})")
    if batching is not None and not isinstance(batching, str) and not callable(batching):
        raise TypeError(f"define: batching must be a function or a name, got {batching!r} ({type(batching).__name__})")
    if decompose is None and kernel is None:
        raise ValueError(f"define: '{name}' has neither decompose nor kernel; one of them must compute it")
    count = _arity(shape, "define") if arity is None else arity
    made = _core._define(name, doc, count, shape, decompose, gradient, batching, differentiable, pure, random)
    if kernel is not None:
        _core._add_kernel(made, kernel, "cpu")
    return made


def add_kernel(op: Operator, kernel: Callable[..., Any], device: str = "cpu") -> None:
    """A Python function that computes an operator of your own on a device.

    kernel(*arrays, **options) is given NumPy arrays of its own and returns an array, or a list of them, of the shape and
    type that the shape rule said. Programs call it with the interpreter's lock, one call at a time for each program.

    >>> import numpy
    >>> roots = vv.define("roots", shape=lambda x: x, decompose=lambda x: vv.sqrt(x))
    >>> vv.add_kernel(roots, lambda x: numpy.sqrt(x))
    >>> roots(vv.tensor([4.0, 9.0])).tolist()
    [2.0, 3.0]
    """
    if not isinstance(op, Operator):
        raise TypeError(f"add_kernel: op must be an operator of your own (vv.define), got {op!r}")
    if not callable(kernel):
        raise TypeError(f"add_kernel: kernel must be a function of arrays, got {kernel!r}")
    _core._add_kernel(op, kernel, device)
