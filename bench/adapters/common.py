"""What the adapters of all peers share: the request, what a peer must do, and the answer.

An adapter is one file: `request = common.begin()`, then the framework's import, a subclass of Peer, and
`common.finish(request, ThePeer)`. begin() pins the process and sets the environment, which most frameworks read only
once, when they are imported. README.md beside this file says what a request and an answer hold.
"""

from __future__ import annotations

import json
import math
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import process
import tasks

class Unsupported(Exception):
    """This peer cannot do what the request asks; the message says why."""


@dataclass
class Slot:
    """A trainable parameter of a peer: its shape in Varve's layout, and how to set it from an array laid out so."""

    shape: tuple[int, ...]
    assign: Callable[[np.ndarray], None]


@dataclass
class Request:
    """REQUEST.json. `workload` is its object as it came; `family` and `optimizer` are the two parts all need."""

    task: str
    framework: str
    workload: dict[str, Any]
    result: str
    batch: int = 1
    threads: int = 1
    precision: str = "f32"
    device: str = "cpu"
    mode: str = ""
    seed: int = 0
    warmup: dict[str, float] = field(default_factory=dict)
    samples: int = 10
    min_seconds: float = 1.0
    max_seconds: float = 60.0
    weights: str | None = None
    batches: str | None = None
    dropout: bool = True
    data: str | None = None
    epochs: int = 1
    target: float | None = None
    ranks: int = 1
    rank: int = 0
    meeting: str | None = None
    schema: int = 1

    @staticmethod
    def read(path: str) -> Request:
        given = json.loads(Path(path).read_text())
        known = {k: v for k, v in given.items() if k in Request.__dataclass_fields__ and v is not None}
        return Request(**known)

    @property
    def share(self) -> int:
        """This rank's samples of a batch."""
        return self.batch // self.ranks

    @property
    def family(self) -> str:
        return self.workload["family"]

    @property
    def dropout_rate(self) -> float:
        return float(self.workload.get("dropout_rate", 0.0)) if self.dropout else 0.0

    @property
    def optimizer(self) -> Optimizer:
        return Optimizer(**self.workload["optimizer"])

    @property
    def bf16(self) -> bool:
        return self.precision == "bf16"

    @property
    def tf32(self) -> bool:
        return self.precision == "tf32"


@dataclass
class Optimizer:
    """The optimiser of a workload, with the constants that Varve has where the workload names none."""

    name: str
    rate: float
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float | None = None
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    clip_norm: float = 0.0

    def __post_init__(self) -> None:
        self.rate = float(self.rate)
        if self.weight_decay is None:
            self.weight_decay = 0.01 if self.name == "adamw" else 0.0


class Peer:
    """A framework that holds the network of a workload, and its optimiser.

    A batch is what the framework computes on, already on the device. Methods that return a loss may return before it is
    computed; `value` waits for it, and for all work before it.
    """

    version = ""
    flags: dict[str, Any] = {}
    trees = False  # it can train a network whose graph differs from sample to sample
    ranks = False  # it can be one of several that train together
    pooled = False  # its worker threads sleep between operators: see process.spread_workers
    out_of_memory: tuple[type[BaseException], ...] = ()  # what this framework throws then, beside MemoryError

    def slots(self) -> list[Slot]:
        """The trainable parameters in the order of Varve's model.parameters()."""
        raise NotImplementedError

    def load_file(self, path: str) -> dict[str, np.ndarray]:
        """The arrays of a safetensors file."""
        from safetensors.numpy import load_file

        return load_file(path)

    def batch(self, x: np.ndarray, y: np.ndarray) -> Any:
        raise NotImplementedError

    def hold(self, x: np.ndarray, y: np.ndarray) -> Any:
        """A whole data set where batches are taken from quickest: on a GPU, in its memory."""
        return x, y

    def take(self, held: Any, chosen: np.ndarray) -> Any:
        """The batch of these samples of what `hold` returned."""
        return self.batch(held[0][chosen], held[1][chosen])

    def step(self, batch: Any) -> Any:
        """Forward, loss, gradient and update; returns the loss."""
        raise NotImplementedError

    def infer(self, batch: Any) -> Any:
        """The network's outputs in inference mode."""
        raise NotImplementedError

    def forward(self, batch: Any) -> Any:
        """The loss in training mode, and nothing after it."""
        raise NotImplementedError

    def gradients(self, batch: Any) -> tuple[Any, Any]:
        """The loss and the gradients, which stay where update finds them."""
        raise NotImplementedError

    def update(self, gradients: Any) -> Any:
        """One step of the optimiser; returns something that `wait` can wait for."""
        raise NotImplementedError

    def value(self, loss: Any) -> float:
        return float(loss)

    def mean_over_ranks(self, value: float) -> float:
        """Of several ranks that train together: a peer that can be one says so in `ranks`."""
        return value

    def agreed(self, value: float) -> float:
        """Rank 0's, on every rank."""
        return value

    def wait(self, handle: Any) -> None:
        """Returns when the handle of infer or update is computed."""

    def numpy(self, outputs: Any) -> np.ndarray:
        """What infer returned, as an array of this process."""
        return np.asarray(outputs)

    def correct(self, outputs: Any, batch: Any) -> Any:
        """How many of the batch's targets have the largest output; a number or something that `value` takes."""
        raise NotImplementedError

    def keep(self, loss: Any) -> Any:
        """The loss of a step, safe from the steps after it."""
        return loss

    def reset(self) -> None:
        """Sets the states that a stateful network carries from batch to batch to zero."""

    def flops(self, batch: Any) -> float | None:
        """Of the products of a forward pass, as the framework itself counts them; None where it cannot."""
        return None

    def peak_bytes(self) -> int | None:
        """Of the accelerator; None on the CPU, where the process is looked at."""
        return None


