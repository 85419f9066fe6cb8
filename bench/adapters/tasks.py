"""The tasks that a request can ask for, and how they are timed: the same code for every peer."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import process

if TYPE_CHECKING:
    from common import Peer, Request, Slot

SHORTEST_SAMPLE = 0.020  # seconds: several short steps make one sample, so that the clock's grain does not show
MOST_SAMPLES = 20000


# ---- data and weights


def synthetic(request: Request, samples: int) -> tuple[np.ndarray, np.ndarray]:
    w, rng = request.workload, np.random.default_rng(request.seed + request.rank)
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


def tree(rng: np.random.Generator, vocabulary: int, leaves: int) -> list[int]:
    """In postfix order: ids are leaves, -1 joins the two trees before it."""
    if leaves == 1:
        return [int(rng.integers(0, vocabulary))]
    left = int(rng.integers(1, leaves))
    return [*tree(rng, vocabulary, left), *tree(rng, vocabulary, leaves - left), -1]


def trees(request: Request, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random trees of 3 to 17 leaves, each as many numbers as the largest takes."""
    w, rng = request.workload, np.random.default_rng(seed)
    x = np.full((request.batch, *w["input"]), -2, dtype=np.int32)
    for row in x:
        nodes = tree(rng, w["vocabulary"], int(rng.integers(3, 18)))
        row[: len(nodes)] = nodes
    return x, rng.integers(0, w["classes"], (request.batch,), dtype=np.int32)


def batches(request: Request, peer: Peer) -> list[Any]:
    if not request.batches and request.family == "tree":  # others at each step
        return [peer.batch(*trees(request, request.seed + i)) for i in range(64)]
    if not request.batches:
        return [peer.batch(*synthetic(request, request.share))]
    read = peer.load_file(request.batches)
    count = sum(1 for name in read if name.startswith("x"))
    own = slice(request.rank * request.share, (request.rank + 1) * request.share)
    return [peer.batch(read[f"x{i}"][own], read.get(f"y{i}", read[f"x{i}"])[own]) for i in range(count)]


def load_weights(path: str, read: dict[str, np.ndarray], slots: Sequence[Slot]) -> None:
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


def settle(peer: Peer, once: Callable[[], Any]) -> None:
    """A few calls that show which threads do the work, and a place for each."""
    if peer.pooled:
        repeat(3, once, lambda _: None)
        process.spread_workers()


def warm_up(request: Request, peer: Peer, once: Callable[[], Any]) -> float:
    """At least so many calls and so many seconds, as the request says; returns the median of their seconds."""
    settle(peer, once)
    steps, seconds = request.warmup.get("steps", 3), request.warmup.get("seconds", 2.0)
    start, took = time.perf_counter(), []
    def more() -> bool:
        past = time.perf_counter() - start
        return not took or past <= request.max_seconds and (len(took) < steps or past < seconds)

    while peer.agreed(more()):
        took.append(elapsed_ms(once) / 1e3)
    return float(np.median(took))


def until_enough(request: Request, peer: Peer) -> Iterator[int]:
    """Counts samples until there are as many as asked for and min_seconds have passed, or max_seconds have."""
    start = time.perf_counter()
    for i in range(MOST_SAMPLES):
        past = time.perf_counter() - start
        if peer.agreed(past > request.max_seconds and i > 0 or i >= request.samples and past >= request.min_seconds):
            return
        yield i


def spent(cpu: float, wall: float) -> dict[str, Any]:
    """Since those two points. `timed` is on the clock that all processes share: the driver watches the GPU by it."""
    end = time.perf_counter()
    return {"cpu_seconds": time.process_time() - cpu, "wall_seconds": end - wall, "timed": [wall, end]}


# ---- tasks: each returns what it adds to the answer


def describe(request: Request, peer: Peer) -> dict[str, Any]:
    return {}


def losses(request: Request, peer: Peer) -> dict[str, Any]:
    given = batches(request, peer)
    answer = {"flops": peer.flops(given[0]),
              "losses": [peer.mean_over_ranks(peer.value(peer.step(batch))) for batch in given]}
    if not request.workload.get("stateful") and request.ranks == 1:  # such a network answers by what it saw before
        outputs = peer.numpy(peer.infer(given[0])).astype(np.float64)
        answer["prediction"] = float(np.sqrt(np.mean(np.square(outputs))))
    return answer


