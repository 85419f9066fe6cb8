"""Tensors in notebooks."""

from __future__ import annotations

from typing import Any, List

from . import _core
from ._core import Tensor

_MOST = 10  # rows and columns that are shown of each axis: as many at the beginning as at the end


def _shown(size: int) -> List[Any]:
    return list(range(size)) if size <= _MOST else [*range(_MOST // 2), None, *range(size - _MOST // 2, size)]


def _escaped(text: str) -> str:
    import html  # only notebooks need it

    return html.escape(text)


def _cell(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return f'<td style="text-align:right;font-family:monospace">{_escaped(text)}</td>'


def _table(value: Tensor) -> str:
    """One or two axes as a table, its middle left out where it is long."""
    rows = value if value.ndim == 2 else _core.reshape(value, (1, -1))
    values = (rows.astype("f32") if rows.dtype == _core.bf16 else rows).numpy()
    gap = '<td style="text-align:center">⋯</td>'
    columns = _shown(rows.shape[1])
    lines = []
    for i in _shown(rows.shape[0]):
        cells = (gap if i is None or j is None else _cell(values[i, j].item()) for j in columns)
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(lines)}</table>"


def html_of_tensor(self: Any) -> str:
    """Shape, type and values, for notebooks.

    >>> import varve as vv
    >>> vv.tensor([1.0])._repr_html_()[:49]
    '<div><small>Tensor · 1 · f32</small><table><tr><t'
    """
    value = self if isinstance(self, Tensor) else self.value()
    what = "Tensor" if isinstance(self, Tensor) else f"Variable {self.name}"
    sizes = " × ".join(str(size) for size in value.shape) or "scalar"
    head = f"<small>{_escaped(what)} · {sizes} · {value.dtype}</small>"
    if _core.tracing():
        return f"<div>{head}<pre>no value yet: it is part of a program that is being recorded</pre></div>"
    body = _table(value) if value.ndim in (1, 2) and value.size else f"<pre>{_escaped(value._text())}</pre>"
    return f"<div>{head}{body}</div>"
