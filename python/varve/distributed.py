"""Several processes train one model together: who we are, and values of all of them combined.

    varve launch -n 4 python train.py       # or mpirun, srun, torchrun; python -m varve.launch is the same

`fit`, and loops of your own with a bound optimiser and a `DataLoader`, need no change: batches are shared, gradients averaged.

    if distributed.rank() == 0: print("speaks for all")
    mean = distributed.all_mean(loss)       # an operator: lazy, differentiable, in a compiled function or not
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Optional

from . import _core
from ._core import (
    Alone, Compression, Parallel, all_gather, all_max, all_mean, all_min, all_sum, all_to_all, broadcast, broadcast_variables,
    check_processors, check_ranks, compression_by_name, engine, gather_gradients, gather_text, half, is_of_each_rank, is_sharded, is_split, join, keep_like, kept_of, last_words, launch,
    local_rank, local_size, mean_gradients, note, one_bit, own_part, part_of, place, placed_on, power_sgd, rank, rank_barrier, recv, recv_any,
    scatter_gradients, send, shard, shares_batch, size, split, sum_scatter, top_k, transfer, unshard, variable_of_each_rank, whole_of, wire_time,
)  # fmt: skip

__all__ = [
    "Alone", "Compression", "Parallel", "WholeBatch", "all_gather", "all_max", "all_mean", "all_min", "all_sum", "all_to_all", "broadcast",
    "broadcast_variables", "check_processors", "check_ranks", "compression_by_name", "engine", "gather_gradients", "gather_text", "half", "is_of_each_rank",
    "is_sharded", "is_split", "join", "keep_like", "kept_of", "last_words", "launch", "local_rank", "local_size", "mean_gradients", "note", "one_bit", "own_part",
    "part_of", "place", "placed_on", "power_sgd", "rank", "rank_barrier", "recv", "recv_any", "scatter_gradients", "send", "shard", "shares_batch", "size", "split", "sum_scatter",
    "top_k", "transfer", "unshard", "variable_of_each_rank", "whole_of", "wire_time",
]  # fmt: skip


def _say_what_nobody_catches() -> None:
    before = sys.excepthook

    def say(kind: type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
        if issubclass(kind, Exception):
            last_words(f"{kind.__name__}: {error}")
        before(kind, error, trace)

    sys.excepthook = say


if size() > 1:
    _say_what_nobody_catches()


class WholeBatch:
    """While it runs, the ranks of this thread work on the same samples, each on its part of the model.

    Loaders read whole batches, and gradients and statistics are not averaged over ranks. `fit` and `evaluate` do so by
    themselves for a model that is placed on ranks.

    >>> from varve import distributed
    >>> with distributed.WholeBatch():
    ...     distributed.shares_batch()
    False
    """

    def __init__(self) -> None:
        self._scope = _core._WholeBatch()

    def __enter__(self) -> "WholeBatch":
        self._scope.enter()
        return self

    def __exit__(self, *error: Any) -> None:
        self._scope.exit()
