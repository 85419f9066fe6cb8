"""Tensors from arrays and files."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional

from . import _core
from ._core import Tensor, Variable


def asarray(value: Any, dtype: Any = None, *, copy: Optional[bool] = None) -> Tensor:
    """A tensor that shares the memory of an array of NumPy, PyTorch, JAX or CuPy, which must not change meanwhile.

    Arrays that cannot be shared are copied: not in row-major order, of another byte order, not aligned, of a type that is
    widened (int16), and lists. `copy=True` copies always, `copy=False` raises instead.

    >>> import numpy, varve as vv
    >>> x = numpy.ones(3, "float32")
    >>> vv.asarray(x).numpy().ctypes.data == x.ctypes.data
    True
    """
    if isinstance(value, (Tensor, Variable)):
        shared = value if isinstance(value, Tensor) else value.value()
    elif copy or (copy is None and isinstance(value, (list, tuple, int, float))):
        shared = _core.tensor(value, dtype)
    elif _core._is_foreign_array(value):
        shared = _core._from_dlpack(value, "", copy)
    else:
        shared = _core._share(value, copy is False)
    if dtype is None or shared.dtype == _core._dtype(dtype):
        return shared
    if copy is False:
        raise ValueError(f"asarray: copy=False cannot be kept, because {shared.dtype} becomes another type. Pass copy=None.")
    return shared.astype(dtype)


def from_dlpack(value: Any, *, device: Optional[str] = None, copy: Optional[bool] = None) -> Tensor:
    """A tensor on the memory of any object with `__dlpack__` (PyTorch, JAX, CuPy, NumPy), not copied; it must not change.

    Arrays of the processor that do not lie in row-major order are copied; with `copy=False` they are refused. A GPU's array
    stays there, and work is ordered by streams. `device="cpu"` asks the other library for a copy in the processor's memory.

    >>> import numpy, varve as vv
    >>> x = numpy.arange(4.0)
    >>> vv.from_dlpack(x).numpy().ctypes.data == x.ctypes.data
    True
    """
    return _core._from_dlpack(value, device or "", copy)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Tensor:
    """Numbers from start (0) to stop, as NumPy's arange.

    >>> import varve as vv
    >>> vv.arange(3).tolist(), vv.arange(1, 2, 0.5).tolist()
    ([0, 1, 2], [1.0, 1.5])
    """
    begin, end = (0, start) if stop is None else (start, stop)
    whole = all(isinstance(each, int) for each in (begin, end, step))
    if whole and begin == 0 and step == 1:
        made = _core._arange(end)
        return made if dtype is None else made.astype(dtype)
    return _core._arange(float(begin), float(end), float(step), dtype if dtype is not None else ("i64" if whole else "f32"))


def save(path: Any, tensors: Any, metadata: Optional[Dict[str, str]] = None) -> None:
    """A dict of tensors, or of arrays of any library, as a safetensors file, which Hugging Face's package reads.

    >>> import os, tempfile, varve as vv
    >>> path = os.path.join(tempfile.mkdtemp(), "two.safetensors")
    >>> vv.save(path, {"w": vv.ones((2, 3)), "b": [0.5]}, {"made": "by hand"})
    >>> vv.load(path)["b"].tolist(), vv.load_metadata(path)
    ([0.5], {'made': 'by hand'})
    """
    _core._save_safetensors(os.fspath(path), [(name, asarray(value)) for name, value in tensors.items()], metadata or {})


def load(path: Any) -> Dict[str, Tensor]:
    """The tensors of a safetensors file, by name.

    >>> import os, tempfile, varve as vv
    >>> path = os.path.join(tempfile.mkdtemp(), "one.safetensors")
    >>> vv.save(path, {"w": vv.ones((2, 3), dtype="bf16")})
    >>> vv.load(path)["w"].dtype
    varve.bf16
    """
    return dict(_core._load_safetensors(os.fspath(path))[0])


def load_metadata(path: Any) -> Dict[str, str]:
    """What a safetensors file says besides its tensors.

    >>> import os, tempfile, varve as vv
    >>> path = os.path.join(tempfile.mkdtemp(), "one.safetensors")
    >>> vv.save(path, {"w": vv.ones((1,))}, {"format": "pt"})
    >>> vv.load_metadata(path)
    {'format': 'pt'}
    """
    return dict(_core._load_safetensors(os.fspath(path))[1])
