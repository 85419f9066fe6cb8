"""Training, evaluation and prediction: functions, and methods of every model."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, List, Optional

from . import _core
from ._core import Callback, History, Tensor, csv_log, early_stopping, tensorboard
from .data import Dataset, dataset

_VERBOSITY = {"auto": "automatic", "bar": "bar", "lines": "lines", "quiet": "quiet"}


def fit(model: _core.Module, samples: Any, *, validation: Any = None, verbosity: str = "auto", **options: Any) -> History:
    """Trains a model. Samples: a data set, two arrays, or an object with `__len__` and `__getitem__`.

    Options: loss (a name, or a function of output and target), optimizer, schedule, epochs, batch, validation,
    validation_share, metrics (names or functions), monitor, run, seed, resume, overwrite, accumulate, average, precision, mixup,
    drop_last, workers, callbacks, check_layers, save_seconds, save_steps.
    """
    if verbosity not in _VERBOSITY:
        raise ValueError(f"verbosity: expected one of {', '.join(_VERBOSITY)}; got {verbosity!r}")
    if validation is not None:
        options["validation"] = dataset(validation)
    options["verbosity"] = getattr(_core.Verbosity, _VERBOSITY[verbosity])
    history = _core._fit(model, dataset(samples), options)
    if history.interrupted:
        raise KeyboardInterrupt
    return history


def evaluate(model: _core.Module, samples: Any, loss: Any = "cross_entropy", metrics: Any = None, batch: int = 256,
             precision: str = "f32", workers: int = 1) -> Dict[str, float]:  # fmt: skip
    """Loss and metrics of a model over a data set."""
    return _core._evaluate(model, dataset(samples), loss, metrics, batch, precision, workers)


def predict(model: _core.Module, samples: Any, batch: int = 256, precision: str = "f32") -> Tensor:
    """A model's outputs for a data set, or for the rows of an array."""
    if isinstance(samples, Dataset):
        return _core._predict(model, samples, batch, precision)
    return _core._predict_rows(model, samples, batch, precision)


class RateFinder(NamedTuple):
    suggestion: float
    rates: List[float]
    losses: List[float]
    svg: str

    def _repr_html_(self) -> str:
        return self.svg


def lr_find(model: _core.Module, samples: Any, loss: Any = "cross_entropy", optimizer: Any = None, batch: int = 32,
            start: float = 1e-7, stop: float = 10.0, steps: int = 100, seed: int = 0) -> RateFinder:  # fmt: skip
    """Tries rising rates, and suggests the one where the loss falls fastest. The weights stay as they were."""
    found = _core._find_rate(model, dataset(samples), loss, optimizer or _core._optimizer("adam", []), batch, start, stop, steps, seed)
    return RateFinder(*found)


def load_run(folder: Any, last: bool = False) -> Any:
    """The model of a run's folder with its best (or last) weights, and its class names."""
    return _core._load_run(str(folder), last)


def _history_html(self: History) -> str:
    import html

    if not self.epochs:
        return "<em>no epochs</em>"
    columns = list(self.epochs[0])
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    rows = "".join("<tr>" + "".join(f"<td>{epoch.get(name, float('nan')):.5g}</td>" for name in columns) + "</tr>" for epoch in self.epochs)
    return f"<table><tr>{head}</tr>{rows}</table>"


History._repr_html_ = _history_html
for _name, _method in {"fit": fit, "evaluate": evaluate, "predict": predict, "lr_find": lr_find}.items():
    setattr(_core.Module, _name, _method)
