"""Training on a Ray cluster: `pip install varve-dl[ray]`.

    from varve import ray
    trained = ray.fit("resnet20.toml", workers=8, resources={"CPU": 4}, restarts=3)
    trained.history[-1]["val_accuracy"], trained.model

Each worker is an actor of a placement group that starts one rank as a process of its own. The run's folder, checkpoints
included, comes to this program while it grows. When a worker dies, all ranks are started again from the last checkpoint.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Union

from . import _core, _jobs
from ._core import Error
from ._jobs import Trained

__all__ = ["Trained", "fit"]

_LOOK_SECONDS, _LEAVE_SECONDS, _ANSWER_SECONDS = 0.2, 15.0, 120.0


def _ray() -> Any:
    return _jobs.needed("ray", "ray")


def fit(
    what: Any,
    *arguments: Any,
    workers: int = 2,
    resources: Optional[Mapping[str, float]] = None,
    placement: str = "PACK",
    restarts: int = 0,
    run: Union[str, "os.PathLike[str]"] = "",
    resume: bool = False,
    samples: Any = None,
    validation: Any = None,
    target: str = "",
    verbosity: str = "lines",
    patience: float = 300.0,
    **options: Any,
) -> Trained:
    """Trains on the workers of a Ray cluster (the one that this program is connected to, or a new one on this machine).

    - what, arguments, options: a network file, a network of the zoo or a `train.Config`, with changes as `train.run` takes them;
      or a model, with what `model.fit` takes; or a function, which each worker calls with them after it has joined the others
    - workers: ranks; resources: of each, `{"CPU": 4}` unless given `{"CPU": 1}`. CPUs are a rank's threads. placement: PACK,
      SPREAD, STRICT_PACK or STRICT_SPREAD, as Ray's placement groups have it
    - restarts: how often all ranks are started again, from the last checkpoint, when a worker has died. One that raises ends
      the job: its error is raised here
    - run: a folder of this machine for checkpoints, curves and weights, unless given a temporary one; resume goes on with it
    - samples, validation: in place of the file's data: what `data.dataset` takes, or a Ray Data dataset with the name of its
      `target` column. Data of this program goes to every worker, and batches are those of one rank. A Ray Data dataset is cut
      into a part for each worker, and batches are drawn from the parts (`data.part`)
    - patience: seconds to wait for a place in the cluster

    >>> from varve import ray
    >>> trained = ray.fit("lenet5", "data.train=2000", workers=2, epochs=2)
    >>> trained.history[-1]["val_accuracy"] > 0.5
    True
    """
    ray = _ray()

    each = dict(resources or {"CPU": 1})
    if workers < 1:
        raise ValueError(f"fit: expected 1 worker or more, got {workers}")
    if isinstance(what, _core.Module):
        if arguments and samples is None:
            samples, arguments = arguments if len(arguments) > 1 else arguments[0], ()
        if samples is None:
            raise TypeError("fit: a model needs samples: fit(model, x, y, …)")
    folder = "" if callable(what) and not isinstance(what, _core.Module) and not run else _jobs.run_folder(run, resume)
    job = _jobs.describe(what, arguments, options, ray.cloudpickle.dumps, folder and "run", verbosity)
    job["resume"] = resume
    if not ray.is_initialized():
        ray.init()
    data = {"samples": _Given(samples, target, workers), "validation": _Given(validation, target, workers)}
    cluster = _Cluster(workers, each, placement, patience)
    try:
        return _fit(cluster, job, data, folder, restarts)
    finally:
        cluster.close()


def _fit(cluster: "_Cluster", job: Dict[str, Any], data: Dict[str, "_Given"], folder: str, restarts: int) -> Trained:
    for attempt in range(restarts + 1):
        outcome = cluster.train({**job, "resume": job["resume"] or attempt > 0}, data, folder, attempt)
        if not outcome.lost and not outcome.failures:
            return Trained(folder, job["kind"], outcome.answers, attempt, job.get("payload"))
        if not outcome.lost:
            raise Error(outcome.first_failure())
        left = restarts - attempt
        text = f"ray: {outcome.story()}"
        if left == 0:
            raise Error(f"{text} No restarts are left{f'; {folder} has the last checkpoint' if folder else ''}.")
        print(f"{text} Starting again, {left - 1} restart{'' if left == 2 else 's'} left.", file=sys.stderr, flush=True)
    raise AssertionError("unreachable")


# ---- what is sent


class _Given:
    """Samples of the driver in Ray's store: the whole, or a part for each worker."""

    def __init__(self, samples: Any, target: str, workers: int) -> None:
        self.parts: List[Any] = []
        self.classes: List[str] = []
        if samples is None:
            return
        ray = _ray()

        if type(samples).__module__.split(".")[:2] == ["ray", "data"]:
            self._cut(samples, target, workers)
            return
        from .data import dataset

        pair = isinstance(samples, (tuple, list)) and len(samples) == 2
        whole = dataset(*samples) if pair else dataset(samples, target or None)
        if not whole.fixed or whole.streams:
            raise TypeError("fit: samples with transforms, or streams of text, cannot be sent: name them in a network file, or make "
                            "them in a function.")  # fmt: skip
        x, y = whole.arrays()
        self.classes = whole.classes
        self.parts = [ray.put((x.numpy(), y.numpy()))]

    def _cut(self, samples: Any, target: str, workers: int) -> None:
        if not target:
            raise TypeError("fit: a Ray Data dataset needs the name of its target: target=\"label\"")
        names = samples.columns() or []
        if target not in names or len(names) < 2:
            raise Error(f"fit: the dataset's columns are {', '.join(names)}: expected the target {target!r} and others")
        cut = samples.repartition(workers).materialize()
        first = cut.take(1)[0][target]
        if isinstance(first, str):
            self.classes = sorted(cut.unique(target))
        # Now, as blocks are made by tasks, for which the workers leave no room.
        self.parts = [(block, target, list(names)) for block in cut.to_numpy_refs()]

    def of(self, rank: int) -> Any:
        return self.parts[rank % len(self.parts)] if self.parts else None

    @property
    def cut(self) -> bool:
        return len(self.parts) > 1 or bool(self.parts and isinstance(self.parts[0], tuple))


