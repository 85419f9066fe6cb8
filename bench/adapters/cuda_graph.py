"""A whole step of PyTorch as one CUDA graph: https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

import common

WARM = 3  # calls before the capture, while libraries choose their algorithms and set themselves up

Batch = Sequence[torch.Tensor]


def refusal(request: common.Request) -> str:
    """Why what the request asks for is not captured; "" when it is."""
    if request.device == "cpu":
        return f"mode {request.mode} is of GPUs."
    if request.workload.get("stateful"):
        return "a network that carries its state from batch to batch is not captured in a CUDA graph."
    return "parts are timed without a CUDA graph." if request.task == "parts" else ""


class Graph:
    """Calls `work` as it is at first, on a stream aside as PyTorch asks; then captures one call and replays it.

    No call is lost or made twice: steps of a training are the same as without it. What a call returns is overwritten by
    the next. A batch of another shape, as the last one of an epoch, is worked off without the graph.
    """

    def __init__(self, work: Callable[[Batch], torch.Tensor]):
        self.work, self.calls = work, 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.held: Batch = ()
        self.result: torch.Tensor | None = None

    def __call__(self, batch: Batch) -> torch.Tensor:
        self.calls += 1
        if self.calls <= WARM:
            self.held = batch
            return self.aside(batch)
        if self.graph is None:
            self.capture(batch)
        if any(mine.shape != given.shape for mine, given in zip(self.held, batch)):
            return self.work(batch)
        for mine, given in zip(self.held, batch):
            if mine is not given:
                mine.copy_(given)
        self.graph.replay()
        return self.result

    def aside(self, batch: Batch) -> torch.Tensor:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            result = self.work(batch)
        torch.cuda.current_stream().wait_stream(stream)
        return result

    def capture(self, batch: Batch) -> None:
        """A batch that is given again and again is read where it lies; others are copied to a place of the graph."""
        again = all(before is given for before, given in zip(self.held, batch))
        self.held = batch if again else [given.clone() for given in batch]
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.result = self.work(self.held)
        self.graph = graph
