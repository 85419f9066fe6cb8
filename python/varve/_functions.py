"""Gradients of Python functions, and loops as operators."""

from __future__ import annotations

import functools

from . import _core
from ._core import Tensor, Variable
from ._nests import LEAF, flatten, only_tensors, unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import
    from typing import Any, Callable, Hashable, List, Optional, Sequence, Tuple, TypeVar, Union

    F = TypeVar("F", bound=Callable[..., Any])
    Argnums = Union[int, Sequence[int]]

__all__ = ["grad", "value_and_grad", "gradients", "vjp", "checkpoint", "custom_vjp", "scan"]


def _scalar(value: Any, function: Any) -> Tensor:
    """What a differentiated function returned, as a tensor."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Variable):
        return value.value()
    name = getattr(function, "__name__", "the function")
    hint = " (has_aux=True takes a loss and other results)" if isinstance(value, tuple) else ""
    raise TypeError(f"{name} returned a {type(value).__name__}; expected a tensor with one element to differentiate{hint}")


def _callable(function: Any, where: str) -> None:
    if not callable(function):
        raise TypeError(f"{where}: expected a function, got {function!r} ({type(function).__name__})")


def value_and_grad(
    function: Callable[..., Any],
    variables: Optional[Sequence[Variable]] = None,
    *,
    argnums: Argnums = 0,
    has_aux: bool = False,
) -> Any:
    """The value of a function and its gradient.

    `value_and_grad(f)` is a function that returns `(f(x), df/dx)`; x may be a tensor or a nest of them, and `argnums`
    names the arguments to differentiate by: one, or several for a tuple of gradients.
    `value_and_grad(f, variables)` calls `f()` at once and returns its value and the gradient of each variable.
    With `has_aux` the function returns a loss and something else, and both come back: `((loss, aux), grads)`.

    >>> value, slope = vv.value_and_grad(lambda x: (x ** 2).sum())(vv.tensor([1.0, 2.0]))
    >>> value.item(), slope.tolist()
    (5.0, [2.0, 4.0])
    >>> w = vv.Variable([1.0, 2.0])
    >>> loss, (slope,) = vv.value_and_grad(lambda: (w * w).sum(), [w])
    >>> slope.tolist()
    [2.0, 4.0]
    """
    _callable(function, "value_and_grad")
    aux: List[Any] = []

    def scalar(value: Any) -> Tensor:
        if not has_aux:
            return _scalar(value, function)
        if not isinstance(value, tuple) or len(value) != 2:
            raise TypeError(f"with has_aux the function returns (loss, aux), got {type(value).__name__}")
        aux[:] = [value[1]]
        return _scalar(value[0], function)

    if variables is not None:
        wanted = list(variables)
        for each in wanted:
            if not isinstance(each, Variable):
                raise TypeError(f"value_and_grad: variables must be variables, got a {type(each).__name__}")
        value, slopes = _core._value_and_variable_grads(lambda: scalar(function()), wanted)
        return ((value, aux[0]) if has_aux else value), slopes
    one = isinstance(argnums, int)
    places = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @functools.wraps(function)
    def both(*args: Any, **options: Any) -> Tuple[Any, Any]:
        seen: List[Any] = []
        for place in places:
            if not -len(args) <= place < len(args):
                raise TypeError(f"argnums: there is no argument {place}; the call has {len(args)} positional ones")
        leaves, structure = flatten(tuple([args[place] for place in places]))
        why = only_tensors(structure, "the argument to differentiate by")
        if why:
            raise TypeError(why)
        if not leaves:
            raise TypeError("the argument to differentiate by holds no tensor")

        def flat(tensors: List[Tensor]) -> Tensor:
            given = list(args)
            for place, part in zip(places, unflatten(structure, tensors)):
                given[place] = part
            result = function(*given, **options)
            if has_aux:
                loss = scalar(result)
                seen[:] = aux
                return loss
            return _scalar(result, function)

        value, slopes = _core._value_and_grads(flat, leaves)
        nest = unflatten(structure, slopes)
        return ((value, seen[0]) if has_aux else value), (nest[0] if one else nest)

    return both


def grad(function: Callable[..., Any], *, argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The gradient of a function with a scalar result; apply it again for higher orders.

    `argnums` names the arguments to differentiate by: one, or several for a tuple of gradients. With `has_aux` the
    function returns a loss and something else, and the result is `(gradient, aux)`.

    >>> vv.grad(lambda x: (x ** 3).sum())(vv.tensor([1.0, 2.0])).tolist()
    [3.0, 12.0]
    >>> [g.item() for g in vv.grad(lambda a, b: a * b, argnums=(0, 1))(2.0, 5.0)]
    [5.0, 2.0]
    """
    _callable(function, "grad")
    both = value_and_grad(function, argnums=argnums, has_aux=has_aux)

    @functools.wraps(function)
    def slope(*args: Any, **options: Any) -> Any:
        value, slopes = both(*args, **options)
        return (slopes, value[1]) if has_aux else slopes

    return slope


