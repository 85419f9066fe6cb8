"""What Ray and Spark have in common: each of their workers starts a rank as a process of its own, gives it the variables that
`varve launch` gives (docs/ranks.md) and a folder with what to do, and brings its answer back."""

from __future__ import annotations

import collections
import json
import os
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Tuple, Union

from . import _core, train
from ._core import Error


def needed(module: str, extra: str) -> Any:
    """A library that comes with an extra of the package."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"varve.{extra} needs what the extra brings: pip install 'varve-dl[{extra}]' ({error})") from error


def free_port(address: str) -> int:
    """A port on which nobody listens now."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def variables(rank: int, hosts: Sequence[str], meeting: str, key: str, threads: int, attempt: int) -> Dict[str, str]:
    """Of a rank, where `hosts` names the machine of each."""
    host = hosts[rank]
    given = {
        "VARVE_RANK": str(rank),
        "VARVE_RANKS": str(len(hosts)),
        "VARVE_LOCAL_RANK": str(list(hosts[:rank]).count(host)),
        "VARVE_LOCAL_RANKS": str(list(hosts).count(host)),
        "VARVE_MEETING": meeting,
        "VARVE_HOSTS_MEETING": "1",  # of which rank 0 alone takes notice
        "VARVE_JOB_KEY": key,
        "VARVE_THREADS": str(max(1, threads)),
    }
    if attempt > 0:
        given["VARVE_RESTART"] = str(attempt)
    return given


