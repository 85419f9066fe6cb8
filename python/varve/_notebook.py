"""How models, histories and data sets show themselves in a notebook, and where a run's progress goes. IPython is never
imported here: where it is at work, it is there already."""

from __future__ import annotations

import base64
import html
import sys
from typing import Any, Callable, List, Optional, Tuple

from . import _core

Sink = Callable[[str, bool], None]


def _table(head: List[str], rows: List[List[str]]) -> str:
    style = "text-align:left;padding:2px 10px"
    top = "".join(f'<th style="{style}">{html.escape(name)}</th>' for name in head)
    body = "".join("<tr>" + "".join(f'<td style="{style}">{cell}</td>' for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{top}</tr>{body}</table>"


def summary_html(summary: Any) -> str:
    rows = [
        ["&nbsp;" * 3 * row.depth + html.escape(row.path or row.kind), html.escape(row.kind), html.escape(str(list(row.output))),
         f"{row.parameters:,}" + (" (shared)" if row.shared else ""), f"{row.flops:.3g}" if row.flops else ""]
        for row in summary.rows
    ]  # fmt: skip
    foot = (
        f"<p>{summary.parameters:,} parameters, {summary.trainable:,} of them trained, {_core.bytes(summary.parameter_bytes)}; "
        f"{summary.flops:.3g} FLOPs in a forward pass of {summary.batch}; {_core.bytes(summary.peak_bytes)} at most in a training "
        "step</p>"
    )
    return _table(["layer", "kind", "output", "parameters", "FLOPs"], rows) + foot


def module_html(module: Any) -> str:
    if not module.built or module.input is None:
        return f"<pre>{html.escape(repr(module))}</pre>"
    return summary_html(module.summary())


def _charts(pictures: List[str]) -> str:
    boxes = "".join(f'<div style="flex:0 1 360px">{picture}</div>' for picture in pictures)
    return f'<div style="display:flex;flex-wrap:wrap;gap:8px">{boxes}</div>'


def history_html(history: Any) -> str:
    epochs = history.epochs
    if not epochs:
        return "<em>no epochs</em>"
    shown = epochs if len(epochs) <= 10 else epochs[-10:]
    names = ["epoch"] + [name for name in epochs[-1] if name not in ("epoch", "seconds", "rate")] + ["rate", "seconds"]
    rows = [[f"{epoch.get(name, float('nan')):.5g}" for name in names] for epoch in shown]
    note = "" if len(shown) == len(epochs) else f"<p>the last {len(shown)} of {len(epochs)} epochs</p>"
    best = f"<p>best: {html.escape(history.monitor)} {history.best:.5g} in epoch {history.best_epoch}</p>"
    best = best if history.best_epoch else ""
    ended = f"<p>ended early: {html.escape(history.stopped)}</p>" if history.stopped else ""
    return _charts(history.curves()) + note + _table(names, rows) + best + ended


def picture_html(pixels: Any, side: int = 64) -> str:
    """An array [height, width, channels] of values from 0 to 1, or stretched to them, as an inline PNG."""
    import numpy

    low, high = float(pixels.min()), float(pixels.max())
    if low < 0 or high > 1:
        pixels = (pixels - low) / max(high - low, 1e-12)
    data = _core._encode_png(numpy.clip(pixels * 255, 0, 255).astype("uint8"))
    text = base64.b64encode(data).decode()
    return f'<img style="image-rendering:pixelated" width="{side}" src="data:image/png;base64,{text}">'


def dataset_html(samples: Any) -> str:
    title = f"<p>{html.escape(repr(samples))}</p>"
    cells: List[Tuple[str, str]] = []
    for index in range(min(8, len(samples))):
        x, y = (part.numpy() for part in samples.at(index))
        target = samples.classes[int(y)] if samples.classes and y.shape == () else str(y.tolist())
        picture = x.ndim == 3 and x.shape[2] in (1, 3) and x.dtype.kind == "f"
        shown = picture_html(x) if picture else f"<code>{html.escape(_short(x))}</code>"
        cells.append((shown, html.escape(target if len(target) < 60 else target[:57] + "…")))
    boxes = "".join(f'<div style="text-align:center">{shown}<br>{target}</div>' for shown, target in cells)
    return title + f'<div style="display:flex;flex-wrap:wrap;gap:10px">{boxes}</div>'


def _short(values: Any) -> str:
    flat = values.reshape(-1)
    return ", ".join(f"{value:.4g}" for value in flat[:8].tolist()) + (", …" if flat.size > 8 else "")


# ---- progress


def _shell() -> Any:
    """IPython's shell when a notebook's kernel runs this, else None."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    return shell if hasattr(shell, "kernel") else None


class _Display:
    """One place on the page that is written anew: finished epochs, and the bar of the present one."""

    def __init__(self) -> None:
        self._kept: List[str] = []
        self._dropped = 0
        self._handle: Any = None

    def __call__(self, line: str, kept: bool) -> None:
        if kept:
            self._kept.append(line)
            if len(self._kept) > 12:
                self._kept.pop(0)
                self._dropped += 1
        earlier = [f"… {self._dropped} lines before"] if self._dropped else []
        text = "\n".join(earlier + self._kept + ([] if kept else [line]))
        page = f'<pre style="line-height:1.3">{html.escape(text)}</pre>'
        content = {"text/plain": text, "text/html": page}
        if self._handle is None:
            display: Any = sys.modules["IPython"].display  # a kernel runs this
            self._handle = display.display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


def _is_real(stream: Any) -> bool:
    try:
        return bool(stream.fileno() == 2)
    except (AttributeError, OSError, ValueError):
        return False


def _to_stream(line: str, kept: bool) -> None:
    if sys.stderr is not None:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def progress(verbosity: str) -> Tuple[Any, Optional[Sink]]:
    """How the library is to show progress, and through what; None: standard error itself, as the command line does."""
    known = {"auto": "automatic", "automatic": "automatic", "bar": "bar", "lines": "lines", "quiet": "quiet"}
    if verbosity not in known:
        raise ValueError(f"verbosity: expected one of auto, bar, lines, quiet; got {verbosity!r}")
    wanted = known[verbosity]
    if wanted == "quiet":
        return _core.Verbosity.quiet, None
    if _shell() is not None:
        return (_core.Verbosity.lines if wanted == "lines" else _core.Verbosity.bar), _Display()
    if _is_real(sys.stderr):
        return getattr(_core.Verbosity, wanted), None
    return _core.Verbosity.lines, _to_stream
