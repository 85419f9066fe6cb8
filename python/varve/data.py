"""Data sets and batches. `data.digits()` is built in; `data.load(name)` knows all of the library's; arrays, tables and
objects with `__len__` and `__getitem__` are data sets as they are (`data.dataset`)."""

from __future__ import annotations

from typing import Any, Iterator, List, Optional, Sequence, Tuple

from . import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._sets import *  # data sets by name

from ._core import Dataset, Splits, Tensor, transform_names


def load(name: str, download: bool = True, quiet: bool = False, **options: float) -> Splits:
    """A data set by name: "mnist", "folder:photos", "csv:table.csv#target" …"""
    return _core._load_data(name, {key: float(value) for key, value in options.items()}, download, quiet)


def _loader(name: str, doc: str) -> Any:
    def loader(download: bool = True, quiet: bool = False, **options: float) -> Splits:
        return load(name, download, quiet, **options)

    loader.__name__ = loader.__qualname__ = name
    loader.__doc__ = doc
    return loader


_sets: List[str] = []
for _name, _doc, _options, _present in _core._catalog():
    if _name.isidentifier():
        globals()[_name] = _loader(_name, _doc + (f" Options: {', '.join(_options)}." if _options else ""))
        _sets.append(_name)


def dataset(x: Any, y: Any = None, name: str = "arrays", classes: Sequence[str] = ()) -> Dataset:
    """A data set of two arrays, of a pandas or Arrow table and its target's name, or of an object with samples.

    >>> import numpy
    >>> from varve import data
    >>> len(data.dataset(numpy.zeros((10, 3), "float32"), numpy.arange(10) % 2))
    10
    """
    if isinstance(x, Dataset):
        return x
    if hasattr(x, "to_pandas") and not hasattr(x, "iloc"):
        x = x.to_pandas()
    if hasattr(x, "iloc") and isinstance(y, str):
        table = x
        x, y = table.drop(columns=[y]).to_numpy("float32"), table[y].to_numpy()
    if y is None and isinstance(x, (tuple, list)) and len(x) == 2 and hasattr(x[0], "shape"):
        x, y = x
    if y is not None:
        return _core._dataset_of_arrays(x, y, name, list(classes))
    if not hasattr(x, "__getitem__"):
        x = list(x)  # a generator
    return _core._dataset_of_object(x, name, list(classes))


def _map(self: Dataset, *transforms: Any, **named: Any) -> Dataset:
    """Transforms by name, done to every sample that is read: `train.map("flip", crop={"padding": 4})`."""
    wanted: List[Tuple[str, List[Tuple[str, float]]]] = [(each, []) for each in transforms]
    wanted += [(key, [(k, float(v)) for k, v in options.items()]) for key, options in named.items()]
    return self._map(wanted)


Dataset.map = _map


class DataLoader:
    """Batches of a data set, read ahead by threads. Each iteration is the next epoch, in an order of its own.

    >>> import numpy
    >>> from varve import data
    >>> loader = data.DataLoader(data.dataset(numpy.zeros((10, 3), "float32"), numpy.arange(10)), batch=4)
    >>> [len(x) for x, y in loader]
    [4, 4, 2]
    """

    def __init__(self, samples: Any, batch: int = 32, seed: int = 0, shuffle: bool = True, drop_last: bool = False,
                 workers: int = 1, prefetch: int = 4, mixup: float = 0.0) -> None:  # fmt: skip
        self.dataset = dataset(samples)
        self.epoch = 0
        self._options = (shuffle, drop_last, workers, prefetch, mixup)
        self._batch, self._seed = batch, seed

    def __len__(self) -> int:
        whole, rest = divmod(len(self.dataset), self._batch)
        return whole + (1 if rest and not self._options[1] else 0)

    def __iter__(self) -> Iterator[Tuple[Tensor, Tensor]]:
        batches = _core._Batches(self.dataset, self._batch, self._seed, self.epoch, 0, *self._options)
        self.epoch += 1
        return iter(batches)
