"""Transforms of Python functions: over a batch of examples, forward derivatives, Jacobians, Hessians."""

from __future__ import annotations

import functools

from . import _core
from ._core import Tensor, Variable
from ._functions import _callable, _Flat, _scalar
from ._nests import flatten, only_tensors, unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import
    from typing import Any, Callable, Hashable, List, Optional, Sequence, Tuple, Union

    Axis = Optional[int]
    Argnums = Union[int, Sequence[int]]

__all__ = ["vmap", "jvp", "jacobian", "hessian", "hvp"]


def _axis_of_each(axes: Any, parts: Sequence[Any], what: str) -> List[Axis]:
    """One axis for each part: the same for all, or a list of them."""
    if axes is None or isinstance(axes, int):
        return [axes] * len(parts)
    if not isinstance(axes, (list, tuple)) or not all(each is None or isinstance(each, int) for each in axes):
        raise TypeError(f"vmap: {what} is {axes!r}; expected an axis, None, or a list of them")
    given = list(axes)
    if len(given) != len(parts):
        raise ValueError(f"vmap: {what} names {len(given)} axes for {len(parts)}: one for each, or one for all")
    return given


def vmap(
    function: Callable[..., Any],
    in_axes: Union[Axis, Sequence[Axis]] = 0,
    out_axes: Union[int, Sequence[int]] = 0,
    *,
    randomness: str = "different",
) -> Callable[..., Any]:
    """The function for a batch of examples: it sees one, without the axis it is mapped over, and results are stacked.

    `in_axes` names the axis of examples of each positional argument, or of all of them; None shares an argument among the
    examples. A nest has one axis for all its tensors. Keyword arguments have the first; numbers among them are shared. `out_axes` does the same for
    results. Random numbers are each example's own, or with `randomness="same"` those that a single call would draw.

    >>> x = vv.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> vv.vmap(lambda row: (row * row).sum())(x).tolist()
    [5.0, 25.0]
    >>> w = vv.tensor([2.0, -1.0])
    >>> slopes = vv.vmap(vv.grad(lambda w, row: (w * row).sum() ** 2), in_axes=(None, 0))(w, x)   # of each example
    >>> slopes.tolist()
    [[0.0, 0.0], [12.0, 16.0]]
    """
    _callable(function, "vmap")
    if randomness not in ("different", "same"):
        raise ValueError(f'vmap: randomness is {randomness!r}; expected "different" or "same"')

    @functools.wraps(function)
    def mapped(*args: Any, **options: Any) -> Any:
        axes: List[Axis] = []
        for part, axis in zip(args, _axis_of_each(in_axes, args, "in_axes")):
            axes += [axis] * len(flatten(part)[0])
        leaves, structure = flatten((args, options))
        axes += [0 if leaf.ndim else None for leaf in leaves[len(axes) :]]
        flat = _Flat(function, structure)
        results = _core._vmap(flat, leaves, axes, randomness == "different")
        if isinstance(out_axes, int):
            return unflatten(flat.out, [_moved(result, out_axes) for result in results])
        whole = unflatten(flat.out, results)
        if not isinstance(whole, tuple):
            raise TypeError(f"vmap: out_axes names several axes, but the function returned a {type(whole).__name__}")
        parts = zip(whole, _axis_of_each(out_axes, whole, "out_axes"))
        return tuple([_nest_moved(part, 0 if axis is None else axis) for part, axis in parts])

    return mapped


def _moved(result: Tensor, axis: int) -> Tensor:
    """The axis of examples, which is first, moved to where it is wanted."""
    rank = result.ndim
    if not -rank <= axis < rank:
        raise ValueError(f"vmap: out_axes is {axis}, but a result has shape {list(result.shape)} with its examples")
    place = axis % rank
    if place == 0:
        return result
    order = list(range(1, rank))
    order.insert(place, 0)
    return _core.transpose(result, order)


def _nest_moved(nest: Any, axis: int) -> Any:
    leaves, structure = flatten(nest)
    return unflatten(structure, [_moved(leaf, axis) for leaf in leaves])


def jvp(function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Tuple[Any, Any]:
    """The function's outputs, and how they change when its arguments move along the tangents.

    Tangents have the structure of the arguments; None in place of one: that argument does not move. The tangent of an
    output that is not floating-point is None.

    >>> y, dy = vv.jvp(lambda a, b: a * b, (2.0, 5.0), (1.0, 10.0))
    >>> y.item(), dy.item()
    (10.0, 25.0)
    """
    _callable(function, "jvp")
    for what, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, (list, tuple)):
            raise TypeError(f"jvp: {what} must be a tuple with one for each argument, got a {type(given).__name__}")
    args, moves = tuple(primals), tuple(tangents)
    if len(args) != len(moves):
        raise ValueError(f"jvp: {len(args)} arguments but {len(moves)} tangents")
    leaves, structure = flatten((args, {}))
    flows: List[Optional[Tensor]] = []
    for number, (part, move) in enumerate(zip(args, moves)):
        mine, shape = flatten(part)
        if move is None:
            flows += [None] * len(mine)
            continue
        along, same = flatten(move)
        if same != shape:
            raise TypeError(f"jvp: tangent {number} has another structure than its argument")
        flows += along
    flat = _Flat(function, structure)
    outputs, moved = _core._jvp(flat, leaves, flows)
    rates: List[Any] = list(moved)  # None among them
    return unflatten(flat.out, outputs), unflatten(flat.out, rates)


