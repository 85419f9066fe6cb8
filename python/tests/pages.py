"""The programs on the pages of docs/, as tests run them."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import pathlib
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

ROOT = pathlib.Path(__file__).resolve().parents[2]

_spec = importlib.util.spec_from_file_location("extract_snippets", ROOT / "tools/extract_snippets.py")
assert _spec and _spec.loader
_snippets = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_snippets)


class Block(NamedTuple):
    kind: str  # the fence's words: "cpp", "python", "python torch", "output"
    start: int  # number of its first line
    lines: List[str]
    below: bool  # nothing stands between it and the block before


def blocks(page: str) -> Iterator[Block]:
    end = 0
    for kind, start, lines in _snippets.blocks(ROOT / page):
        yield Block(kind, start, lines, start == end + 2)
        end = start + len(lines)


class Step(NamedTuple):
    code: str
    start: int
    printed: Optional[str]  # None where the page does not say


def program(page: str, kind: str = "python") -> List[Step]:
    """The blocks of one kind, in the page's order, each with what the page says that it prints."""
    steps: List[Step] = []
    open_step = False
    for block in blocks(page):
        text = "\n".join(block.lines) + "\n"
        if block.kind == kind:
            steps.append(Step(text, block.start, None))
            open_step = True
        elif block.kind == "output" and open_step and block.below:
            steps[-1] = steps[-1]._replace(printed=text)
            open_step = False
        else:
            open_step = open_step and block.below  # the same in another language: what follows is what both print
    return steps


def run(page: str, kind: str = "python", names: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
    """Runs a page's blocks as one program and compares what they print; returns its names."""
    names = {"__name__": "page"} if names is None else names
    for step in program(page, kind):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            # The empty lines keep the page's numbers in tracebacks.
            exec(compile("\n" * (step.start - 1) + step.code, str(ROOT / page), "exec"), names)
        if step.printed is not None:
            assert out.getvalue() == step.printed, f"{page}, line {step.start}: it printed\n{out.getvalue()}"
    return names
