"""Training, evaluation and prediction: functions, and methods of every model.

    history = model.fit(x, y, optimizer=optim.Adam(1e-3), epochs=3, batch=128, validation=(x_test, y_test), run="runs/digits")
    model.evaluate(x_test, y_test)        # {'loss': …, 'accuracy': …}
    model.predict(x_test)                 # a tensor of outputs

Losses and metrics are names, objects of this module, or functions of (output, target). Callbacks are the library's
(`early_stopping`, `csv_log`, `tensorboard`) or subclasses of `Callback`. `run` trains a network file or a network of the zoo
as `varve train` does; `load_run`, `runs` and `inspect_run` read the folders that runs leave.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, NamedTuple, NoReturn, Optional, Sequence, Union

from . import _core
from ._core import (
    Callback, Config, Error, History, Loss, Metric, NamedOptions, Prepared, RunInfo, RunResult, Session, Tensor, TrainedModel,
    area_under_curve, config_from_toml, confusion, csv_log, each_epoch, each_step, early_stopping, find_boxes, joint_loss, loss_by_name, losses, make_network, metric_by_name,
    network_input, network_inputs, of, balanced_class_weights, cross_entropy_with, smoothed_cross_entropy, tensorboard, top_k_accuracy,
)  # fmt: skip
from ._modules import in_python_words
from ._runs import (
    as_callback, choose_network, inspect_run, is_run_folder, load_config, load_run, new_run_folder, prepare, run, runs,
)  # fmt: skip
from .data import Dataset, dataset, unexpected, use_processes

cross_entropy, binary_cross_entropy = loss_by_name("cross_entropy"), loss_by_name("binary_cross_entropy")
mse, mae, huber, reconstruction, contrastive_divergence = (
    loss_by_name(name) for name in ("mse", "mae", "huber", "reconstruction", "contrastive_divergence")
)
detection = loss_by_name("detection")
map50, mean_iou = metric_by_name("map50"), metric_by_name("mean_iou")
accuracy, binary_accuracy, precision, recall, f1, auc, perplexity, mean_absolute_error = (
    metric_by_name(name)
    for name in ("accuracy", "binary_accuracy", "precision", "recall", "f1", "auc", "perplexity", "mean_absolute_error")
)


class Progress(NamedTuple):
    """Where a run is, as a schedule of your own sees it: `schedule=lambda p: 1 - p.step / p.steps`.

    >>> from varve import train
    >>> train.Progress(step=5, steps=10, epoch=0.5, epochs=1.0).step
    5
    """

    step: int
    steps: int
    epoch: float
    epochs: float


def _samples(x: Any, y: Any, workers: int, processes: Union[bool, str], loss: Any = None) -> Dataset:
    of_input = loss in ("reconstruction", "contrastive_divergence") or bool(getattr(loss, "of_input", False))
    if of_input and y is None and hasattr(x, "shape"):
        import numpy

        y = numpy.zeros(len(x), "int32")  # an autoencoder's target is its input
    samples = dataset(x, y)
    if processes:
        use_processes(samples, workers, processes)
    return samples


def _optimizer(value: Any) -> Any:
    return _core._optimizer(value, []) if isinstance(value, str) else value


def _schedule(value: Any) -> Any:
    if isinstance(value, str):
        return _core._schedule(value, [])
    if isinstance(value, _core.Schedule) or not callable(value):
        return value

    def factor(step: int, steps: int, epoch: float, epochs: float) -> float:
        return float(value(Progress(step, steps, epoch, epochs)))

    factor.__name__ = getattr(value, "__name__", "own")
    return factor


def fit(
    model: _core.Module,
    x: Any,
    y: Any = None,
    *,
    loss: Any = "cross_entropy",
    optimizer: Any = None,
    schedule: Any = None,
    epochs: int = 1,
    batch: int = 32,
    validation: Any = None,
    validation_share: float = 0.0,
    metrics: Any = None,
    monitor: str = "",
    run: Union[str, "os.PathLike[str]"] = "",
    seed: int = 0,
    resume: bool = False,
    overwrite: bool = False,
    save_seconds: float = 60.0,
    save_steps: int = 0,
    accumulate: int = 1,
    average: float = 0.0,
    swa: int = 0,
    precision: str = "f32",
    mixup: float = 0.0,
    drop_last: bool = False,
    buckets: int = 0,
    balanced: bool = False,
    sampling: Sequence[float] = (),
    workers: int = 1,
    processes: Union[bool, str] = False,
    check_layers: bool = False,
    callbacks: Sequence[Any] = (),
    verbosity: str = "auto",
    progress: Optional[Callable[[str, bool], None]] = None,
    config: str = "",
    parallel: Any = None,
    **unknown: NoReturn,
) -> History:
    """Trains a model on a data set, or on what `data.dataset` makes one of: arrays, tables, objects with samples.

    - loss: a name, a loss of `varve.train`, or a function of (output, target), of the batch or for each sample; of several
      outputs a dict by their names, `{"digit": "cross_entropy", "size": ("mse", 0.1)}` with weights where they are not 1
    - optimizer: of `varve.optim`, or a name; schedule: of `varve.optim`, a name, or a function of `Progress`
    - validation: a data set, or (x, y); or validation_share of the training data, held out
    - metrics: names, metrics of `varve.train`, functions of (output, target), or objects with sums(output, target) and
      value(sums); unless given, what fits the loss; of several outputs a dict of such. monitor: the value that decides which epoch was best
    - run: a folder for checkpoints, curves and a page; resume goes on from its last checkpoint, overwrite starts over
    - accumulate: batches whose gradients make one step; average: decay of an average of the weights; swa: the
      last epochs, whose weights are averaged; precision: f32, tf32 or
      bf16; mixup: α; buckets, balanced, sampling: see `data.DataLoader`. workers: threads that read ahead; with processes=True, processes (see `data.DataLoader`)
    - check_layers names the layer that first gives a NaN. verbosity: auto, bar, lines, quiet; progress: a function of
      (line, kept) that gets the lines instead of standard error
    - parallel: a `distributed.Parallel`, how many ranks train it together, where that is not the standard way

    Ctrl-C ends the run after the step in flight and raises KeyboardInterrupt, with what was done as its `history`; with a
    folder the run can be resumed.

    >>> import numpy
    >>> from varve import nn
    >>> model = nn.Sequential(nn.Dense(2))
    >>> x = numpy.random.default_rng(0).normal(size=(64, 2)).astype("float32")
    >>> history = model.fit(x, (x[:, 0] > 0).astype(int), epochs=2, batch=16, optimizer="sgd", verbosity="quiet")
    >>> history.epochs[1]["loss"] < history.epochs[0]["loss"]
    True
    """
    unexpected("fit", unknown, FIT_OPTIONS)
    options: Dict[str, Any] = dict(
        loss=loss, epochs=epochs, batch=batch, validation_share=validation_share, metrics=metrics, monitor=monitor, run=str(run),
        seed=seed, resume=resume, overwrite=overwrite, save_seconds=save_seconds, save_steps=save_steps, accumulate=accumulate,
        average=average, swa=swa, precision=precision, mixup=mixup, drop_last=drop_last, buckets=buckets, balanced=balanced,
        sampling=list(sampling), workers=workers, check_layers=check_layers,
        callbacks=[as_callback(each) for each in callbacks], config=config,
    )  # fmt: skip
    if optimizer is not None:
        options["optimizer"] = _optimizer(optimizer)
    if schedule is not None:
        options["schedule"] = _schedule(schedule)
    if parallel is not None:
        options["parallel"] = parallel
    if validation is not None:
        options["validation"] = _samples(validation, None, workers, processes, loss)
    from ._notebook import progress as shown  # not before: it takes time to import

    options["verbosity"], sink = shown(verbosity)
    if progress is not None or sink is not None:
        options["progress"] = progress or sink
    try:
        history: History
        history, raised = _core._fit(model, _samples(x, y, workers, processes, loss), options)
    except Error as error:
        if "= true" not in str(error):
            raise
        raise in_python_words(error) from None
    if raised is not None:
        raised.history = history
        raise raised
    return history


FIT_OPTIONS: List[str] = list(fit.__kwdefaults__ or {})


class Score(Dict[str, float]):
    """Loss and metrics by name; `confusion` has the matrix (rows: true class) when it was asked for.

    >>> from varve import train
    >>> train.Score({"loss": 0.5}, [], [], 0.1)["loss"]
    0.5
    """

    def __init__(self, values: Dict[str, float], counts: List[float], classes: List[str], seconds: float) -> None:
        super().__init__(values)
        self.seconds = seconds
        self.classes = classes
        side = int(len(counts) ** 0.5)
        self.counts = counts
        self.confusion = [counts[row * side : (row + 1) * side] for row in range(side)] if counts else []

    def by_class(self) -> List[Dict[str, float]]:
        """Precision, recall, F1 and support of each class.

        >>> digits = data.digits(train=100, test=20)
        >>> model = nn.Sequential(nn.Flatten(), nn.Dense(10))
        >>> len(model.evaluate(digits.test, confusion=True).by_class())
        10
        """
        names = ("precision", "recall", "f1", "support")
        return [dict(zip(names, each)) for each in _core._class_scores(self.counts, len(self.confusion))]

    def _repr_html_(self) -> str:
        from ._notebook import _table

        table = _table(list(self), [[f"{value:.5g}" for value in self.values()]])
        return table + (_core._confusion_svg(self.counts, self.classes) if self.counts else "")


def evaluate(
    model: _core.Module,
    x: Any,
    y: Any = None,
    *,
    loss: Any = "cross_entropy",
    metrics: Any = None,
    batch: int = 256,
    confusion: bool = False,
    precision: str = "f32",
    workers: int = 1,
    processes: Union[bool, str] = False,
    shards: int = 0,
    buckets: int = 0,
) -> Score:
    """Loss and metrics of a model over a data set, or over arrays. `shards`: as in training (`distributed.Parallel`); `buckets`:
    see `data.DataLoader`.

    >>> import numpy
    >>> from varve import nn
    >>> model = nn.Sequential(nn.Dense(2))
    >>> score = model.evaluate(numpy.zeros((6, 3), "float32"), numpy.array([0, 0, 0, 1, 1, 1]), confusion=True)
    >>> sorted(score), sum(map(sum, score.confusion))
    (['accuracy', 'loss'], 6.0)
    """
    samples = _samples(x, y, workers, processes, loss)
    values, counts, seconds = _core._evaluate(model, samples, loss, metrics, batch, confusion, precision, workers, shards, buckets)
    return Score(values, counts, samples.classes, seconds)


def predict(
    model: _core.Module,
    x: Any,
    *,
    batch: int = 256,
    precision: str = "f32",
    workers: int = 1,
    processes: Union[bool, str] = False,
) -> Any:
    """A model's outputs for a data set, or for the rows of an array, in order. Of several inputs the rows are a dict of
    arrays, or a tuple; of several outputs they come as a dict by name, or a tuple.

    >>> import numpy
    >>> from varve import nn
    >>> nn.Sequential(nn.Dense(2)).predict(numpy.zeros((5, 3), "float32")).shape
    (5, 2)
    """
    if hasattr(x, "shape") or isinstance(x, (Tensor, dict)) or isinstance(x, tuple) and all(hasattr(each, "shape") for each in x):
        return _core._predict_rows(model, x, batch, precision)
    return _core._predict(model, _samples(x, None, workers, processes), batch, precision, workers)


class RateFinder(NamedTuple):
    """Rates that were tried, smoothed losses, and the rate where the loss falls fastest (0: there is no clear descent).

    >>> from varve import train
    >>> train.RateFinder(0.01, [0.01], [1.0], "<svg/>").suggestion
    0.01
    """

    suggestion: float
    rates: List[float]
    losses: List[float]
    svg: str

    def _repr_html_(self) -> str:
        return f'<div style="max-width:480px">{self.svg}</div>'


def lr_find(
    model: _core.Module,
    x: Any,
    y: Any = None,
    *,
    loss: Any = "cross_entropy",
    optimizer: Any = None,
    batch: int = 32,
    start: float = 1e-7,
    stop: float = 10.0,
    steps: int = 100,
    seed: int = 0,
    precision: str = "f32",
    workers: int = 1,
    processes: Union[bool, str] = False,
) -> RateFinder:
    """Tries rising rates, and suggests the one where the loss falls fastest. The weights stay as they were.

    >>> import numpy
    >>> from varve import nn
    >>> found = nn.Sequential(nn.Dense(2)).lr_find(numpy.eye(32, dtype="float32"), numpy.arange(32) % 2, steps=20)
    >>> len(found.rates) == len(found.losses)
    True
    """
    samples = _samples(x, y, workers, processes, loss)
    chosen = _optimizer(optimizer or "adam")
    return RateFinder(*_core._find_rate(model, samples, loss, chosen, batch, start, stop, steps, seed, precision, workers))


class WorstSample(NamedTuple):
    """A sample that a model understands least.

    >>> from varve import train
    >>> train.WorstSample(3, 7.1, "cat", "dog (0.98)", "", "").truth
    'cat'
    """

    sample: int
    loss: float
    truth: str
    predicted: str
    text: str
    png: str

    def _repr_html_(self) -> str:
        import html

        shown = f'<img width="84" src="data:image/png;base64,{self.png}"><br>' if self.png else html.escape(self.text)
        return f"{shown} {html.escape(self.truth)}, taken for {html.escape(self.predicted)}"


class WorstSamples(List[WorstSample]):
    """Side by side in a notebook.

    >>> from varve import train
    >>> len(train.WorstSamples())
    0
    """

    def _repr_html_(self) -> str:
        cells = "".join(f'<div style="margin:6px;text-align:center;width:9em">{each._repr_html_()}</div>' for each in self)
        return f'<div style="display:flex;flex-wrap:wrap">{cells}</div>'


def worst(model: _core.Module, x: Any, y: Any = None, *, loss: Any = "cross_entropy") -> WorstSamples:
    """The samples with the highest loss, the worst first: of classes or numbers, one target a sample; others give none.

    >>> import numpy
    >>> from varve import nn, train
    >>> model = nn.Sequential(nn.Dense(2))
    >>> len(train.worst(model, numpy.eye(4, dtype="float32"), numpy.arange(4) % 2))
    4
    """
    samples = dataset(x, y)
    if not model.built:
        model.build(*samples.x)
    return WorstSamples(WorstSample(*each) for each in _core._worst_samples(model, samples, loss))


def _history_html(self: History) -> str:
    from ._notebook import history_html

    return history_html(self)


def _history_repr(self: History) -> str:
    best = f", best {self.monitor} {self.best:.4g} in epoch {self.best_epoch}" if self.best_epoch else ""
    return f"<varve history, {len(self.epochs)} epochs{best}>"


__all__ = [
    "contrastive_divergence",
    "Callback", "Config", "FIT_OPTIONS", "History", "Loss", "Metric", "NamedOptions", "Prepared", "Progress", "RateFinder",
    "RunInfo", "RunResult", "Score", "Session", "TrainedModel", "WorstSample", "WorstSamples", "accuracy", "area_under_curve", "auc",
    "binary_accuracy", "binary_cross_entropy", "choose_network", "config_from_toml", "confusion", "balanced_class_weights", "cross_entropy", "cross_entropy_with", "csv_log", "detection",
    "each_epoch", "each_step", "early_stopping", "evaluate", "f1", "find_boxes", "fit", "huber", "inspect_run", "is_run_folder", "load_config",
    "joint_loss", "load_run", "loss_by_name", "losses", "lr_find", "mae", "make_network", "map50", "mean_absolute_error", "mean_iou", "metric_by_name", "mse",
    "network_input", "network_inputs", "new_run_folder", "of", "perplexity", "precision", "predict", "prepare", "recall", "reconstruction", "run",
    "runs", "smoothed_cross_entropy", "tensorboard", "top_k_accuracy", "worst",
]  # fmt: skip
History._repr_html_ = _history_html  # type: ignore[method-assign]
History.__repr__ = _history_repr  # type: ignore[method-assign]
for _function in (fit, evaluate, predict, lr_find):
    setattr(_core.Module, _function.__name__, _function)
