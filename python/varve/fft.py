"""Discrete Fourier transforms of any length, along one axis or several, with gradients.

    re, im = fft.rfft(signal)                # the first n/2 + 1 frequencies of a real signal
    signal = fft.irfft((re, im), n=1000)
    re, im = fft.fft2((re, im))              # of complex values

Complex values are pairs of real tensors. Where one is taken it may also be a real tensor, whose imaginary part is 0, or a complex
array of NumPy. f32 and f64; other types are taken as f32. `norm` says where the factor goes: "backward" (1/n in the inverse
transform), "ortho" (1/√n in both) or "forward".
"""

from __future__ import annotations

from . import _core
from ._core import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import
    from typing import Any, Optional, Tuple, Union

    from ._types import DTypeLike, ShapeLike, TensorLike

    ComplexLike = Union[TensorLike, Tuple[TensorLike, TensorLike]]

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "ifft", "ifft2", "ifftn", "ifftshift", "irfft", "irfft2", "rfft", "rfft2", "rfftfreq",
]  # fmt: skip


def _parts(x: Any) -> Tuple[Any, Any]:
    """Real and imaginary part, None where that is 0."""
    if isinstance(x, tuple) and len(x) == 2:
        return x
    if getattr(getattr(x, "dtype", None), "kind", "") == "c" or isinstance(x, complex):
        import numpy

        x = numpy.asarray(x)
        return numpy.ascontiguousarray(x.real), numpy.ascontiguousarray(x.imag)
    return x, None


def fft(x: ComplexLike, n: Optional[int] = None, axis: int = -1, norm: str = "backward") -> Tuple[Tensor, Tensor]:
    """Σᵢ xᵢ · exp(-2πi·k·i/n) for each frequency k, of a complex signal: real and imaginary part.

    n: the signal is cut, or zeros are appended, to this length.

    >>> re, im = vv.fft.fft([1.0, 0.0, 0.0, 0.0])
    >>> re.tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return _core._fft(*_parts(x), n, axis, norm)


def ifft(x: ComplexLike, n: Optional[int] = None, axis: int = -1, norm: str = "backward") -> Tuple[Tensor, Tensor]:
    """The inverse of fft.

    >>> re, im = vv.fft.ifft(vv.fft.fft([1.0, 2.0]))
    >>> re.tolist()
    [1.0, 2.0]
    """
    return _core._ifft(*_parts(x), n, axis, norm)


def rfft(x: TensorLike, n: Optional[int] = None, axis: int = -1, norm: str = "backward") -> Tuple[Tensor, Tensor]:
    """The first n/2 + 1 frequencies of a real signal; the others mirror them.

    >>> re, im = vv.fft.rfft([1.0, 1.0, 1.0, 1.0])
    >>> re.tolist()
    [4.0, 0.0, 0.0]
    """
    return _core._rfft(x, None, n, axis, norm)


def irfft(x: ComplexLike, n: Optional[int] = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """A real signal of n points from its first n/2 + 1 frequencies; n is even unless given.

    >>> vv.fft.irfft(vv.fft.rfft([1.0, 2.0, 3.0]), n=3).shape
    (3,)
    """
    return _core._irfft(*_parts(x), n, axis, norm)


def fftn(
    x: ComplexLike, sizes: Optional[ShapeLike] = None, axes: Optional[ShapeLike] = None, norm: str = "backward"
) -> Tuple[Tensor, Tensor]:
    """fft along several axes, or along all of them.

    >>> re, im = vv.fft.fftn(vv.ones((2, 2, 2)))
    >>> re[0, 0, 0].item()
    8.0
    """
    return _core._fftn(*_parts(x), sizes, axes, norm)


def ifftn(
    x: ComplexLike, sizes: Optional[ShapeLike] = None, axes: Optional[ShapeLike] = None, norm: str = "backward"
) -> Tuple[Tensor, Tensor]:
    """The inverse of fftn.

    >>> re, im = vv.fft.ifftn(vv.fft.fftn(vv.ones((2, 2))))
    >>> re.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return _core._ifftn(*_parts(x), sizes, axes, norm)


def fft2(
    x: ComplexLike, sizes: Optional[ShapeLike] = None, axes: Optional[ShapeLike] = None, norm: str = "backward"
) -> Tuple[Tensor, Tensor]:
    """fft along two axes: the last two unless given.

    >>> re, im = vv.fft.fft2(vv.ones((3, 2, 2)))
    >>> re[:, 0, 0].tolist()
    [4.0, 4.0, 4.0]
    """
    return _core._fft2(*_parts(x), sizes, axes, norm)


def ifft2(
    x: ComplexLike, sizes: Optional[ShapeLike] = None, axes: Optional[ShapeLike] = None, norm: str = "backward"
) -> Tuple[Tensor, Tensor]:
    """The inverse of fft2.

    >>> re, im = vv.fft.ifft2(vv.fft.fft2(vv.ones((2, 2))))
    >>> re.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return _core._ifft2(*_parts(x), sizes, axes, norm)


def rfft2(
    x: TensorLike, sizes: Optional[ShapeLike] = None, axes: Optional[ShapeLike] = None, norm: str = "backward"
) -> Tuple[Tensor, Tensor]:
    """fft2 of a real tensor: the last of the two axes has its first n/2 + 1 frequencies.

    >>> re, im = vv.fft.rfft2(vv.ones((4, 6)))
    >>> re.shape
    (4, 4)
    """
    return _core._rfft2(x, None, sizes, axes, norm)


def irfft2(
    x: ComplexLike, sizes: Optional[ShapeLike] = None, axes: Optional[ShapeLike] = None, norm: str = "backward"
) -> Tensor:
    """The inverse of rfft2; sizes are those of the real tensor.

    >>> vv.fft.irfft2(vv.fft.rfft2(vv.ones((2, 2))), sizes=(2, 2)).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return _core._irfft2(*_parts(x), sizes, axes, norm)


def fftshift(x: TensorLike, axes: Optional[ShapeLike] = None) -> Tensor:
    """Frequency 0 in the middle of the axes, or of all of them.

    >>> vv.fft.fftshift([0, 1, 2, -2, -1]).tolist()
    [-2, -1, 0, 1, 2]
    """
    return _core._fftshift(x, axes)


def ifftshift(x: TensorLike, axes: Optional[ShapeLike] = None) -> Tensor:
    """The inverse of fftshift.

    >>> vv.fft.ifftshift([-2, -1, 0, 1, 2]).tolist()
    [0, 1, 2, -2, -1]
    """
    return _core._ifftshift(x, axes)


def fftfreq(n: int, spacing: float = 1.0, dtype: DTypeLike = "f32") -> Tensor:
    """The frequencies of fft's result, in cycles for each unit of the spacing between samples.

    >>> vv.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    return _core._fftfreq(n, spacing, dtype)


def rfftfreq(n: int, spacing: float = 1.0, dtype: DTypeLike = "f32") -> Tensor:
    """The frequencies of rfft's result.

    >>> vv.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    return _core._rfftfreq(n, spacing, dtype)
