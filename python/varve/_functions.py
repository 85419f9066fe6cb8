"""Gradients and programs of Python functions."""

from __future__ import annotations

import functools
import inspect
from collections import OrderedDict
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import _core
from ._core import Profile, Tensor, Variable
from ._nests import flatten

__all__ = ["grad", "value_and_grad", "gradients", "vjp", "checkpoint", "custom_vjp", "compile", "Compiled"]

_MOST_STRUCTURES = 16


def value_and_grad(
    function: Callable[..., Any], variables: Optional[Sequence[Variable]] = None, *, argnums: int = 0
) -> Any:
    """The value of a function and its gradient.

    `value_and_grad(f)` is a function that returns `(f(x), df/dx)`; x may be a tensor or a nest of them.
    `value_and_grad(f, variables)` calls `f()` at once and returns its value and the gradient of each variable.

    >>> import varve as vv
    >>> value, slope = vv.value_and_grad(lambda x: (x ** 2).sum())(vv.tensor([1.0, 2.0]))
    >>> value.item(), slope.tolist()
    (5.0, [2.0, 4.0])
    """
    if variables is not None:
        return _core._value_and_variable_grads(function, list(variables))

    @functools.wraps(function)
    def both(*args: Any, **options: Any) -> Tuple[Tensor, Any]:
        leaves, _, put = flatten(args[argnums])

        def flat(tensors: List[Tensor]) -> Tensor:
            return function(*args[:argnums], put(tensors), *args[argnums + 1 :], **options)

        value, slopes = _core._value_and_grads(flat, leaves)
        return value, put(slopes)

    return both


def grad(function: Callable[..., Any], *, argnums: int = 0) -> Callable[..., Any]:
    """The gradient of a function with a scalar result; apply it again for higher orders.

    >>> import varve as vv
    >>> vv.grad(lambda x: (x ** 3).sum())(vv.tensor([1.0, 2.0])).tolist()
    [3.0, 12.0]
    """
    both = value_and_grad(function, argnums=argnums)

    @functools.wraps(function)
    def slope(*args: Any, **options: Any) -> Any:
        return both(*args, **options)[1]

    return slope


def gradients(outputs: Any, inputs: Sequence[Tensor], seeds: Optional[Sequence[Tensor]] = None) -> List[Tensor]:
    """The gradient of recorded outputs by recorded inputs; ones flow into each output unless seeds are given.

    Reading a tensor computes it, and a computed tensor forgets what it came from: then this raises. `grad` and
    `value_and_grad` have no such limit.
    """
    outs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    flows = [_core.ones(o.shape, o.dtype) for o in outs] if seeds is None else list(seeds)
    return _core._gradients(outs, flows, list(inputs))


def vjp(function: Callable[..., Any], *inputs: Any) -> Tuple[Any, Callable[..., Any]]:
    """The function's outputs, and a function that pulls gradients of them back to the inputs.

    >>> import varve as vv
    >>> y, pull = vv.vjp(lambda a, b: a * b, vv.tensor([2.0]), vv.tensor([3.0]))
    >>> [g.item() for g in pull(vv.tensor([1.0]))]
    [3.0, 2.0]
    """
    leaves, _, put = flatten(inputs)
    shape: List[Any] = []

    def flat(tensors: List[Tensor]) -> List[Tensor]:
        outs, _, put_out = flatten(function(*put(tensors)))
        shape[:] = [put_out]
        return outs

    outputs, pull = _core._vjp(flat, leaves)

    def pull_nest(*dys: Any) -> Any:
        flows, _, _ = flatten(dys[0] if len(dys) == 1 else dys)
        return put(pull(flows))

    return shape[0](outputs), pull_nest


