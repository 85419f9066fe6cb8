"""What the adapters of all peers share: the request, the tasks and how they are timed, and the answer.

An adapter is one file: `request = common.begin()`, then the framework's import, a subclass of Peer, and
`common.finish(request, ThePeer)`. begin() pins the process and sets the environment, which most frameworks read only
once, when they are imported. README.md beside this file says what a request and an answer hold.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

SHORTEST_SAMPLE = 0.020  # seconds: several short steps make one sample, so that the clock's grain does not show
MOST_SAMPLES = 20000


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
    schema: int = 1

    @staticmethod
    def read(path: str) -> Request:
        given = json.loads(Path(path).read_text())
        known = {k: v for k, v in given.items() if k in Request.__dataclass_fields__ and v is not None}
        return Request(**known)

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
    out_of_memory: tuple[type[BaseException], ...] = ()  # what this framework throws then, beside MemoryError

    def slots(self) -> list[Slot]:
        """The trainable parameters in the order of Varve's model.parameters()."""
        raise NotImplementedError

    def batch(self, x: np.ndarray, y: np.ndarray) -> Any:
        raise NotImplementedError

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

    def wait(self, handle: Any) -> None:
        """Returns when the handle of infer or update is computed."""

    def correct(self, outputs: Any, batch: Any) -> Any:
        """How many of the batch's targets have the largest output; a number or something that `value` takes."""
        raise NotImplementedError

    def reset(self) -> None:
        """Sets the states that a stateful network carries from batch to batch to zero."""

    def flops(self, batch: Any) -> float | None:
        """Of the products of a forward pass, as the framework itself counts them; None where it cannot."""
        return None

    def peak_bytes(self) -> int | None:
        """Of the accelerator; None on the CPU, where the process is looked at."""
        return None


# ---- the process


def pin(threads: int) -> None:
    """Confines this process to as many CPUs, on cores of their own as far as there are enough."""
    allowed = sorted(os.sched_getaffinity(0))

    def place_in_core(cpu: int) -> tuple[int, int]:
        try:
            text = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
        except OSError:
            return 0, cpu
        first, *rest = (int(number) for number in text.replace("-", ",").split(",") if number.strip())
        return int(cpu != first), cpu

    os.sched_setaffinity(0, sorted(allowed, key=place_in_core)[: max(1, threads)])
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)


def resident_peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


class Energy:
    """What the processor's packages use, from the kernel's counters; None where they cannot be read."""

    def __init__(self) -> None:
        self._zones = [z for z in Path("/sys/class/powercap").glob("intel-rapl:*") if z.name.count(":") == 1]
        self._start = self._read()

    def _read(self) -> list[tuple[int, int]] | None:
        try:
            return [(int((z / "energy_uj").read_text()), int((z / "max_energy_range_uj").read_text()))
                    for z in self._zones]
        except (OSError, ValueError):
            return None

    def joules(self) -> float | None:
        end = self._read()
        if not self._start or not end:
            return None
        return sum((now - then) % wrap for (then, wrap), (now, _) in zip(self._start, end)) / 1e6


# ---- data and weights


def synthetic(request: Request, samples: int) -> tuple[np.ndarray, np.ndarray]:
    w, rng = request.workload, np.random.default_rng(request.seed)
    shape = (samples, *w["input"])
    if w["dtype"] == "i32":
        x = rng.integers(0, w["vocabulary"], shape, dtype=np.int32)
    elif w["targets"] == "input":
        x = rng.random(shape, dtype=np.float32)
    else:
        x = rng.standard_normal(shape, dtype=np.float32)
    if w["targets"] == "input":
        return x, x
    return x, rng.integers(0, w["classes"], shape if w["targets"] == "tokens" else (samples,), dtype=np.int32)


def batches(request: Request, peer: Peer) -> list[Any]:
    if not request.batches:
        return [peer.batch(*synthetic(request, request.batch))]
    read = load_file(request.batches)
    count = sum(1 for name in read if name.startswith("x"))
    return [peer.batch(read[f"x{i}"], read.get(f"y{i}", read[f"x{i}"])) for i in range(count)]


