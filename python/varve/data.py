"""Data sets and batches.

`data.digits()` is built in, `data.load(name)` knows all of the library's, and `data.csv`, `data.image_folder` and
`data.characters` read files. Arrays, tables, generators and objects with `__len__` and `__getitem__` are data sets as they
are: `fit`, `evaluate` and `DataLoader` take them, and `data.dataset` makes one of them.

    loader = data.DataLoader(samples, batch=64, workers=4)                     # read by threads
    loader = data.DataLoader(samples, batch=64, workers=4, processes=True)     # by processes, where Python code is slow
"""

from __future__ import annotations

import itertools
import os
from typing import Any, Callable, Dict, Iterable, Iterator, List, NoReturn, Optional, Sequence, Tuple, Union

from . import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._set_table import *  # data sets by name

from ._core import Dataset, Error, SampleRandom, SoundEncoder, Splits, TableColumn, TableEncoder, Tensor, Transform, Vocabulary, make_kinds, transform_names
from ._catalog import (
    CatalogEntry, PathLike, catalog, characters, csv, idx, image_folder, load, load_picture, named, numpy, option_words, options_of, present,
    resize, root, save_png,
)  # fmt: skip
from ._files import (
    audio_folder, jsonl, load_mask, load_wav, log_mel, make_files, resample, save_jpeg, save_mask, save_wav, shards, text_folder,
    voc,
)  # fmt: skip
from ._samples import (
    FieldReader, Mapped, Reader, array_of, classes_of, columns_of, csv_text, fields_of, has_fields, input_array, is_text, target_array,
)  # fmt: skip

globals().update(named)
_sets = list(named)
__all__ = [
    "CatalogEntry", "DataLoader", "Dataset", "SampleRandom", "SoundEncoder", "Splits", "TableColumn", "TableEncoder",
    "Transform", "Vocabulary", "audio_folder", "catalog", "characters", "csv", "dataset", "idx", "image_folder", "jsonl",
    "load", "load_mask", "load_picture", "load_wav", "log_mel", "make_files", "make_kinds", "normalize", "numpy",
    "option_words", "options_of", "part", "present", "resample", "resize", "root", "save_jpeg", "save_mask", "save_png",
    "save_wav", "shards", "text_folder", "transform_names", "use_processes", "voc", *_sets,
]  # fmt: skip

# ---- data of Python


def dataset(
    x: Any, y: Any = None, *, name: str = "arrays", classes: Sequence[str] = (), keys: Optional[Sequence[Any]] = None
) -> Dataset:
    """A data set of what Python has:

    - two arrays (NumPy, PyTorch, Varve), `dataset(x, y)` or `dataset((x, y))`, or a dict of two;
    - a pandas, Arrow or polars table, or a dict of columns, and its target's name: `dataset(table, "price")`;
    - an object with `__len__` and `__getitem__` that gives pairs or dicts: a list, a `torch.utils.data.Dataset`;
    - a generator or any other iterable of samples, which is read into memory;
    - several inputs or targets: dicts of arrays by name, or tuples of them, `dataset({"image": a, "question": b}, {"digit": c})`;
      or samples that are pairs of dicts, or dicts with `keys=(["image", "question"], ["digit"])`.

    Bytes are delivered over 255, other integers as i32, the rest as f32. Integers and text as targets are classes.

    >>> import numpy
    >>> from varve import data
    >>> len(data.dataset(numpy.zeros((10, 3), "float32"), numpy.arange(10) % 2))
    10
    >>> data.dataset({"age": [31, 44], "height": [1.8, 1.7], "name": ["ada", "max"]}, "name").classes
    ['ada', 'max']
    >>> data.dataset((numpy.full(3, i), i % 2) for i in range(4)).x[0]
    (3,)
    >>> pairs = data.dataset({"left": numpy.zeros((4, 2)), "right": numpy.ones((4, 3))}, {"sum": numpy.arange(4)})
    >>> [name for name, shape, kind in pairs.inputs], pairs.at(3)[1]["sum"].item()
    (['left', 'right'], 3)
    """
    if isinstance(x, Dataset):
        return x
    if isinstance(x, Splits):
        raise TypeError("expected one data set, got the parts of one: take its .train or .test")
    if isinstance(y, str):
        return _of_table(x, y, name)
    if y is None and isinstance(x, dict):
        x, y = _two_of(x, keys)
    elif y is None and isinstance(x, (tuple, list)) and len(x) == 2 and _is_array(x[0]) and _is_array(x[1]):
        x, y = x
    if y is None and isinstance(x, (tuple, list)) and len(x) == 2 and any(fields_of(part) for part in x):
        if all(fields_of(part) or _is_array(part) for part in x):
            x, y = x
    if y is not None:
        inputs, targets = fields_of(x), fields_of(y)
        if inputs or targets:
            return _core._dataset_of_fields(inputs or [("", array_of(x))], targets or [("", array_of(y))], name)
        return _of_arrays(x, y, name, list(classes))
    if _is_array(x):
        raise TypeError("an array alone has no targets: expected x and y")
    if columns_of(x) is not None:
        raise TypeError("a table needs the name of its target: dataset(table, target)")
    samples = _indexable(x)
    if has_fields(samples, keys):
        fields = FieldReader(samples, keys)
        return _core._dataset_of_field_reader(fields, fields.size, fields.inputs, fields.targets, name)
    reader = Reader(samples, keys)
    return _core._dataset_of_reader(reader, reader.size, reader.x, reader.y, name, list(classes))


