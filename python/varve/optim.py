"""Optimisers, schedules of the rate, and averages of weights.

Optimisers come from the library's table: `optim.Adam(1e-3)`, `optim.SGD(0.1, momentum=0.9)`. One is a recipe that can be
passed about; `fit` binds it to a model's parameters, and so does `over` in a loop of your own:

    adam = optim.Adam(1e-3).clip_norm(1.0).over(model.parameters())
    loss, slopes = vv.value_and_grad(f, model.parameters())
    adam.apply(slopes)

Schedules are factors of the rate: `optim.cosine()`, `optim.one_cycle()`, `optim.step_decay(every=30)`,
`optim.cosine().after_warmup(5)`; `model.fit(…, schedule=optim.cosine())`.

Of your own: `optim.own(update)` is an optimiser, `optim.Schedule("name", factor)` a schedule.
"""

from __future__ import annotations

from . import _core
from ._core import Average, BoundOptimizer, Optimizer, RankAverage, Schedule
from ._tables import *

from . import _tables

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import
    from typing import Any, Callable, List, Sequence

__all__ = ["Average", "BoundOptimizer", "Optimizer", "RankAverage", "Schedule", "milestones", "own"]
__all__ += _tables.__all__


def milestones(epochs: Sequence[float], factor: float = 0.1) -> Schedule:
    """The schedule that multiplies the rate by a factor at each of these epochs.

    >>> optim.milestones([2, 4]).factor(0, 10, 3.0, 6.0)
    0.1
    """
    return _core._milestones([float(epoch) for epoch in epochs], float(factor))


def own(
    update: Callable[..., Sequence[Any]], state: Sequence[str] = (), rate: float = 1e-3, weight_decay: float = 0.0, name: str = "own"
) -> Optimizer:
    """An optimiser of your own: `update(parameter, gradient, state, rate, step)` returns the new parameter and state.

    >>> plain = optim.own(lambda w, g, state, rate, step: [w - rate * g], rate=0.5)
    >>> w = vv.Variable([1.0, 2.0])
    >>> plain.over([w]).apply([vv.tensor([1.0, 1.0])])
    >>> w.tolist()
    [0.5, 1.5]
    """
    if not callable(update):
        raise TypeError(f"own: update must be a function, got {update!r} ({type(update).__name__})")

    def checked(*slot: Any) -> List[Any]:
        result = update(*slot)
        return list(result) if isinstance(result, (list, tuple)) else [result]

    return _core._own_optimizer(name, list(state), checked, float(rate), float(weight_decay))


def __dir__() -> List[str]:
    return sorted(__all__)
