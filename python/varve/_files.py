"""Sounds, and folders of texts and sounds."""

from __future__ import annotations

from typing import Any, Optional, Tuple, Union

from . import _core
from ._catalog import PathLike
from ._core import SoundEncoder, Splits, Tensor, Vocabulary


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
