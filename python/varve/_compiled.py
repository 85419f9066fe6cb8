"""Programs of Python functions."""

from __future__ import annotations

import functools
from collections import OrderedDict

from . import _core
from ._core import Profile, Tensor
from ._nests import LEAF, flatten, unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import
    from typing import Any, Callable, Dict, Hashable, List, Optional, Tuple, TypeVar, overload

    F = TypeVar("F", bound=Callable[..., Any])
else:

    def overload(function):
        return function


__all__ = ["compile", "Compiled"]

_MOST_STRUCTURES = 16


class _Results:
    """How a program's flat results are put together. Another shape of the arguments may give another structure."""

    __slots__ = ("first", "_by_types", "_varies")

    def __init__(self) -> None:
        self.first: Optional[Tuple[Hashable]] = None
        self._by_types: Dict[Any, Hashable] = {}
        self._varies = False

    @staticmethod
    def _types(tensors: List[Tensor]) -> Any:
        return tuple([(tensor.shape, tensor.dtype) for tensor in tensors])

    def note(self, tensors: List[Tensor], structure: Hashable) -> None:
        if self.first is None:
            self.first = (structure,)
        self._varies = self._varies or structure != self.first[0]
        self._by_types[self._types(tensors)] = structure

    def put(self, tensors: List[Tensor], outputs: List[Tensor]) -> Any:
        assert self.first is not None
        structure = self._by_types[self._types(tensors)] if self._varies else self.first[0]
        return outputs[0] if structure is LEAF else unflatten(structure, outputs)


class _Traced:
    """What a program is traced from. It knows the function and not the Compiled around it: no cycle holds that."""

    __slots__ = ("_function", "_structure", "results")

    def __init__(self, function: Callable[..., Any], structure: Hashable) -> None:
        self._function, self._structure, self.results = function, structure, _Results()

    def __call__(self, tensors: List[Tensor]) -> List[Tensor]:
        if type(self._structure) is int:
            result = self._function(*tensors)
        else:
            args, options = unflatten(self._structure, tensors)
            result = self._function(*args, **options)
        outs, structure = flatten(result)
        self.results.note(tensors, structure)
        return outs


class Compiled:
    """A compiled function: call it like the function.

    One program for each structure, shape and type of the arguments, bounded in number. Tensors, arrays and floats are
    read at each call; integers, strings and other values are part of the program. A compiled method of a class has
    programs for each instance.

    >>> f = vv.compile(lambda x, scale: {"y": x * scale})
    >>> f(vv.tensor([1.0, 2.0]), 0.5)["y"].tolist()
    [0.5, 1.0]
    """

    def __init__(self, function: Callable[..., Any], device: str = "", name: str = "", tf32: bool = False) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._options = (device, name or getattr(function, "__name__", "program"), tf32)
        self._made: OrderedDict[Hashable, Tuple[_core._Compiled, _Results]] = OrderedDict()
        self._bound: Dict[int, Tuple[Any, Compiled]] = {}

    def _program(self, args: Any, options: Any) -> Tuple[_core._Compiled, _Results, List[Tensor]]:
        leaves: List[Tensor]
        key: Hashable
        for arg in args:
            if type(arg) is not Tensor:
                leaves, key = flatten((args, options))
                break
        else:
            if options:
                leaves, key = flatten((args, options))
            else:
                leaves, key = list(args), len(args)  # the common case: so many tensors
        made = self._made.get(key)
        if made is None:
            traced = _Traced(self._function, key)
            made = (_core._Compiled(traced, *self._options), traced.results)
            self._made[key] = made
            while len(self._made) > _MOST_STRUCTURES:
                self._made.popitem(last=False)
        return made[0], made[1], leaves

    def __call__(self, *args: Any, **options: Any) -> Any:
        program, results, leaves = self._program(args, options)
        return results.put(leaves, program(leaves))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else _Method(self._for(instance), instance)

    def _for(self, instance: Any) -> Compiled:
        """The programs of one instance, which live as long as it does."""
        known = self._bound.get(id(instance))
        if known is not None and known[0]() is instance:
            return known[1]
        import weakref

        bound_to, function, place, table = _reference(instance), self._function, id(instance), self._bound

        @functools.wraps(function)
        def method(*args: Any, **options: Any) -> Any:
            return function(bound_to(), *args, **options)

        made: Compiled = Compiled(method, *self._options)
        if isinstance(bound_to, weakref.ref):
            weakref.finalize(instance, table.pop, place, None).atexit = False
            table[place] = (bound_to, made)
        return made

    def peak_bytes(self, *args: Any, **options: Any) -> int:
        """What one call needs at most, known before it runs.

        >>> vv.compile(lambda x: vv.exp(x) @ x).peak_bytes(vv.ones((8, 8))) >= 2 * 8 * 8 * 4
        True
        """
        program, _, leaves = self._program(args, options)
        return program.peak_bytes(leaves)

    def text(self, *args: Any, **options: Any) -> str:
        """The graph as compiled, which kernel computes what, and why others refused.

        >>> "exp" in vv.compile(lambda x: vv.exp(x) + 1).text(vv.ones(3))
        True
        """
        program, _, leaves = self._program(args, options)
        return program.text(leaves)

    def graphviz(self, *args: Any, **options: Any) -> str:
        """The graph as compiled, for `dot`.

        >>> vv.compile(lambda x: x + 1).graphviz(vv.ones(3)).startswith("digraph")
        True
        """
        program, _, leaves = self._program(args, options)
        return program.graphviz(leaves)

    def profile(self, *args: Any, repeats: int = 10, **options: Any) -> Profile:
        """Runs the program `repeats` times and times every kernel; variables are updated as in any other call.

        >>> vv.compile(lambda x: x + 1).profile(vv.ones(3), repeats=2).total_ms > 0
        True
        """
        program, _, leaves = self._program(args, options)
        return program.profile(leaves, repeats)

    def programs(self) -> int:
        """How many programs there are.

        >>> f = vv.compile(lambda x: x + 1)
        >>> f(vv.ones(3)).shape, f(vv.ones(4)).shape, f.programs()
        ((3,), (4,), 2)
        """
        return sum(made[0].programs() for made in self._made.values())


def _reference(instance: Any) -> Callable[[], Any]:
    import weakref  # slow to import

    try:
        return weakref.ref(instance)
    except TypeError:
        return lambda: instance


class _Method:
    """A compiled method of one instance."""

    __slots__ = ("_compiled", "__self__")

    def __init__(self, compiled: Compiled, instance: Any) -> None:
        self._compiled, self.__self__ = compiled, instance

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._compiled(*args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)


@overload
def compile(function: F, *, device: str = "", name: str = "", tf32: bool = False) -> Compiled: ...
@overload
def compile(
    function: None = None, *, device: str = "", name: str = "", tf32: bool = False
) -> Callable[[F], Compiled]: ...
def compile(function: Any = None, *, device: str = "", name: str = "", tf32: bool = False) -> Any:
    """A function of tensors, with the variables it reads and assigns, as one program.

    Arguments and results may be nests of lists, tuples, dicts and dataclasses. `tf32` lets products of f32 round their
    operands to 10 bits on GPUs that can.

    >>> @vv.compile
    ... def double(x):
    ...     return 2 * x
    >>> double(vv.tensor([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """
    if function is None:
        return functools.partial(compile, device=device, name=name, tf32=tf32)
    if not callable(function):
        raise TypeError(f"compile: expected a function, got {function!r} ({type(function).__name__})")
    return Compiled(function, device, name, tf32)