def gradients(outputs: Any, inputs: Sequence[Tensor], seeds: Optional[Sequence[Tensor]] = None) -> List[Tensor]:
    """The gradient of recorded outputs by recorded inputs; ones flow into each output unless seeds are given.

    Reading a tensor computes it, and a computed tensor forgets what it came from: then this raises. `grad` and
    `value_and_grad` have no such limit.

    >>> x = vv.tensor([3.0])
    >>> vv.gradients((x * x).sum(), [x])[0].tolist()
    [6.0]
    """
    outs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    wanted = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    for each in (*outs, *wanted):
        if not isinstance(each, Tensor):
            raise TypeError(f"gradients: expected tensors, got a {type(each).__name__}")
    flows = [_core.ones(o.shape, o.dtype) for o in outs] if seeds is None else [_core.tensor(seed) for seed in seeds]
    return _core._gradients(outs, flows, wanted)


class _Flat:
    """A function of nests as a function of flat lists; remembers the structure of what it returned."""

    def __init__(self, function: Callable[..., Any], structure: Hashable) -> None:
        self._function, self._structure = function, structure
        self.out: Hashable = LEAF

    def __call__(self, tensors: List[Tensor]) -> List[Tensor]:
        args, options = unflatten(self._structure, tensors)
        outs, self.out = flatten(self._function(*args, **options))
        return outs


def vjp(function: Callable[..., Any], *inputs: Any) -> Tuple[Any, Callable[..., Any]]:
    """The function's outputs, and a function that pulls gradients of them back to the inputs.

    >>> y, pull = vv.vjp(lambda a, b: a * b, vv.tensor([2.0]), vv.tensor([3.0]))
    >>> [g.item() for g in pull(vv.tensor([1.0]))]
    [3.0, 2.0]
    """
    _callable(function, "vjp")
    leaves, structure = flatten((inputs, {}))
    flat = _Flat(function, structure)
    outputs, pull = _core._vjp(flat, leaves)

    def pull_nest(*dys: Any) -> Any:
        flows, _ = flatten(dys[0] if len(dys) == 1 else dys)
        if len(flows) != len(outputs):
            raise ValueError(f"vjp: expected a gradient for each of {len(outputs)} outputs, got {len(flows)}")
        return unflatten(structure, pull(flows))[0]

    return unflatten(flat.out, outputs), pull_nest


def checkpoint(function: F) -> F:
    """The function, but its intermediate values are computed again for the gradient instead of being kept.

    >>> block = vv.checkpoint(lambda x: vv.tanh(vv.exp(x)))
    >>> vv.grad(lambda x: block(x).sum())(vv.tensor([0.0])).shape
    (1,)
    """
    _callable(function, "checkpoint")

    @functools.wraps(function)
    def recomputed(*args: Any, **options: Any) -> Any:
        leaves, structure = flatten((args, options))
        flat = _Flat(function, structure)
        outputs = _core._checkpoint(flat, leaves)
        return unflatten(flat.out, outputs)

    return recomputed  # type: ignore[return-value]


def custom_vjp(function: Callable[..., Any], rule: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a gradient of your own: `rule(inputs, outputs, dys)` returns a gradient for each input.

    The rule is given lists of tensors: those in the arguments, those in the result, and the gradient of each result.

    >>> f = vv.custom_vjp(lambda x: vv.round(x), lambda inputs, outputs, dys: dys)   # straight through
    >>> vv.grad(lambda x: f(x).sum())(vv.tensor([0.2, 0.7])).tolist()
    [1.0, 1.0]
    """
    _callable(function, "custom_vjp")
    _callable(rule, "custom_vjp")

    def checked(inputs: List[Tensor], outputs: List[Tensor], dys: List[Tensor]) -> List[Tensor]:
        slopes = rule(inputs, outputs, dys)
        slopes = list(slopes) if isinstance(slopes, (list, tuple)) else [slopes]
        if len(slopes) != len(inputs):
            raise ValueError(f"custom_vjp: the rule returned {len(slopes)} gradients for {len(inputs)} inputs")
        return [each if isinstance(each, Tensor) else _core.tensor(each) for each in slopes]

    @functools.wraps(function)
    def ruled(*args: Any, **options: Any) -> Any:
        leaves, structure = flatten((args, options))
        flat = _Flat(function, structure)
        outputs = _core._custom_vjp(flat, checked, leaves)
        return unflatten(flat.out, outputs)

    return ruled


def scan(
    body: Callable[..., Any], carry: Any, xs: Any = None, *, reverse: bool = False, length: Optional[int] = None
) -> Tuple[Any, Any]:
    """A loop as one operator: `carry, y = body(carry, x)` for each x along the leading axis of `xs`.

    carry, xs and y may be nests. Returns the last carry and the ys, stacked along a new leading axis. Without xs the
    body is given None, and `length` says how often it runs.

    >>> total, sums = vv.scan(lambda carry, x: (carry + x, carry + x), vv.tensor(0.0), vv.tensor([1.0, 2.0, 3.0]))
    >>> total.item(), sums.tolist()
    (6.0, [1.0, 3.0, 6.0])
    """
    _callable(body, "scan")
    start, carried = flatten(carry)
    given, each = flatten(xs)
    out: List[Hashable] = [LEAF]

    def step(carry: List[Tensor], x: List[Tensor]) -> Tuple[List[Tensor], List[Tensor]]:
        result = body(unflatten(carried, carry), unflatten(each, x))
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(f"scan: the body returned a {type(result).__name__}; expected (carry, y)")
        following, structure = flatten(result[0])
        if structure != carried:
            raise TypeError("scan: the body returned a carry of another structure than it was given")
        ys, out[0] = flatten(result[1])
        return following, ys

    last, ys = _core._scan(step, start, given, reverse, -1 if length is None else length)
    return unflatten(carried, last), unflatten(out[0], ys)