class _By:
    """A function of the arguments that it is differentiated by, as a function of their leaves."""

    def __init__(self, function: Callable[..., Any], argnums: Argnums, args: Any, options: Any) -> None:
        self.one = isinstance(argnums, int)
        self.places = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        for place in self.places:
            if not -len(args) <= place < len(args):
                raise TypeError(f"argnums: there is no argument {place}; the call has {len(args)} positional ones")
        self._function, self._args, self._options = function, args, options
        self.leaves, self.structure = flatten(tuple([args[place] for place in self.places]))
        why = only_tensors(self.structure, "the argument to differentiate by")
        if why:
            raise TypeError(why)
        self.out: Hashable = None

    def result(self, tensors: List[Tensor]) -> Any:
        given = list(self._args)
        for place, part in zip(self.places, unflatten(self.structure, tensors)):
            given[place] = part
        return self._function(*given, **self._options)

    def flat(self, tensors: List[Tensor]) -> List[Tensor]:
        outs, self.out = flatten(self.result(tensors))
        return outs

    def scalar(self, tensors: List[Tensor]) -> Tensor:
        return _scalar(self.result(tensors), self._function)

    def nest(self, parts: Sequence[Any]) -> Any:
        """What stands for each leaf, in the structure of the arguments."""
        whole = unflatten(self.structure, list(parts))
        return whole[0] if self.one else whole


def jacobian(function: Callable[..., Any], *, argnums: Argnums = 0, mode: str = "auto") -> Callable[..., Any]:
    """The Jacobian of a function: for each output a tensor with its axes, and then those of the argument.

    Outputs and arguments may be nests: the result has the structure of the outputs, and in place of each tensor that of
    the arguments in `argnums`. `mode` is "reverse" (a pullback for each output element), "forward" (a push forward for
    each input element), or "auto": whichever are fewer. Each way all of them run as one batch.

    >>> vv.jacobian(lambda x: x * x)(vv.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    _callable(function, "jacobian")
    if mode not in ("auto", "reverse", "forward"):
        raise ValueError(f'jacobian: mode is {mode!r}; expected "auto", "reverse" or "forward"')

    @functools.wraps(function)
    def matrix(*args: Any, **options: Any) -> Any:
        by = _By(function, argnums, args, options)
        rows = _core._jacobians(by.flat, by.leaves, mode)
        return unflatten(by.out, [by.nest(row) for row in rows])

    return matrix


def hessian(function: Callable[..., Any], *, argnums: Argnums = 0) -> Callable[..., Any]:
    """The second derivatives of a function with a scalar result: the argument's axes twice.

    For nests, and for several arguments, the structure of the arguments twice: `h["w"]["b"]`.

    >>> vv.hessian(lambda x: (x ** 3).sum())(vv.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    _callable(function, "hessian")

    @functools.wraps(function)
    def matrix(*args: Any, **options: Any) -> Any:
        by = _By(function, argnums, args, options)
        rows = _core._hessians(by.scalar, by.leaves)
        return by.nest([by.nest(row) for row in rows])

    return matrix


def hvp(function: Callable[..., Any], inputs: Any, vectors: Any) -> Any:
    """The Hessian of a function with a scalar result times a vector, without the Hessian: two gradients.

    `hvp(f, x, v)`: x, and v beside it, may be a tensor or a nest of them; `hvp(f, variables, vectors)` calls `f()`.

    >>> vv.hvp(lambda x: (x ** 3).sum(), vv.tensor([1.0, 2.0]), vv.tensor([1.0, 1.0])).tolist()
    [6.0, 12.0]
    >>> w = vv.Variable([1.0, 2.0])
    >>> [v.tolist() for v in vv.hvp(lambda: (w * w).sum(), [w], [vv.ones(2)])]
    [[2.0, 2.0]]
    """
    _callable(function, "hvp")
    along, other = flatten(vectors)
    if isinstance(inputs, (list, tuple)) and inputs and all(isinstance(each, Variable) for each in inputs):
        return _core._hvp_of_variables(lambda: _scalar(function(), function), list(inputs), along)
    leaves, structure = flatten(inputs)
    if other != structure:
        raise TypeError("hvp: the vectors have another structure than the inputs")
    return unflatten(
        structure,
        _core._hvp(lambda tensors: _scalar(function(unflatten(structure, tensors)), function), leaves, along),
    )