def _columns(block: Mapping[str, Any], target: str, names: Sequence[str], classes: Sequence[str]) -> Any:
    """Inputs and targets of a block of columns: the one other column, or the numbers of all others side by side."""
    import numpy

    others = [name for name in names if name != target]
    text = [name for name in others if block[name].dtype.kind in "OUS"]
    if text:
        raise Error(f"fit: column {text[0]!r} is text: encode it as numbers first")
    columns = [numpy.asarray(block[name], None if block[name].dtype.kind == "u" else "float32") for name in others]
    x = columns[0] if len(columns) == 1 and columns[0].ndim > 1 else numpy.stack(columns, axis=1).astype("float32")
    y = block[target]
    if classes:
        numbers = {name: number for number, name in enumerate(classes)}
        y = numpy.array([numbers[each] for each in y], "int32")
    return x, y


# ---- a worker


class _Worker:
    """An actor: it starts a rank on its machine, and tells of it."""

    def __init__(self, job: str) -> None:
        self.job, self.run = job, ""
        self.known: Dict[str, Any] = {}
        self.rank: Any = None

    def where(self) -> Dict[str, Any]:
        ray = _ray()

        address = ray.util.get_node_ip_address()
        return {"node": ray.get_runtime_context().get_node_id(), "address": address, "process": os.getpid()}

    def port(self, address: str) -> int:
        return _jobs.free_port(address)

    def store(self, name: str, given: Any, classes: List[str], cut: bool) -> Dict[str, Any]:
        ray = _ray()

        if cut:
            block, target, names = given
            x, y = _columns(ray.get(block), target, names, classes)
        else:
            x, y = given
        return _jobs.stored(_jobs.scratch(self.job), name, x, y, classes=classes, part=cut)

    def begin(self, number: int, job: Dict[str, Any], variables: Dict[str, str], files: Dict[str, bytes]) -> None:
        folder = os.path.join(_jobs.scratch(self.job), f"rank-{number}")
        if job["run"]:
            job = {**job, "run": os.path.join(folder, "run")}
            if job["resume"] and number == 0 and not os.path.exists(os.path.join(job["run"], "last.safetensors")):
                _jobs.write_folder(job["run"], files)
        self.run, self.known = job["run"], {}
        self.rank = _jobs.Rank(folder, job, variables)

    def look(self) -> Dict[str, Any]:
        if self.rank is None:
            return {"ended": None, "lines": [], "files": {}}
        ended = self.rank.ended()
        return {"ended": ended, "lines": self.rank.lines(), "files": _jobs.read_folder(self.run, self.known) if self.run else {}}

    def outcome(self) -> Dict[str, Any]:
        code = self.rank.ended()
        return {"failure": self.rank.failure(), "answer": self.rank.answer() if code == 0 else None}

    def stop(self) -> None:
        if self.rank is not None:
            self.rank.stop()

    def close(self) -> None:
        self.stop()
        _jobs.remove(_jobs.scratch(self.job))