class Rank:
    """A rank's process, as the one that started it sees it."""

    def __init__(self, folder: str, job: Dict[str, Any], given: Dict[str, str]) -> None:
        os.makedirs(folder, exist_ok=True)
        self.folder = folder
        for name in ("answer.pkl", "error.json"):
            if os.path.exists(self._file(name)):
                os.remove(self._file(name))
        with open(self._file("job.pkl"), "wb") as file:
            pickle.dump(job, file)
        environment = {**os.environ, **given, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "varve._rank", folder], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
        self._lines: Deque[str] = collections.deque(maxlen=1000)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _file(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.append(line)

    def lines(self) -> List[str]:
        """What it has printed since the last call."""
        return [self._lines.popleft() for _ in range(len(self._lines))]

    def ended(self) -> Optional[int]:
        code = self.process.poll()
        if code is not None:
            self._reader.join(1)
        return code

    def failure(self) -> Optional[Dict[str, Any]]:
        """What it raised; None when it did not, or could not say."""
        if not os.path.exists(self._file("error.json")):
            return None
        with open(self._file("error.json")) as file:
            return dict(json.load(file))

    def answer(self) -> Any:
        with open(self._file("answer.pkl"), "rb") as file:
            return pickle.load(file)

    def stop(self, seconds: float = 10) -> None:
        """Asks it to save and end, and ends it."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._reader.join(1)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()


# ---- what there is to do


def describe(
    what: Any, arguments: Tuple[Any, ...], options: Dict[str, Any], pickler: Callable[[Any], bytes], run: str, verbosity: str
) -> Dict[str, Any]:
    """A job as a rank gets it: a network file, a model, or a function to call."""
    job: Dict[str, Any] = {
        "run": run, "resume": False, "verbosity": verbosity, "path": list(sys.path), "samples": None, "validation": None,
        "download": options.pop("download", True) if not callable(what) else True,
    }  # fmt: skip
    if isinstance(what, (str, os.PathLike, train.Config)):
        if isinstance(what, train.Config):
            changes = [*arguments, *(train_override(key, value) for key, value in options.items())]
            config = train.config_from_toml(what.toml(), what.name, changes)
        else:
            config = train.load_config(what, *arguments, **options)
        return {**job, "kind": "config", "text": config.toml(), "name": config.name}
    kind = "model" if isinstance(what, _core.Module) else "function"
    if kind == "function" and not callable(what):
        raise TypeError(f"fit: expected a network file, a model or a function, got a {type(what).__name__}")
    try:
        payload = pickler((what, arguments, options))
    except Exception as error:
        raise TypeError(f"fit: this {kind} and its options cannot be sent to the workers: {error}. A function can make what cannot "
                        "be pickled, where it runs.") from error  # fmt: skip
    return {**job, "kind": kind, "payload": payload}


def train_override(key: str, value: Any) -> str:
    from ._runs import _override

    return _override(key, value)


def stored(
    folder: str, name: str, x: Any, y: Any, *, classes: Sequence[str] = (), part: bool = False,
    inputs: Sequence[Tuple[Any, ...]] = (), target: Tuple[Any, ...] = (),
) -> Dict[str, Any]:  # fmt: skip
    """Arrays in files, as a rank maps them into its memory."""
    import numpy

    paths = {}
    for letter, array in (("x", x), ("y", y)):
        paths[letter] = os.path.join(folder, f"{name}.{letter}.npy")
        numpy.save(paths[letter], numpy.ascontiguousarray(array))
    return {**paths, "name": name, "classes": list(classes), "part": part, "inputs": list(inputs), "target": target}


# ---- what came of it


class Trained:
    """What a job came to: `history` (one dict an epoch), `folder` (the run, with its weights and its page), `model`, `restarts`,
    and for a function `values`, what it returned on each rank.

    >>> from varve import ray
    >>> trained = ray.fit("lenet5", workers=2, epochs=2)
    >>> len(trained.history), trained.restarts
    (2, 0)
    """

    def __init__(self, folder: str, kind: str, values: List[Any], restarts: int, model: Any = None, columns: Any = None) -> None:
        self.folder, self.values, self.restarts, self.columns = folder, values, restarts, columns
        self._kind, self._model = kind, model

    @property
    def history(self) -> List[Dict[str, float]]:
        """Loss and metrics of each epoch, as the run's `results.csv` has them."""
        path = os.path.join(self.folder, "results.csv")
        if not os.path.exists(path):
            return []
        import csv

        with open(path, newline="") as file:
            return [{key: float(value) for key, value in row.items() if value} for row in csv.DictReader(file)]

    @property
    def test(self) -> Dict[str, float]:
        """Scores on the test data, where the configuration has some."""
        return dict(self.values[0]["test"]) if self._kind == "config" else {}

    @property
    def model(self) -> Any:
        """With the weights of the best epoch."""
        if self._kind == "function":
            raise Error("fit: a function was called: `values` has what it returned on each rank.")
        if self._kind == "config":
            if self._model is None:
                self._model = train.load_run(self.folder).model
        elif isinstance(self._model, bytes):
            self._model = pickle.loads(self._model)[0]
            if not self._model.built:
                self._model.build(self.values[0]["shape"], self.values[0]["dtype"])
            self._model.load(self.folder)
        return self._model

    def __repr__(self) -> str:
        return f"<varve {self._kind} trained, {len(self.history)} epochs, {self.folder or 'no folder'}>"


_KEPT = (".safetensors", ".csv", ".html", ".toml", ".json")  # not what is being written under another name


def read_folder(folder: str, known: Dict[str, Tuple[int, int]]) -> Dict[str, bytes]:
    """Files of a run's folder that are new or changed since what is known, which is brought up to date."""
    changed = {}
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        path = os.path.join(folder, name)
        try:
            status = os.stat(path)
            stamp = (status.st_mtime_ns, status.st_size)
            if not name.endswith(_KEPT) or not os.path.isfile(path) or known.get(name) == stamp:
                continue
            with open(path, "rb") as file:
                changed[name] = file.read()
            known[name] = stamp
        except FileNotFoundError:
            continue  # replaced at this moment
    return changed


def write_folder(folder: str, files: Dict[str, bytes]) -> None:
    """Each file replaced only when it is whole."""
    os.makedirs(folder, exist_ok=True)
    for name, content in files.items():
        path = os.path.join(folder, os.path.basename(name))
        with open(path + ".new", "wb") as file:
            file.write(content)
        os.replace(path + ".new", path)


def run_folder(run: Union[str, "os.PathLike[str]"], resume: bool = False) -> str:
    """Where the run comes to. One that is there already is not written over."""
    if not run:
        return tempfile.mkdtemp(prefix="varve-run-")
    folder = os.path.abspath(os.fspath(run))
    if not resume and os.path.exists(os.path.join(folder, "last.safetensors")):
        raise Error(f"fit: {folder} holds a run already. Name another folder, or go on with it where resume=True is offered.")
    return folder


def scratch(name: str) -> str:
    """A folder of this machine that workers of one job share."""
    path = os.path.join(tempfile.gettempdir(), name)
    os.makedirs(path, mode=0o700, exist_ok=True)
    if os.stat(path).st_uid != os.getuid():
        raise Error(f"fit: {path} belongs to another user.")
    return path


def remove(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
