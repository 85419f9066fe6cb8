"""Runs from their configuration, and their folders."""

from __future__ import annotations

import os
from typing import Any, List, Sequence, Tuple, Union

from . import _core
from ._core import Callback, Config, Prepared, RunInfo, RunResult, TrainedModel, config_from_toml, each_epoch, make_network
from ._layers import toml
from ._modules import remember


def as_callback(value: Any) -> Any:
    if isinstance(value, Callback):
        return value
    if isinstance(value, type) or not callable(value):
        raise TypeError(f"callbacks: expected instances of train.Callback, or functions of the session, got {value!r}")
    return each_epoch(value)


def _override(key: str, value: Any) -> str:
    return f"{key}={toml(value)}"


def load_config(name_or_path: Any, *overrides: str, **options: Any) -> Config:
    """The configuration of a network file, of a run's folder or of a network of the zoo, with changes: "optimizer.rate=1e-3",
    or as keywords: `load_config("fnn-mnist", epochs=3, batch=64)`.

    >>> from varve import train
    >>> train.load_config("fnn-mnist", "rate=0.01", epochs=3).epochs
    3
    """
    return _core._load_config(str(name_or_path), list(overrides) + [_override(key, value) for key, value in options.items()])


def prepare(config: Any, *, download: bool = True, quiet: bool = False) -> Prepared:
    """The data and the built model of a configuration, as `run` would train them.

    >>> from varve import train
    >>> config = train.load_config("fnn-mnist", "data.train=100", "data.test=20", data="digits")
    >>> train.prepare(config).model.built
    True
    """
    return _core._prepare(config if isinstance(config, Config) else load_config(config), download, quiet)


def run(
    config: Any,
    *overrides: str,
    folder: Union[str, "os.PathLike[str]"] = "",
    resume: bool = False,
    verbosity: str = "auto",
    download: bool = True,
    callbacks: Sequence[Any] = (),
    samples: Any = None,
    validation_samples: Any = None,
    **options: Any,
) -> RunResult:
    """Trains a network file, a network of the zoo or a `Config`, tests it and keeps it in a folder, as `varve train` does.
    `samples` and `validation_samples` are data sets in place of what the configuration names.

    >>> import tempfile
    >>> from varve import train
    >>> few = ("data.train=200", "data.test=50")
    >>> result = train.run("fnn-mnist", *few, data="digits", epochs=1, runs=tempfile.mkdtemp(), verbosity="quiet")
    >>> len(result.history.epochs), sorted(result.test)
    (1, ['accuracy', 'loss'])
    """
    chosen = config if isinstance(config, Config) else load_config(config, *overrides, **options)
    if isinstance(config, Config) and (overrides or options):
        chosen = config_from_toml(config.toml(), config.name, list(overrides) + [_override(k, v) for k, v in options.items()])
    from ._notebook import progress

    given = [each for each in (samples, validation_samples) if each is not None]
    if given and samples is None:
        raise TypeError("run: validation_samples go with samples")
    how, sink = progress(verbosity)
    result, raised = _core._run(chosen, str(folder), resume, how, sink, download, [as_callback(each) for each in callbacks], given)
    if raised is not None:
        raised.history = result.history
        raise raised
    assert isinstance(result, RunResult)
    return result


def choose_network(*overrides: str, download: bool = True, **options: Any) -> Tuple[Config, str]:
    """A small network for data that nobody named one for, and which it is: `choose_network(data="csv:flats.csv")`.

    >>> from varve import train
    >>> config, what = train.choose_network("data.train=100", "data.test=20", data="digits")
    >>> config.data
    'digits'
    """
    config, what = _core._choose_network(list(overrides) + [_override(key, value) for key, value in options.items()], download)
    return config, what


def load_run(folder: Any, last: bool = False) -> TrainedModel:
    """A trained model from its run's folder, with its best (or last) weights: `.model`, `.classes`, `.config` …

    The folder is one of `run` or of `varve train`, which keep the network's text. Of a `fit` with a model of your own, make the
    model and `model.load(folder)`.

    >>> import tempfile
    >>> from varve import train
    >>> few = ("data.train=100", "data.test=50")
    >>> result = train.run("fnn-mnist", *few, data="digits", epochs=1, runs=tempfile.mkdtemp(), verbosity="quiet")
    >>> train.load_run(result.folder).model.built
    True
    """
    trained = _core._load_run(str(folder), last)
    made = remember(trained.model, _of_text, trained.config.toml(), trained.config.name)
    setattr(trained, "_kept", made)  # the object that is remembered, and not another one for the same model
    return trained


def _of_text(text: str, name: str) -> Any:
    return make_network(config_from_toml(text, name))


def runs(folder: Any = "runs") -> List[RunInfo]:
    """The runs inside a folder, by name and number.

    >>> import tempfile
    >>> from varve import train
    >>> train.runs(tempfile.mkdtemp())
    []
    """
    return [_core._inspect_run(each) for each in _core._run_folders(str(folder))]


def inspect_run(folder: Any) -> RunInfo:
    """A run's folder, looked at without its weights: state, history, configuration, scores.

    >>> import tempfile
    >>> from varve import train
    >>> few = ("data.train=100", "data.test=50")
    >>> result = train.run("fnn-mnist", *few, data="digits", epochs=1, runs=tempfile.mkdtemp(), verbosity="quiet")
    >>> train.inspect_run(result.folder).state
    'finished'
    """
    return _core._inspect_run(str(folder))


def is_run_folder(folder: Any) -> bool:
    """Whether a folder has a configuration and a checkpoint.

    >>> import tempfile
    >>> from varve import train
    >>> train.is_run_folder(tempfile.mkdtemp())
    False
    """
    return bool(_core._is_run_folder(str(folder)))


def new_run_folder(base: Any, name: str) -> str:
    """A folder base/name-1, -2, …: made, empty.

    >>> import tempfile
    >>> from varve import train
    >>> train.new_run_folder(tempfile.mkdtemp(), "digits").endswith("digits-1")
    True
    """
    return str(_core._new_run_folder(str(base), name))