class _Outcome:
    """What became of the ranks: answers, what they raised, and why some are lost."""

    def __init__(self) -> None:
        self.answers: List[Any] = []
        self.failures: Dict[int, Dict[str, Any]] = {}
        self.lost: Dict[int, str] = {}

    def first_failure(self) -> str:
        rank = min(self.failures, key=lambda each: self.failures[each]["time"])
        failure = self.failures[rank]
        return f"worker {rank}: {failure['text']}\n\nIn worker {rank}:\n{failure['trace']}"

    def story(self) -> str:
        return "; ".join(f"worker {rank} {why}" for rank, why in sorted(self.lost.items())) + "."


class _Cluster:
    """The actors, and their place."""

    def __init__(self, workers: int, resources: Dict[str, float], placement: str, patience: float) -> None:
        ray = _ray()

        self.name, self.resources = f"varve-ray-{secrets.token_hex(6)}", resources
        self.group = ray.util.placement_group([dict(resources)] * workers, strategy=placement)
        if not self.group.wait(patience):
            ray.util.remove_placement_group(self.group)
            raise Error(f"fit: the cluster has no place for {workers} workers of {resources} within {patience:g} s; free are "
                        f"{_short(ray.available_resources())}.")  # fmt: skip
        self.workers: List[Any] = [None] * workers

    def _actor(self, rank: int) -> Any:
        ray = _ray()
        strategies = _jobs.needed("ray.util.scheduling_strategies", "ray")

        special = {name: count for name, count in self.resources.items() if name not in ("CPU", "GPU", "memory")}
        place = strategies.PlacementGroupSchedulingStrategy(self.group, placement_group_bundle_index=rank)
        return ray.remote(_Worker).options(
            num_cpus=self.resources.get("CPU", 0), num_gpus=self.resources.get("GPU", 0), memory=self.resources.get("memory"),
            resources=special, scheduling_strategy=place, max_restarts=0,
        ).remote(self.name)  # fmt: skip

    def train(self, job: Dict[str, Any], data: Dict[str, _Given], folder: str, attempt: int) -> _Outcome:
        outcome = _Outcome()
        self.workers = [worker or self._actor(rank) for rank, worker in enumerate(self.workers)]
        try:
            self._begin(job, data, folder, attempt, outcome)
            if not outcome.lost:
                self._watch(folder, outcome)
        finally:
            if outcome.lost or outcome.failures or not outcome.answers:
                self._ask("stop", outcome)  # they save first
                for rank, look in self._ask("look", outcome, only=[0]).items():
                    self._show(rank, look, folder)
        return outcome

    def _ask(self, method: str, outcome: _Outcome, each: Any = lambda rank: (), only: Optional[Sequence[int]] = None) -> Dict[int, Any]:
        """The answers of all workers, or of some. Those that do not answer are lost, and said to be."""
        ray = _ray()

        ranks = [rank for rank, worker in enumerate(self.workers) if worker is not None and (only is None or rank in only)]
        calls = {rank: getattr(self.workers[rank], method).remote(*each(rank)) for rank in ranks}
        answers = {}
        for rank, call in calls.items():
            try:
                answers[rank] = ray.get(call, timeout=_ANSWER_SECONDS)
            except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError) as error:
                self.workers[rank] = None
                late = isinstance(error, ray.exceptions.GetTimeoutError)
                outcome.lost[rank] = f"does not answer for {_ANSWER_SECONDS:g} s" if late else "has died: its actor or its machine is gone"
            except ray.exceptions.RayTaskError as error:
                raise error.cause if isinstance(error.cause, Exception) else error
        return answers

    def _begin(self, job: Dict[str, Any], data: Dict[str, _Given], folder: str, attempt: int, outcome: _Outcome) -> None:
        places = self._ask("where", outcome)
        if outcome.lost:
            return
        nodes = [places[rank]["node"] for rank in range(len(self.workers))]
        address = places[0]["address"] if len(set(nodes)) > 1 else "127.0.0.1"
        port = self._ask("port", outcome, lambda _: (address,), only=[0])
        specs = {name: self._store(name, given, nodes, outcome) for name, given in data.items()}
        if outcome.lost:
            return
        meeting = f"[{address}]:{port[0]}" if ":" in address else f"{address}:{port[0]}"
        key, threads = secrets.token_hex(16), int(self.resources.get("CPU", 1))
        files = _jobs.read_folder(folder, {}) if folder and job["resume"] else {}
        self._ask("begin", outcome, lambda rank: (
            rank, {**job, **{name: spec.get(rank) for name, spec in specs.items()}},
            _jobs.variables(rank, nodes, meeting, key, threads, attempt), files if rank == 0 else {},
        ))  # fmt: skip

    def _store(self, name: str, given: _Given, nodes: List[str], outcome: _Outcome) -> Dict[int, Any]:
        if not given.parts:
            return {}
        if given.cut:
            return self._ask("store", outcome, lambda rank: (f"{name}-{rank}", given.of(rank), given.classes, True))
        # Once on each machine: its ranks map the same file.
        firsts = [nodes.index(node) for node in dict.fromkeys(nodes)]
        there = self._ask("store", outcome, lambda rank: (name, given.of(rank), given.classes, False), only=firsts)
        return {rank: there.get(nodes.index(node)) for rank, node in enumerate(nodes)}

    def _watch(self, folder: str, outcome: _Outcome) -> None:
        """Until all have ended, or some have failed and the others had time to notice."""
        running: Set[int] = set(range(len(self.workers)))
        failed_at = 0.0
        codes: Dict[int, int] = {}
        while running:
            looks = self._ask("look", outcome, only=sorted(running))
            for rank, look in looks.items():
                self._show(rank, look, folder)
                if look["ended"] is not None:
                    codes[rank] = look["ended"]
                    running.discard(rank)
            running -= set(outcome.lost)
            if not failed_at and (outcome.lost or any(codes.values())):
                failed_at = time.monotonic()
            if failed_at and time.monotonic() - failed_at > _LEAVE_SECONDS:
                break
            if running:
                time.sleep(_LOOK_SECONDS)
        self._conclude(codes, outcome)

    def _show(self, rank: int, look: Dict[str, Any], folder: str) -> None:
        label = f"[{rank}] " if rank else ""
        for line in look["lines"]:
            sys.stderr.write(label + line)
        if folder and look["files"]:
            _jobs.write_folder(folder, look["files"])

    def _conclude(self, codes: Dict[int, int], outcome: _Outcome) -> None:
        for rank, what in self._ask("outcome", outcome, only=sorted(codes)).items():
            if what["failure"]:
                outcome.failures[rank] = what["failure"]
            elif codes[rank] != 0:
                how = f"was ended by signal {-codes[rank]}" if codes[rank] < 0 else f"ended with exit code {codes[rank]}"
                outcome.lost[rank] = how
            outcome.answers.append(what["answer"])

    def close(self) -> None:
        ray = _ray()

        self._ask("close", _Outcome())
        for worker in self.workers:
            if worker is not None:
                ray.kill(worker)
        ray.util.remove_placement_group(self.group)


def _short(resources: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {count:g}" for name, count in sorted(resources.items()) if ":" not in name) or "none"
