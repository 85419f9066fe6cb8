"""Data sets by name and from files, and pictures."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Union

from . import _core
from ._core import Dataset, Splits, TableEncoder, Tensor, Vocabulary

PathLike = Union[str, "os.PathLike[str]"]


class CatalogEntry(NamedTuple):
    """A data set that the library knows by name.

    >>> from varve import data
    >>> data.catalog()[0].present
    True
    """

    name: str
    doc: str
    options: List[str]
    present: bool
    input: str
    home: str
    train: int
    test: int
    download_bytes: int


def catalog() -> List[CatalogEntry]:
    """The data sets that `load` knows by name alone.

    >>> from varve import data
    >>> data.catalog()[0].name
    'digits'
    """
    return [CatalogEntry(*each) for each in _core._catalog()]


def root() -> str:
    """Where files are looked for: VARVE_DATA, or the user's cache.

    >>> import os
    >>> from varve import data
    >>> os.path.isabs(data.root()) or "VARVE_DATA" in os.environ
    True
    """
    return str(_core._data_root())


def present(name: str) -> bool:
    """Whether a data set of the catalogue is on this machine.

    >>> from varve import data
    >>> data.present("digits")
    True
    """
    return bool(_core._data_present(name))


def options_of(name: str) -> List[str]:
    """The options that `load` accepts for a name.

    >>> from varve import data
    >>> data.options_of("digits")
    ['train', 'test', 'seed']
    """
    return list(_core._data_options(name))


def option_words(name: str, option: str) -> List[str]:
    """The words that an option takes as its value; none when it takes a number.

    >>> from varve import data
    >>> data.option_words("csv:table.csv", "missing")
    ['error', 'mean', 'median', 'frequent', 'category']
    """
    return list(_core._option_words(name, option))


def _option_number(name: str, option: str, value: Union[float, str]) -> float:
    if not isinstance(value, str):
        return float(value)
    words = option_words(name, option)
    if value not in words:
        known = ", ".join(words) or "a number"
        raise _core.Error(f"data set '{name}': {option} is '{value}', expected {known}.")
    return float(words.index(value))


def load(name: str, download: bool = True, quiet: bool = False, like: Any = None, **options: Union[float, str]) -> Splits:
    """A data set by name: "mnist", "folder:photos", "csv:table.csv#target", "chars:book.txt", "npz:arrays.npz" …

    `like`: a data set, or a model from a run's folder, whose columns and scaling, classes and vocabulary these samples are
    to have.

    >>> from varve import data
    >>> len(data.load("digits", train=100, test=10).train)
    100
    """
    numbers = {key: _option_number(name, key, value) for key, value in options.items()}
    return _core._load_data(name, numbers, download, quiet, like)


def _loader(name: str, doc: str) -> Callable[..., Splits]:
    def loader(download: bool = True, quiet: bool = False, **options: float) -> Splits:
        return load(name, download, quiet, **options)

    loader.__name__ = loader.__qualname__ = name
    loader.__module__ = "varve.data"
    loader.__doc__ = doc
    return loader


named: Dict[str, Callable[..., Splits]] = {}  # a function for each of the catalogue
for _entry in catalog():
    if _entry.name.isidentifier():
        _example = f'\n\n    >>> from varve import data\n    >>> data.present("{_entry.name}") in (True, False)\n    True\n    '
        _text = _entry.doc + (f" Options: {', '.join(_entry.options)}." if _entry.options else "")
        named[_entry.name] = _loader(_entry.name, _text + _example)


def csv(
    path: PathLike,
    target: str = "",
    *,
    separator: str = "",
    test_share: float = 0.1,
    standardize: bool = True,
    classes: bool = True,
    scale_target: bool = True,
    encoder: Optional[TableEncoder] = None,
    missing: str = "error",
) -> Splits:
    """A table from a file; unless named, the last column is the target.

    Text is categories; numbers, and dates as days, are brought to mean 0 and deviation 1 unless `standardize` is False. How
    the file was read is the data set's `table`, and another file goes through the same with `encoder=`.

    - separator: one character; "": the one that the first line has most of. - missing: what empty fields, NA and their like
      become: error, mean, median, frequent, or category (one of their own, or one more input).

    >>> import tempfile, pathlib
    >>> from varve import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "flats.csv"
    >>> rows = [f"{50 + i},{'brick' if i % 2 else 'wood'},{1000.5 + i}" for i in range(20)]
    >>> _ = path.write_text("\\n".join(["area,wall,price"] + rows))
    >>> table = data.csv(path, "price")
    >>> table.train.x[0], table.train.table.inputs[1].categories
    ((3,), ['brick', 'wood'])
    """
    return _core._csv(str(path), target, separator, test_share, standardize, classes, scale_target, encoder, missing)


def image_folder(path: PathLike, height: int = 224, width: int = 224, channels: int = 3, test_share: float = 0.1) -> Splits:
    """Pictures in folders named as their classes: path/class/*.jpg, png, webp, gif, bmp.

    >>> import tempfile, pathlib, numpy
    >>> from varve import data
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("cat", "dog"):
    ...     (folder / name).mkdir()
    ...     for i in range(5):
    ...         data.save_png(folder / name / f"{i}.png", numpy.zeros((8, 8, 3), "uint8"))
    >>> data.image_folder(folder, 8, 8).train.classes
    ['cat', 'dog']
    """
    return _core._image_folder(str(path), height, width, channels, test_share)


def characters(path: PathLike, steps: int = 20, streams: int = 20, vocabulary: Optional[Vocabulary] = None) -> Splits:
    """A text file by its characters: windows of `steps`, and the same one character later. The last tenth tests.

    >>> import tempfile, pathlib
    >>> from varve import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "book.txt"
    >>> _ = path.write_text("the quick brown fox " * 200)
    >>> data.characters(path, steps=10, streams=4).train.x[0]
    (10,)
    """
    return _core._characters(str(path), steps, streams, vocabulary)


def numpy(x_path: PathLike, y_path: PathLike) -> Dataset:
    """Rows of two .npy files.

    >>> import tempfile, pathlib, numpy
    >>> from varve import data
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> numpy.save(folder / "x.npy", numpy.zeros((5, 2), "float32")); numpy.save(folder / "y.npy", numpy.arange(5))
    >>> len(data.numpy(folder / "x.npy", folder / "y.npy"))
    5
    """
    return _core._numpy_files(str(x_path), str(y_path))


def idx(images_path: PathLike, labels_path: PathLike, classes: Sequence[str] = ()) -> Dataset:
    """Pictures and labels in MNIST's format, packed with gzip or not.

    >>> import tempfile, pathlib
    >>> from varve import data
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "images").write_bytes(bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2]) + bytes(8))
    >>> _ = (folder / "labels").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 1, 0]))
    >>> len(data.idx(folder / "images", folder / "labels"))
    2
    """
    return _core._idx_files(str(images_path), str(labels_path), list(classes))


def load_picture(path: PathLike, channels: int = 0) -> Tensor:
    """A JPEG, PNG, WebP, GIF or BMP file as bytes [height, width, channels]; 0 channels: as it is.

    >>> import tempfile, pathlib, numpy
    >>> from varve import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "grey.png"
    >>> data.save_png(path, numpy.full((4, 6, 1), 9, "uint8"))
    >>> data.load_picture(path).shape
    (4, 6, 1)
    """
    return _core._load_picture(str(path), channels)


def save_png(path: PathLike, picture: Any) -> None:
    """Writes bytes [height, width, channels] as a PNG file; see `load_picture`.

    >>> import tempfile, pathlib, numpy
    >>> from varve import data
    >>> data.save_png(pathlib.Path(tempfile.mkdtemp()) / "black.png", numpy.zeros((2, 2, 3), "uint8"))
    """
    with open(os.fspath(path), "wb") as file:
        file.write(_core._encode_png(picture))


def resize(picture: Any, height: int, width: int, fill: bool = False) -> Tensor:
    """A picture in another size; with `fill` what does not fit the proportions is cut off instead of squeezed.

    >>> import numpy
    >>> from varve import data
    >>> data.resize(numpy.zeros((8, 4, 3), "uint8"), 4, 4).shape
    (4, 4, 3)
    """
    return _core._resize(picture, height, width, fill)
