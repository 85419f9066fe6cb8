"""Files and folders of one's own: texts, sounds, masks and boxes, JSON lines, many files together."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple, Union

from . import _core
from ._catalog import PathLike
from ._core import SoundEncoder, Splits, TableEncoder, Tensor, Vocabulary


def load_wav(source: Union[PathLike, bytes]) -> Tuple[Tensor, int]:
    """A WAV file, or its bytes: the samples of one channel in -1…1, and their rate.

    >>> import tempfile, pathlib, numpy
    >>> from varve import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tone.wav"
    >>> data.save_wav(path, numpy.sin(numpy.arange(800) / 3), 8000)
    >>> samples, rate = data.load_wav(path)
    >>> samples.shape, rate
    ((800,), 8000)
    """
    return _core._decode_wav(source) if isinstance(source, bytes) else _core._load_wav(str(source))


def save_wav(path: PathLike, samples: Any, rate: int) -> None:
    """Samples [n] in -1…1 as a WAV file of 16 bits; see `load_wav`.

    >>> import tempfile, pathlib, numpy
    >>> from varve import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "silence.wav"
    >>> data.save_wav(path, numpy.zeros(100, "float32"), 16000)
    >>> path.stat().st_size
    244
    """
    _core._save_wav(str(path), samples, rate)


def resample(samples: Any, rate: int, to: int) -> Tensor:
    """Samples [n] at another rate, band-limited.

    >>> import numpy
    >>> from varve import data
    >>> data.resample(numpy.zeros(44100, "float32"), 44100, 16000).shape
    (16000,)
    """
    return _core._resample(samples, rate, to)


def log_mel(samples: Any, rate: int, *, window: int = 400, step: int = 160, mels: int = 40) -> Tensor:
    """The logarithm of the energy of samples [n] in bands as wide as the ear's: [frames, mels].

    >>> import numpy
    >>> from varve import data
    >>> data.log_mel(numpy.zeros(16000, "float32"), 16000).shape
    (98, 40)
    """
    return _core._log_mel(samples, rate, window, step, mels)


def text_folder(
    path: PathLike, *, words: int = 10000, length: int = 200, test_share: float = 0.1, vocabulary: Optional[Vocabulary] = None,
    lengths: bool = False
) -> Splits:  # fmt: skip
    """Texts in folders named as their classes, path/class/*.txt, as the ids of their last `length` words: padded with 0 on the
    left, or, with lengths=True, each with its own length, and padding on the right.

    >>> import tempfile, pathlib
    >>> from varve import data
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("good", "bad"):
    ...     (folder / name).mkdir()
    ...     for i in range(5):
    ...         _ = (folder / name / f"{i}.txt").write_text(f"a {name} film")
    >>> texts = data.text_folder(folder, length=4)
    >>> texts.train.classes, texts.train.x[0], len(texts.train.vocabulary)
    (['bad', 'good'], (4,), 6)
    """
    return _core._text_folder(str(path), words, length, test_share, vocabulary, lengths)


def audio_folder(
    path: PathLike, *, encoder: Optional[SoundEncoder] = None, test_share: float = 0.1, fitted: Optional[SoundEncoder] = None
) -> Splits:
    """Sounds in folders named as their classes, path/class/*.wav, as frames of log-mel energies.

    `encoder` says how, and its mean and deviation are fitted to the training part; `fitted` is taken as it is.

    >>> import tempfile, pathlib, numpy
    >>> from varve import data
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("low", "high"):
    ...     (folder / name).mkdir()
    ...     for i in range(5):
    ...         data.save_wav(folder / name / f"{i}.wav", numpy.sin(numpy.arange(8000) * len(name) / 9), 8000)
    >>> sounds = data.audio_folder(folder, encoder=data.SoundEncoder(rate=8000, frames=50, mels=20))
    >>> sounds.train.x[0], sounds.train.sound.deviation > 0
    ((50, 20, 1), True)
    """
    return _core._audio_folder(str(path), encoder, test_share, fitted)


def voc(
    path: PathLike,
    height: int = 224,
    width: int = 224,
    channels: int = 3,
    *,
    task: str = "found",
    boxes: int = 16,
    difficult: bool = False,
    border: int = 0,
    test_share: float = 0.1,
    classes: Sequence[str] = (),
) -> Splits:
    """Pictures in PASCAL VOC's layout, with a class for each pixel (`task="segmentation"`) or rows of (class, left, top, right,
    bottom), in shares of the sides (`task="detection"`; class -1: no box). "found": masks, where there are some.

    >>> import tempfile, pathlib
    >>> from varve import data
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> data.make_files("shapes", folder, samples=10)
    >>> masks, boxes = data.voc(folder, 64, 64), data.voc(folder, 64, 64, task="detection")
    >>> masks.train.y[0], boxes.train.y[0], boxes.train.boxes, boxes.train.classes
    ((64, 64), (16, 5), True, ['disc', 'square', 'triangle'])
    """
    return _core._voc(str(path), height, width, channels, task, boxes, difficult, border, test_share, list(classes))


def jsonl(
    path: PathLike,
    target: str = "",
    *,
    test_share: float = 0.1,
    standardize: bool = True,
    classes: bool = True,
    scale_target: bool = True,
    missing: str = "error",
    words: int = 10000,
    length: int = 200,
    encoder: Optional[TableEncoder] = None,
    vocabulary: Optional[Vocabulary] = None,
) -> Splits:
    """A JSON object on each line: a table; or one text, or one array of numbers, beside the target.

    The target is a key: label, target, class or y, or the last, unless named.

    >>> import tempfile, pathlib
    >>> from varve import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "films.jsonl"
    >>> lines = ['{"text": "a good film", "label": "for"}', '{"text": "a bad film", "label": "against"}'] * 5
    >>> _ = path.write_text(chr(10).join(lines))
    >>> films = data.jsonl(path, length=4)
    >>> films.train.x[0], films.train.classes
    ((4,), ['against', 'for'])
    """
    return _core._jsonl(
        str(path), target, test_share, standardize, classes, scale_target, missing, words, length, encoder, vocabulary
    )


def shards(
    pattern: PathLike,
    *,
    buffer: int = 10000,
    height: int = 224,
    width: int = 224,
    channels: int = 3,
    names: Sequence[str] = (),
    target: str = "",
    test_share: float = 0.1,
    standardize: bool = True,
    classes: bool = True,
    scale_target: bool = True,
    missing: str = "error",
    words: int = 10000,
    length: int = 200,
    encoder: Optional[TableEncoder] = None,
    vocabulary: Optional[Vocabulary] = None,
) -> Splits:
    """Files of one kind that a pattern names (.csv, .jsonl, .npz, .tar), of which only those in use are in memory.

    Each epoch takes them in an order of its own, and mixes their samples among `buffer` of them. `names` are those of the
    classes of .tar; the last share of the files tests.

    >>> import tempfile, pathlib, numpy
    >>> from varve import data
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for i in range(3):
    ...     numpy.savez(folder / f"part-{i}.npz", x=numpy.zeros((5, 2), "float32"), y=numpy.arange(5) % 2)
    >>> len(data.shards(folder / "part-*.npz").train)
    15
    """
    return _core._shards(
        str(pattern), buffer, height, width, channels, list(names), target, test_share, standardize, classes, scale_target,
        missing, words, length, encoder, vocabulary,
    )  # fmt: skip


def make_files(kind: str, folder: PathLike, samples: int = 100, seed: int = 1) -> None:
    """Made-up files to try things with, in a folder that is new or empty: see `make_kinds`.

    >>> import tempfile
    >>> from varve import data
    >>> folder = tempfile.mkdtemp()
    >>> data.make_files("reviews", folder, samples=20)
    >>> data.text_folder(folder).train.classes
    ['bad', 'good']
    """
    _core._make_files(kind, str(folder), samples, seed)


def save_jpeg(path: PathLike, picture: Any, quality: int = 90) -> None:
    """Writes bytes [height, width, channels] as a JPEG file; see `load_picture`.

    >>> import tempfile, pathlib, numpy
    >>> from varve import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "grey.jpg"
    >>> data.save_jpeg(path, numpy.full((8, 8, 3), 100, "uint8"))
    >>> data.load_picture(path).shape
    (8, 8, 3)
    """
    _core._save_jpeg(str(path), picture, quality)


def load_mask(path: PathLike) -> Tensor:
    """A PNG file whose pixels are numbers of classes, as bytes [height, width, 1]: the places in its palette, or its greys.

    >>> import tempfile, pathlib, numpy
    >>> from varve import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "mask.png"
    >>> data.save_mask(path, numpy.full((2, 2, 1), 7, "uint8"))
    >>> data.load_mask(path).tolist()
    [[[7], [7]], [[7], [7]]]
    """
    return _core._load_mask(str(path))


def save_mask(path: PathLike, mask: Any) -> None:
    """Writes numbers of classes [height, width, 1] as a PNG file with PASCAL VOC's palette; see `load_mask`.

    >>> import tempfile, pathlib, numpy
    >>> from varve import data
    >>> data.save_mask(pathlib.Path(tempfile.mkdtemp()) / "mask.png", numpy.zeros((2, 2, 1), "uint8"))
    """
    _core._save_mask(str(path), mask)