def step(request: Request, peer: Peer) -> dict[str, Any]:
    given, turn, last = batches(request, peer), iter(range(sys.maxsize)), 0.0

    def run() -> Any:
        return peer.step(given[next(turn) % len(given)])

    def fetch(loss: Any) -> None:
        nonlocal last
        last = peer.value(loss)

    first = elapsed_ms(lambda: fetch(run()))
    k = int(peer.agreed(math.ceil(SHORTEST_SAMPLE / max(warm_up(request, peer, lambda: fetch(run())), 1e-6))))
    cpu, wall = time.process_time(), time.perf_counter()
    samples = [elapsed_ms(lambda: repeat(k, run, fetch)) / k for _ in until_enough(request, peer)]
    return {"first_ms": first, "samples_ms": samples, "steps_per_sample": k, "loss": last, **spent(cpu, wall)}


def infer(request: Request, peer: Peer) -> dict[str, Any]:
    given, turn = batches(request, peer), iter(range(sys.maxsize))

    def once() -> None:
        peer.wait(peer.infer(given[next(turn) % len(given)]))

    first = elapsed_ms(once)
    warm_up(request, peer, once)
    cpu, wall = time.process_time(), time.perf_counter()
    samples = [elapsed_ms(once) for _ in until_enough(request, peer)]
    return {"first_ms": first, "samples_ms": samples, "steps_per_sample": 1, **spent(cpu, wall)}


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
    counts = {name: math.ceil(SHORTEST_SAMPLE / max(warm_up(request, peer, lambda c=call, w=wait: w(c())), 1e-6))
              for name, (call, wait) in work.items()}
    taken: dict[str, list[float]] = {name: [] for name in work}
    for _ in until_enough(request, peer):  # in turn, so that a change of the machine's speed touches all alike
        for name, (call, wait) in work.items():
            taken[name].append(elapsed_ms(lambda: repeat(counts[name], call, wait)) / counts[name])
    gradient = [both - forward for both, forward in zip(taken["both"], taken["forward"])]
    return {"first_ms": first, "forward_ms": taken["forward"], "gradient_ms": gradient,
            "update_ms": taken["update"], "data_ms": taken["data"]}


@dataclass
class Part:
    """Training, validation or test samples, where the peer takes batches from."""

    samples: int
    targets: int
    held: Any


def accuracy(request: Request, peer: Peer, part: Part) -> float | None:
    if request.workload["targets"] == "input" or not part.samples:
        return None
    peer.reset()
    counts = []
    for at in range(0, part.samples, request.batch):
        batch = peer.take(part.held, np.arange(at, min(at + request.batch, part.samples)))
        counts.append(peer.correct(peer.infer(batch), batch))
    return sum(peer.value(count) for count in counts) / part.targets


def train_epoch(request: Request, peer: Peer, part: Part, rng: np.random.Generator) -> float:
    """The mean loss. A stateful network reads the batches in their order: each goes on where the last one ended."""
    order = np.arange(part.samples) if request.workload.get("stateful") else rng.permutation(part.samples)
    peer.reset()
    handles = [peer.keep(peer.step(peer.take(part.held, chosen)))
               for chosen in np.split(order, range(request.batch, len(order), request.batch))]
    return float(np.mean([peer.value(loss) for loss in handles]))


def train(request: Request, peer: Peer) -> dict[str, Any]:
    if not request.data:
        raise ValueError("the task train needs 'data', a file of x_train, y_train, …; the request names none.")
    data, rng, energy = peer.load_file(request.data), np.random.default_rng(request.seed), process.Energy()

    def held(name: str) -> Part:
        x = data.get(f"x_{name}", np.empty(0))
        y = data.get(f"y_{name}", x)
        return Part(len(x), y.size, peer.hold(x, y) if len(x) else None)

    training, validation, testing = held("train"), held("validation"), held("test")
    cpu, wall, epochs, reached = time.process_time(), time.perf_counter(), [], None
    for epoch in range(1, request.epochs + 1):
        start = time.perf_counter()
        loss = train_epoch(request, peer, training, rng)
        found = accuracy(request, peer, validation)
        now = time.perf_counter()
        epochs.append({"epoch": epoch, "seconds": now - start, "loss": loss, "val_accuracy": found})
        if epoch == 1 and peer.pooled:
            process.spread_workers()
        if reached is None and request.target is not None and found is not None and found >= request.target:
            reached = (now - wall, epoch)
    trained = time.perf_counter()
    test = accuracy(request, peer, testing)
    end = time.perf_counter()
    return {"epochs": epochs, "train_seconds": trained - wall, "test_seconds": end - trained, "test_accuracy": test,
            "seconds_to_target": reached[0] if reached else None, "epochs_to_target": reached[1] if reached else None,
            "cpu_seconds": time.process_time() - cpu, "wall_seconds": end - wall, "timed": [wall, trained],
            "energy_joules": energy.joules()}


TASKS: dict[str, Callable[[Request, Peer], dict[str, Any]]] = {
    "describe": describe, "losses": losses, "step": step, "infer": infer, "parts": parts, "train": train}
