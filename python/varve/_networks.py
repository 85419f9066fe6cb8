"""Networks of the zoo as functions. Type checkers read _networks.pyi, which tools/python-stubs writes."""

from __future__ import annotations

from . import _core

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import
    from typing import Any, Callable, List

__all__: List[str] = []


def _maker(name: str, python: str, doc: str, sizes: List[str]) -> Callable[..., Any]:
    def maker(**given: float) -> Any:
        from .zoo import make

        return make(name, **given)

    maker.__name__ = maker.__qualname__ = python
    maker.__module__ = "varve.zoo"
    maker.__doc__ = f"{doc}\n\nSizes: {', '.join(['classes', *sizes])}.\n\n>>> zoo.{python}().built\nFalse"
    __all__.append(python)
    return maker


for _entry in _core._zoo():
    _python = _entry.name.replace("-", "_").replace(".", "_")
    globals()[_python] = _maker(_entry.name, _python, _entry.doc, _entry.sizes)
