"""Tensors from arrays and files."""

from __future__ import annotations

from typing import Any

from . import _core
from ._core import Tensor


def asarray(value: Any, dtype: Any = None) -> Tensor:
    """A tensor that shares the memory of an array of NumPy, PyTorch, JAX or CuPy. The array must not change meanwhile.

    >>> import numpy, varve as vv
    >>> vv.asarray(numpy.ones(3, "float32")).shape
    (3,)
    """
    if isinstance(value, Tensor):
        shared = value
    elif hasattr(value, "__dlpack__") and not type(value).__module__.startswith("numpy"):
        shared = from_dlpack(value)
    else:
        shared = _core._share(value)
    return shared if dtype is None else shared.astype(dtype)


def from_dlpack(value: Any) -> Tensor:
    """A tensor on the memory of an object with `__dlpack__`, not copied."""
    import numpy

    try:
        return _core._share(numpy.from_dlpack(value))
    except (BufferError, RuntimeError, TypeError):
        # A type that NumPy does not have (bf16), or memory that it cannot read: through a copy of the values.
        if hasattr(value, "detach"):
            value = value.detach().cpu()
            if str(value.dtype) == "torch.bfloat16":
                return _core.tensor(value.float().numpy()).astype("bf16")
            return _core.tensor(value.numpy())
        raise


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


def save(path: str, tensors: Any, metadata: Any = None) -> None:
    """A dict of tensors as a safetensors file."""
    _core._save_safetensors(str(path), [(name, _core.tensor(value)) for name, value in tensors.items()], metadata or {})


def load(path: str) -> Any:
    """The tensors of a safetensors file, by name."""
    return dict(_core._load_safetensors(str(path))[0])