def checkpoint(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, but its intermediate values are computed again for the gradient instead of being kept."""

    @functools.wraps(function)
    def recomputed(*args: Any, **options: Any) -> Any:
        leaves, _, put = flatten(args)
        shape: List[Any] = []

        def flat(tensors: List[Tensor]) -> List[Tensor]:
            outs, _, put_out = flatten(function(*put(tensors), **options))
            shape[:] = [put_out]
            return outs

        outputs = _core._checkpoint(flat, leaves)
        return shape[0](outputs)

    return recomputed


def custom_vjp(function: Callable[..., Any], rule: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a gradient of your own: `rule(inputs, outputs, dys)` returns a gradient for each input.

    >>> import varve as vv
    >>> f = vv.custom_vjp(lambda x: vv.round(x), lambda inputs, outputs, dys: dys)   # straight through
    >>> vv.grad(lambda x: f(x).sum())(vv.tensor([0.2, 0.7])).tolist()
    [1.0, 1.0]
    """

    @functools.wraps(function)
    def ruled(*args: Any) -> Any:
        leaves, _, put = flatten(args)
        shape: List[Any] = []

        def flat(tensors: List[Tensor]) -> List[Tensor]:
            outs, _, put_out = flatten(function(*put(tensors)))
            shape[:] = [put_out]
            return outs

        outputs = _core._custom_vjp(flat, lambda i, o, dys: list(rule(i, o, dys)), leaves)
        return shape[0](outputs)

    return ruled


class _Results:
    """How a program's flat results are put together. Another shape of the arguments may give another structure."""

    def __init__(self) -> None:
        self._first: Optional[Tuple[Any, Any]] = None
        self._by_types: Dict[Any, Any] = {}
        self._varies = False

    @staticmethod
    def _types(tensors: List[Tensor]) -> Any:
        return tuple((tensor.shape, tensor.dtype) for tensor in tensors)

    def note(self, tensors: List[Tensor], key: Any, put: Any) -> None:
        if self._first is None:
            self._first = (key, put)
        self._varies = self._varies or key != self._first[0]
        self._by_types[self._types(tensors)] = put

    def put(self, tensors: List[Tensor], outputs: List[Tensor]) -> Any:
        assert self._first is not None
        put = self._by_types[self._types(tensors)] if self._varies else self._first[1]
        return put(outputs)


class Compiled:
    """A compiled function: call it like the function.

    One program for each structure, shape and type of the arguments, bounded in number. Tensors, arrays and floats are
    read at each call; integers, strings and other values are part of the program.
    """

    def __init__(self, function: Callable[..., Any], device: str, name: str, tf32: bool) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._options = (device, name, tf32)
        self._made: "OrderedDict[Any, Tuple[Any, _Results]]" = OrderedDict()

    def _program(self, args: Any, options: Any) -> Tuple[Any, _Results, List[Tensor]]:
        leaves, key, put = flatten((args, options))
        made = self._made.get(key)
        if made is None:
            results = _Results()

            def flat(tensors: List[Tensor]) -> List[Tensor]:
                positional, named = put(tensors)
                outs, out_key, put_out = flatten(self._function(*positional, **named))
                results.note(tensors, out_key, put_out)
                return outs

            made = (_core._Compiled(flat, *self._options), results)
            self._made[key] = made
            while len(self._made) > _MOST_STRUCTURES:
                self._made.popitem(last=False)
        return made[0], made[1], leaves

    def __call__(self, *args: Any, **options: Any) -> Any:
        program, results, leaves = self._program(args, options)
        return results.put(leaves, program(leaves))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def peak_bytes(self, *args: Any, **options: Any) -> int:
        """What one call needs at most, known before it runs."""
        program, _, leaves = self._program(args, options)
        return program.peak_bytes(leaves)

    def text(self, *args: Any, **options: Any) -> str:
        """The graph as compiled, and which kernel computes what."""
        program, _, leaves = self._program(args, options)
        return program.text(leaves)

    def graphviz(self, *args: Any, **options: Any) -> str:
        program, _, leaves = self._program(args, options)
        return program.graphviz(leaves)

    def profile(self, *args: Any, repeats: int = 10, **options: Any) -> Profile:
        """Runs the program `repeats` times and times every kernel."""
        program, _, leaves = self._program(args, options)
        return program.profile(leaves, repeats)

    def programs(self) -> int:
        return sum(made[0].programs() for made in self._made.values())


def compile(function: Optional[Callable[..., Any]] = None, *, device: str = "", name: str = "", tf32: bool = False) -> Any:
    """A function of tensors, with the variables it reads and assigns, as one program.

    >>> import varve as vv
    >>> @vv.compile
    ... def double(x):
    ...     return 2 * x
    >>> double(vv.tensor([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """
    if function is None:
        return functools.partial(compile, device=device, name=name, tf32=tf32)
    return Compiled(function, device, name or getattr(function, "__name__", "program"), tf32)