# ---- the answer


def without_nan(value: Any) -> Any:
    """JSON has no NaN and no infinity: a loss that diverged is null."""
    if isinstance(value, dict):
        return {k: without_nan(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_answer(path: str, answer: dict[str, Any]) -> None:
    aside = f"{path}.{os.getpid()}"
    Path(aside).write_text(json.dumps(without_nan(answer)))
    os.replace(aside, path)


def perform(request: Request, make: Callable[[Request], Peer]) -> dict[str, Any]:
    peer: Peer | None = None
    answer: dict[str, Any] = {"schema": 1, "status": "ok", "reason": "", "framework": request.framework}
    try:
        if request.task not in tasks.TASKS:
            raise Unsupported(f"there is no task '{request.task}'; there are {', '.join(tasks.TASKS)}.")
        if request.tf32 and request.device == "cpu":
            raise Unsupported("tf32 is of GPUs; a processor computes the same as with precision=f32.")
        if request.family == "tree" and not getattr(make, "trees", False):
            raise Unsupported("this adapter trains networks whose graph is the same for all samples.")
        peer = make(request)
        if request.ranks > 1 and not peer.ranks:
            raise Unsupported("this adapter trains as one process.")
        slots = peer.slots()
        answer["parameters"] = sum(math.prod(slot.shape) for slot in slots)
        if request.weights:
            tasks.load_weights(request.weights, peer.load_file(request.weights), slots)
        answer |= tasks.TASKS[request.task](request, peer)
    except Unsupported as error:
        answer |= {"status": "unsupported", "reason": str(error)}
    except Exception as error:
        exhausted = isinstance(error, (MemoryError, *(peer.out_of_memory if peer else ())))
        traceback.print_exc()
        answer |= {"status": "out_of_memory" if exhausted else "failed", "reason": f"{type(error).__name__}: {error}"}
    if peer:
        answer |= {"version": peer.version, "flags": peer.flags}
    answer["peak_bytes"] = (peer.peak_bytes() if peer else None) or process.resident_peak()
    return answer


def begin() -> Request:
    """Reads the request and readies the process. What goes wrong from here on, imports too, is answered."""
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} REQUEST.json")
    request = Request.read(sys.argv[1])

    def answer_instead(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        traceback.print_exception(kind, error, trace)
        status = "unsupported" if isinstance(error, ImportError) else "failed"
        write_answer(request.result, {"schema": 1, "status": status, "reason": f"{kind.__name__}: {error}",
                                      "framework": request.framework, "peak_bytes": process.resident_peak()})

    sys.excepthook = answer_instead
    process.pin(request.threads)
    return request


def finish(request: Request, make: Callable[[Request], Peer]) -> None:
    write_answer(request.result, perform(request, make))
