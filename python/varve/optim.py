"""Optimisers and schedules of the rate, from the library's own tables: `optim.Adam(1e-3)`, `optim.cosine()`."""

from __future__ import annotations

from typing import Any, Callable, List, Sequence

from . import _core
from ._core import BoundOptimizer, Optimizer, Schedule

_SPELLED = {"sgd": "SGD", "adamw": "AdamW"}


def _maker(name: str, keys: List[str], make: Callable[..., Any], what: str) -> Callable[..., Any]:
    def maker(*args: float, **options: float) -> Any:
        given = list(zip(keys, args)) + list(options.items())
        return make(name, [(key, float(value)) for key, value in given])

    maker.__name__ = maker.__qualname__ = _SPELLED.get(name, name)
    maker.__doc__ = f"{what} {name}: {', '.join(keys) or 'no options'}."
    return maker


_optimizers = []
for _name, _keys in _core._optimizers():
    _python = _SPELLED.get(_name, _name.capitalize())
    globals()[_python] = _maker(_name, _keys, _core._optimizer, "The optimiser")
    _optimizers.append(_python)
_schedules = []
for _name, _keys in _core._schedules():
    globals()[_name] = _maker(_name, _keys, _core._schedule, "The schedule")
    _schedules.append(_name)


def own(
    update: Callable[..., Sequence[Any]], state: Sequence[str] = (), rate: float = 1e-3, weight_decay: float = 0.0, name: str = "own"
) -> Optimizer:
    """An optimiser of your own: `update(parameter, gradient, state, rate, step)` returns the new parameter and state.

    >>> import varve as vv
    >>> from varve import optim
    >>> plain = optim.own(lambda w, g, state, rate, step: [w - rate * g], rate=0.5)
    >>> w = vv.Variable([1.0, 2.0])
    >>> plain.over([w]).apply([vv.tensor([1.0, 1.0])])
    >>> w.tolist()
    [0.5, 1.5]
    """
    return _core._own_optimizer(name, list(state), lambda *slot: list(update(*slot)), rate, weight_decay)