def part(x: Any, y: Any = None, **options: Any) -> Dataset:
    """A data set of samples that no rank has all of: what `dataset` makes of these arguments is this rank's part, and each
    of the others calls it with its own. Parts may be of any size. An epoch reads all of them: of each batch a rank reads what
    it has of the whole, in an order of its own. So another number of ranks, or other parts, see other batches.

    >>> import numpy
    >>> from varve import data
    >>> data.part(numpy.zeros((10, 3), "float32"), numpy.arange(10) % 2).parts       # a world of one rank
    [10]
    """
    return _core._part(dataset(x, y, **options))


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype") and len(value.shape) > 0


def _two_of(arrays: Dict[str, Any], keys: Optional[Sequence[str]]) -> Tuple[Any, Any]:
    names = list(keys or arrays)
    if len(names) != 2 or not all(each in arrays for each in names):
        raise TypeError(
            f"a dict of {', '.join(map(str, arrays)) or 'nothing'}: name the input and the target, dataset(arrays, "
            "keys=(input, target)), or the column to predict, dataset(table, target)"
        )
    return arrays[names[0]], arrays[names[1]]


def _of_arrays(x: Any, y: Any, name: str, classes: List[str]) -> Dataset:
    inputs, targets = array_of(x), array_of(y)
    if targets.dtype.kind in "OUS" and is_text(targets):
        targets, found = classes_of(targets)
        classes = classes or found
    return _core._dataset_of_arrays(inputs, targets, name, classes)


def _of_table(table: Any, target: str, name: str) -> Dataset:
    columns = columns_of(table)
    if columns is None:
        raise TypeError(f"a target's name goes with a table or a dict of columns, not with a {type(table).__name__}")
    if target not in columns:
        raise Error(f"dataset: the table has no column '{target}'.{_did_you_mean(target, columns)} It has {', '.join(columns)}.")
    if len(columns) < 2:
        raise Error(f"dataset: the table has no column beside its target '{target}'.")
    if any(is_text(column) for key, column in columns.items() if key != target):
        return _of_text_table(columns, target)
    import numpy

    x = numpy.stack([numpy.asarray(column, "float32") for key, column in columns.items() if key != target], axis=1)
    y = columns[target]
    return _of_arrays(x, y.astype("float32") if y.dtype.kind == "O" and not is_text(y) else y, name, [])


