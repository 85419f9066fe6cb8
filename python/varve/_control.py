"""Control flow in programs: a branch that is taken or not, and a loop that ends when a value says so."""

from __future__ import annotations

from . import _core
from ._core import Tensor
from ._core import tensor as _tensor
from ._functions import _callable
from ._nests import LEAF, flatten, unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import
    from typing import Any, Callable, Hashable, List, Optional

__all__ = ["cond", "while_loop"]


def _truth(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else _tensor(value)


def cond(predicate: Any, then: Callable[..., Any], otherwise: Callable[..., Any], *operands: Any) -> Any:
    """What `then(*operands)` gives where the predicate holds, else what `otherwise(*operands)` gives.

    Only the branch that is taken is computed. Both are called once, to be recorded, and must give the same structure,
    types and shapes; operands and results may be nests, and what the functions capture are operands too. Neither may
    read values, assign variables or call collectives. The gradient takes the same branch.

    >>> x = vv.tensor([1.0, -2.0])
    >>> vv.cond(x.sum() > 0, lambda: x * 2, lambda: -x).tolist()
    [-1.0, 2.0]
    """
    _callable(then, "cond")
    _callable(otherwise, "cond")
    given, structure = flatten(operands)
    results: List[Hashable] = []

    def branch(function: Callable[..., Any]) -> Callable[[List[Tensor]], List[Tensor]]:
        def run(leaves: List[Tensor]) -> List[Tensor]:
            out, of = flatten(function(*unflatten(structure, leaves)))
            results.append(of)
            if results[0] != of:
                raise TypeError("cond: the two branches return different structures; both must give the same nest")
            return out

        return run

    out = _core._cond(_truth(predicate), branch(then), branch(otherwise), given)
    return unflatten(results[0], out)


def while_loop(
    condition: Callable[..., Any],
    body: Callable[..., Any],
    carry: Any,
    *,
    max_steps: Optional[int] = None,
    recompute: bool = False,
) -> Any:
    """`carry = body(carry)` for as long as `condition(carry)`, one truth value, holds.

    carry may be a nest of tensors, and keeps its structure, types and shapes. Both functions are called once, to be
    recorded; they may not read values, assign variables or call collectives. A loop that would go on after `max_steps`
    is an error at the next read. Its gradient keeps the carries of each step, and needs max_steps; with
    `recompute=True` it computes them from the first ones instead, in the time of n²/2 steps.

    >>> root = vv.while_loop(lambda x: (x * x - 2).abs() > 1e-6, lambda x: (x + 2 / x) / 2, vv.tensor(1.0), max_steps=20)
    >>> round(root.item(), 4)
    1.4142
    """
    _callable(condition, "while_loop")
    _callable(body, "while_loop")
    start, carried = flatten(carry)

    def step(leaves: List[Tensor]) -> List[Tensor]:
        following, structure = flatten(body(unflatten(carried, leaves)))
        if structure != carried:
            hint = "; a counter is a tensor: vv.tensor(0)" if carried != LEAF else ""
            raise TypeError(f"while_loop: the body returned a carry of another structure than it was given{hint}")
        return following

    def check(leaves: List[Tensor]) -> Tensor:
        return _truth(condition(unflatten(carried, leaves)))

    last = _core._while_loop(check, step, start, -1 if max_steps is None else max_steps, recompute)
    return unflatten(carried, last)