def load_weights(path: str, slots: Sequence[Slot]) -> None:
    read = load_file(path)
    if len(read) != len(slots):
        raise ValueError(f"{path} holds {len(read)} parameters; this network has {len(slots)}.")
    for name, slot in zip(sorted(read), slots):
        if read[name].shape != tuple(slot.shape):
            raise ValueError(f"{path}: {name} is {list(read[name].shape)}; this network has {list(slot.shape)} there.")
        slot.assign(read[name].astype(np.float32, copy=False))


# ---- timing


def elapsed_ms(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def repeat(count: int, call: Callable[[], Any], wait: Callable[[Any], Any]) -> None:
    """Calls without waiting between, then waits for the last."""
    handle = None
    for _ in range(count):
        handle = call()
    wait(handle)


def warm_up(request: Request, once: Callable[[], Any]) -> float:
    """At least so many calls and so many seconds, as the request says; returns the median of their seconds."""
    steps, seconds = request.warmup.get("steps", 3), request.warmup.get("seconds", 2.0)
    start, took = time.perf_counter(), []
    while len(took) < max(1, steps) or time.perf_counter() - start < seconds:
        took.append(elapsed_ms(once) / 1e3)
        if time.perf_counter() - start > request.max_seconds:
            break
    return float(np.median(took))


def until_enough(request: Request) -> Iterator[int]:
    """Counts samples until there are as many as asked for and min_seconds have passed, or max_seconds have."""
    start = time.perf_counter()
    for i in range(MOST_SAMPLES):
        past = time.perf_counter() - start
        if past > request.max_seconds and i > 0 or i >= request.samples and past >= request.min_seconds:
            return
        yield i


# ---- tasks: each returns what it adds to the answer


def describe(request: Request, peer: Peer) -> dict[str, Any]:
    return {}


def losses(request: Request, peer: Peer) -> dict[str, Any]:
    given = batches(request, peer)
    return {"flops": peer.flops(given[0]), "losses": [peer.value(peer.step(batch)) for batch in given]}


def step(request: Request, peer: Peer) -> dict[str, Any]:
    given, turn, last = batches(request, peer), iter(range(sys.maxsize)), 0.0

    def run() -> Any:
        return peer.step(given[next(turn) % len(given)])

    def fetch(loss: Any) -> None:
        nonlocal last
        last = peer.value(loss)

    first = elapsed_ms(lambda: fetch(run()))
    k = math.ceil(SHORTEST_SAMPLE / max(warm_up(request, lambda: fetch(run())), 1e-6))
    cpu, wall = time.process_time(), time.perf_counter()
    samples = [elapsed_ms(lambda: repeat(k, run, fetch)) / k for _ in until_enough(request)]
    return {"first_ms": first, "samples_ms": samples, "steps_per_sample": k, "loss": last,
            "cpu_seconds": time.process_time() - cpu, "wall_seconds": time.perf_counter() - wall}


def infer(request: Request, peer: Peer) -> dict[str, Any]:
    given, turn = batches(request, peer), iter(range(sys.maxsize))

    def once() -> None:
        peer.wait(peer.infer(given[next(turn) % len(given)]))

    first = elapsed_ms(once)
    warm_up(request, once)
    cpu, wall = time.process_time(), time.perf_counter()
    samples = [elapsed_ms(once) for _ in until_enough(request)]
    return {"first_ms": first, "samples_ms": samples, "steps_per_sample": 1,
            "cpu_seconds": time.process_time() - cpu, "wall_seconds": time.perf_counter() - wall}


def parts(request: Request, peer: Peer) -> dict[str, Any]:
    batch, rng = batches(request, peer)[0], np.random.default_rng(request.seed)
    x, y = synthetic(request, 4 * request.batch)
    held: list[Any] = [None]

    def gradients() -> Any:
        loss, held[0] = peer.gradients(batch)
        return loss

    def data() -> Any:
        chosen = rng.permutation(len(x))[: request.batch]
        return peer.batch(x[chosen], y[chosen])

    first = elapsed_ms(lambda: peer.value(gradients()))
    work = {"forward": (lambda: peer.forward(batch), peer.value), "both": (gradients, peer.value),
            "update": (lambda: peer.update(held[0]), peer.wait), "data": (data, peer.wait)}
    counts = {name: math.ceil(SHORTEST_SAMPLE / max(warm_up(request, lambda c=call, w=wait: w(c())), 1e-6))
              for name, (call, wait) in work.items()}
    taken: dict[str, list[float]] = {name: [] for name in work}
    for _ in until_enough(request):  # in turn, so that a change of the machine's speed touches all alike
        for name, (call, wait) in work.items():
            taken[name].append(elapsed_ms(lambda: repeat(counts[name], call, wait)) / counts[name])
    gradient = [both - forward for both, forward in zip(taken["both"], taken["forward"])]
    return {"first_ms": first, "forward_ms": taken["forward"], "gradient_ms": gradient,
            "update_ms": taken["update"], "data_ms": taken["data"]}


def accuracy(request: Request, peer: Peer, x: np.ndarray, y: np.ndarray) -> float | None:
    if request.workload["targets"] == "input" or not len(x):
        return None
    peer.reset()
    counts = []
    for at in range(0, len(x), request.batch):
        batch = peer.batch(x[at : at + request.batch], y[at : at + request.batch])
        counts.append(peer.correct(peer.infer(batch), batch))
    return sum(peer.value(count) for count in counts) / y.size


def train_epoch(request: Request, peer: Peer, x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> float:
    """The mean loss. A stateful network reads the batches in their order: each goes on where the last one ended."""
    order = np.arange(len(x)) if request.workload.get("stateful") else rng.permutation(len(x))
    peer.reset()
    handles = [peer.step(peer.batch(x[chosen], y[chosen]))
               for chosen in np.split(order, range(request.batch, len(order), request.batch))]
    return float(np.mean([peer.value(loss) for loss in handles]))


def train(request: Request, peer: Peer) -> dict[str, Any]:
    if not request.data:
        raise ValueError("the task train needs 'data', a file of x_train, y_train, …; the request names none.")
    data, rng, energy = load_file(request.data), np.random.default_rng(request.seed), Energy()

    def pair(part: str) -> tuple[np.ndarray, np.ndarray]:
        x = data.get(f"x_{part}", np.empty(0))
        return x, data.get(f"y_{part}", x)

    cpu, wall, epochs, reached = time.process_time(), time.perf_counter(), [], None
    for epoch in range(1, request.epochs + 1):
        start = time.perf_counter()
        loss = train_epoch(request, peer, *pair("train"), rng)
        found = accuracy(request, peer, *pair("validation"))
        now = time.perf_counter()
        epochs.append({"epoch": epoch, "seconds": now - start, "loss": loss, "val_accuracy": found})
        if reached is None and request.target is not None and found is not None and found >= request.target:
            reached = (now - wall, epoch)
    trained = time.perf_counter()
    test = accuracy(request, peer, *pair("test"))
    end = time.perf_counter()
    return {"epochs": epochs, "train_seconds": trained - wall, "test_seconds": end - trained, "test_accuracy": test,
            "seconds_to_target": reached[0] if reached else None, "epochs_to_target": reached[1] if reached else None,
            "cpu_seconds": time.process_time() - cpu, "wall_seconds": end - wall, "energy_joules": energy.joules()}


TASKS: dict[str, Callable[[Request, Peer], dict[str, Any]]] = {
    "describe": describe, "losses": losses, "step": step, "infer": infer, "parts": parts, "train": train}


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
        if request.task not in TASKS:
            raise Unsupported(f"there is no task '{request.task}'; there are {', '.join(TASKS)}.")
        peer = make(request)
        slots = peer.slots()
        answer["parameters"] = sum(math.prod(slot.shape) for slot in slots)
        if request.weights:
            load_weights(request.weights, slots)
        answer |= TASKS[request.task](request, peer)
    except Unsupported as error:
        answer |= {"status": "unsupported", "reason": str(error)}
    except Exception as error:
        exhausted = isinstance(error, (MemoryError, *(peer.out_of_memory if peer else ())))
        traceback.print_exc()
        answer |= {"status": "out_of_memory" if exhausted else "failed", "reason": f"{type(error).__name__}: {error}"}
    if peer:
        answer |= {"version": peer.version, "flags": peer.flags}
    answer["peak_bytes"] = (peer.peak_bytes() if peer else None) or resident_peak()
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
                                      "framework": request.framework, "peak_bytes": resident_peak()})

    sys.excepthook = answer_instead
    pin(request.threads)
    return request


def finish(request: Request, make: Callable[[Request], Peer]) -> None:
    write_answer(request.result, perform(request, make))