def _of_text_table(columns: Dict[str, Any], target: str) -> Dataset:
    """Columns of text become categories, as the library does it for files. Numbers stay as they are."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "table.csv")
        with open(os.fspath(path), "w", newline="") as file:
            file.write(csv_text(columns))
        return csv(path, target, test_share=0.0, standardize=False, scale_target=False).train


def _indexable(samples: Any) -> Any:
    if hasattr(samples, "__getitem__") and hasattr(samples, "__len__"):
        return samples
    if hasattr(samples, "batch_sampler") and hasattr(samples, "dataset"):
        raise TypeError("a PyTorch DataLoader gives batches: pass its .dataset, and batch= to Varve")
    if callable(samples) and not hasattr(samples, "__iter__"):
        samples = samples()
    if not hasattr(samples, "__iter__"):
        raise TypeError(
            f"a {type(samples).__name__} is no data: expected arrays, a table, an iterable, or an object with __len__ and "
            "__getitem__"
        )
    return list(samples)


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    import difflib

    close = difflib.get_close_matches(word, list(known), 1)
    return f" Did you mean '{close[0]}'?" if close else ""


# ---- methods of data sets


def _map(self: Dataset, *transforms: Any, input: str = "", **named: Any) -> Dataset:
    """Transforms of pictures, done to every sample that is read, anew in each epoch. input: which of several inputs.

    A transform is a name ("flip"), a name with its numbers (`crop={"padding": 4}`), or a function of (image, random): the
    image is an array [height, width, channels] to change in place, or a new one of that shape is returned; `random` draws
    numbers that are the same whichever thread reads the sample. A function that moves no pixels says so: `f.moves = False`.

    >>> from varve import data
    >>> def darker(image, random):
    ...     image *= random.uniform(0.5, 1.0)
    >>> train = data.digits(train=10, test=10).train.map("flip", darker, crop={"padding": 2})
    >>> train.fixed
    False
    """
    wanted: List[Any] = []
    for each in transforms:
        if isinstance(each, str):
            wanted.append((each, []))
        elif callable(each) or isinstance(each, Transform):
            wanted.append(each)
        else:
            raise TypeError(f"map: expected names of transforms or functions, got a {type(each).__name__}")
    for key, options in named.items():
        given = options if isinstance(options, dict) else {_transform_key(key): options}
        wanted.append((key, [(k, float(v)) for k, v in given.items()]))
    return self._map(wanted, input)


def _transform_key(name: str) -> str:
    options = _core._transform_options(name) if name in transform_names() else []
    return str(options[0][0]) if options else "value"


def normalize(mean: Union[float, Sequence[float]], deviation: Union[float, Sequence[float]]) -> Transform:
    """(pixel - mean) / deviation, a number for each channel or one: `train.map(data.normalize(0.5, 0.25))`.

    >>> from varve import data
    >>> data.normalize([0.5], [0.25]).name
    'normalize'
    """

    def numbers(given: Any) -> List[float]:
        return [float(each) for each in given] if hasattr(given, "__iter__") else [float(given)]

    return _core._normalize(numbers(mean), numbers(deviation))


def _map_samples(self: Dataset, function: Callable[[Any, Any], Any]) -> Dataset:
    """Each sample through a function of (input, target) that returns both, of any shape: the same in every epoch.

    >>> import numpy
    >>> from varve import data
    >>> pairs = data.dataset(numpy.ones((4, 2), "float32"), numpy.arange(4))
    >>> pairs.map_samples(lambda x, y: (numpy.tile(x, 3), y)).x[0]
    (6,)
    """
    reader = Reader(Mapped(self, function))
    return _core._dataset_of_reader(reader, reader.size, reader.x, reader.y, self.name, self.classes)


def _map_targets(self: Dataset, name: str, *, factor: float = 1.0, offset: float = 0.0, classes: int = 0) -> Dataset:
    """Each target changed as it is read: "scale" (factor · y + offset), "log" (of 1 + y) or "one_hot" (of `classes`). For a
    function of your own, `map_samples`.

    >>> import numpy
    >>> from varve import data
    >>> pairs = data.dataset(numpy.ones((4, 2), "float32"), numpy.arange(4))
    >>> pairs.map_targets("one_hot", classes=4)[2][1].tolist()
    [0.0, 0.0, 1.0, 0.0]
    """
    return self._map_targets(name, [float(classes)] if name == "one_hot" else [factor, offset])


def _arrays(self: Dataset) -> Tuple[Tensor, Tensor]:
    """All samples, read by all threads: x [N, …] and y [N, …].

    >>> from varve import data
    >>> x, y = data.digits(train=10, test=10).train.arrays()
    >>> x.shape, y.shape
    ((10, 28, 28, 1), (10,))
    """
    x, y = self._whole()
    return x, y


def _getitem(self: Dataset, index: Any) -> Any:
    """One sample, or those of a slice, as a data set."""
    if isinstance(index, slice):
        return self.subset(list(range(*index.indices(len(self)))))
    return self.at(index)


def _repr(self: Dataset) -> str:
    x, y = (f"{str(kind).split('.')[-1]}{list(shape)}" for shape, kind in (self.x, self.y))
    return f"<varve data set {self.name!r}, {len(self):,} samples {x} -> {y}>"


def _reduce(self: Dataset) -> Any:
    if not self.fixed or self.streams:
        raise TypeError("a data set with transforms, or of streams of text, cannot be pickled: send what it is made of")
    x, y = self._whole()
    return _of_arrays, (x.numpy(), y.numpy(), self.name, self.classes)


def _html(self: Dataset) -> str:
    from ._notebook import dataset_html

    return dataset_html(self)


for _name, _method in {
    "map": _map, "map_samples": _map_samples, "map_targets": _map_targets, "arrays": _arrays, "__getitem__": _getitem, "__repr__": _repr,
    "__reduce__": _reduce, "_repr_html_": _html,
}.items():  # fmt: skip
    setattr(Dataset, _name, _method)


def _splits_iter(self: Splits) -> Iterator[Dataset]:
    return iter([part for part in (self.train, self.validation, self.test) if part is not None])


def _splits_repr(self: Splits) -> str:
    parts = [f"{name} {len(part):,}" for name in ("train", "validation", "test") if (part := getattr(self, name)) is not None]
    return f"<varve data set {self.train.name!r}: {', '.join(parts)}>"


Splits.__repr__ = _splits_repr  # type: ignore[method-assign]
Splits.__iter__ = _splits_iter  # type: ignore[method-assign, assignment]


# ---- batches


def use_processes(samples: Dataset, count: int, processes: Union[bool, str]) -> None:
    """Has the samples of a Python object read by so many processes, until the data set goes; 0 or False: by threads again.

    `processes`: True for "spawn", which is safe with threads at work and needs samples that can be pickled, or "fork" or
    "forkserver". Samples that the library reads need no interpreter: for them nothing changes.

    >>> import numpy
    >>> from varve import data
    >>> pairs = data.dataset([(numpy.zeros(2, "float32"), 0)] * 4)
    >>> data.use_processes(pairs, 0, False)
    """
    if processes and count and (len(samples.inputs) > 1 or len(samples.targets) > 1):
        raise Error("processes: samples of several inputs or targets are read by threads; leave processes out.")
    reader = _core._reader(samples)
    have, usable = _core._processes(samples)
    if reader is None:
        return
    if not processes or count == 0:
        if have:
            _core._use_processes(samples, None, [])
        return
    if usable and have == count:
        return
    method = "spawn" if processes is True else str(processes)
    if method not in ("spawn", "fork", "forkserver"):
        raise Error(f"processes: expected True, 'spawn', 'fork' or 'forkserver', got {processes!r}.")
    from ._workers import Pool

    pool = Pool(reader, count, method)
    _core._use_processes(samples, pool, pool.started())


def unexpected(function: str, unknown: Dict[str, Any], known: Iterable[str]) -> None:
    """Raises TypeError for keywords that a function does not have, with the nearest that it has."""
    for name in unknown:
        raise TypeError(f"{function}() got an unexpected keyword argument '{name}'.{_did_you_mean(name, known)}")


class DataLoader:
    """Batches of a data set, read ahead by threads or processes. Each iteration is the next epoch, in an order of its own
    that the seed decides; `epoch` may be set.

    - workers: threads that read ahead; 0: the calling one. With `processes`, so many processes read the samples of a Python
      object: where its code is slow, threads would wait for each other. Order and values are the same.
    - prefetch: batches ready at most. - mixup: α; targets become probabilities. - shards: parts of a batch that mixup mixes within.
    - buckets: of samples of different lengths, batches of similar ones, each padded to one of so many lengths. A batch of such
      samples is (x, y, mask): `model(x, train, mask)`. Samples with weights have them as a last part.
    - balanced: each class as often as any other. - sampling: how likely each sample is drawn, again and again.
    - stream: for an iterable without `__len__`: samples are taken as they come, in each epoch anew, and not shuffled.

    >>> import numpy
    >>> from varve import data
    >>> loader = data.DataLoader(data.dataset(numpy.zeros((10, 3), "float32"), numpy.arange(10)), batch=4)
    >>> len(loader), [len(x) for x, y in loader], loader.epoch
    (3, [4, 4, 2], 1)
    """

    def __init__(
        self,
        samples: Any,
        batch: int = 32,
        *,
        seed: int = 0,
        epoch: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
        workers: int = 1,
        processes: Union[bool, str] = False,
        prefetch: int = 4,
        mixup: float = 0.0,
        shards: int = 0,
        rank: int = 0,
        ranks: int = 0,
        buckets: int = 0,
        balanced: bool = False,
        sampling: Sequence[float] = (),
        stream: bool = False,
        **unknown: NoReturn,
    ) -> None:
        names = ("batch", "seed", "epoch", "shuffle", "drop_last", "workers", "processes", "prefetch", "mixup", "shards", "rank", "ranks")
        unexpected("DataLoader", unknown, names + ("buckets", "balanced", "sampling", "stream"))
        if batch < 1:
            raise Error(f"DataLoader: expected a batch of 1 or more, got {batch}.")
        self.epoch = epoch
        self.batch, self.seed, self.shuffle, self.drop_last = batch, seed, shuffle, drop_last
        self.workers, self.processes, self.prefetch, self.mixup = workers, processes, prefetch, mixup
        self.shards, self.rank, self.ranks = shards, rank, ranks
        self.buckets, self.balanced, self.sampling = buckets, balanced, list(sampling)
        self._stream = samples if stream else None
        self.dataset: Optional[Dataset] = None if stream else dataset(samples)
        if self.dataset is not None and processes:
            use_processes(self.dataset, workers, processes)

    def __len__(self) -> int:
        if self.dataset is None:
            raise TypeError("a stream has no length")
        whole, rest = divmod(self.dataset.total, self.batch)
        return whole + (1 if rest and not self.drop_last else 0)

    def __iter__(self) -> Iterator[Tuple[Any, ...]]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        if self.dataset is None:
            return self._streamed()
        if self.processes:
            use_processes(self.dataset, self.workers, self.processes)  # those that were lost start anew
        return iter(
            _core._Batches(
                self.dataset, self.batch, self.seed, epoch, 0, self.shuffle, self.drop_last, self.workers, self.prefetch,
                self.mixup, self.shards, self.rank, self.ranks, self.buckets, self.balanced, self.sampling,
            )  # fmt: skip
        )

    def _streamed(self) -> Iterator[Tuple[Tensor, Tensor]]:
        import numpy as np

        source = self._stream() if callable(self._stream) and not hasattr(self._stream, "__iter__") else self._stream
        samples = iter(source)  # type: ignore[arg-type]
        while some := list(itertools.islice(samples, self.batch)):
            if len(some) < self.batch and self.drop_last:
                return
            pairs = [(input_array(x), target_array(y)) for x, y in some]
            yield _core.tensor(np.stack([x for x, _ in pairs])), _core.tensor(np.stack([y for _, y in pairs]))
