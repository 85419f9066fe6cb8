"""Optimisers and schedules of the library's tables. Type checkers read _tables.pyi, which tools/python-stubs writes."""

from __future__ import annotations

from . import _core

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import
    from typing import Any, Callable, Dict, List

_SPELLED = {"sgd": "SGD", "adamw": "AdamW", "lbfgs": "LBFGS"}
__all__: List[str] = []


def python_name(name: str) -> str:
    """The name of an optimiser in Python."""
    return _SPELLED.get(name, name.capitalize())


def _maker(name: str, python: str, keys: List[str], make: Callable[..., Any], what: str, example: str) -> Callable[..., Any]:
    def maker(*args: float, **options: float) -> Any:
        if len(args) > len(keys):
            raise TypeError(f"{python}() takes at most {len(keys)} options ({', '.join(keys)}), got {len(args)}")
        given: Dict[str, Any] = dict(zip(keys, args))
        for key, value in options.items():
            if key in given:
                raise TypeError(f"{python}() got two values for '{key}'")
            given[key] = value
        numbers = []
        for key, value in given.items():
            try:
                numbers.append((key, float(value)))
            except (TypeError, ValueError):
                raise TypeError(f"{python}: {key} must be a number, got {value!r} ({type(value).__name__})") from None
        return make(name, numbers)

    maker.__name__ = maker.__qualname__ = python
    maker.__module__ = "varve.optim"
    options = f"Options: {', '.join(keys)}." if keys else "No options."
    maker.__doc__ = f"{what} {name}. {options}\n\n>>> {example}"
    __all__.append(python)
    return maker


for _name, _keys in _core._optimizers():
    _python = python_name(_name)
    globals()[_python] = _maker(
        _name, _python, _keys, _core._optimizer, "The optimiser", f"optim.{_python}(0.01).name\n'{_name}'"
    )
for _name, _keys in _core._schedules():
    if _name == "milestones":  # takes a list: a function of its own in optim
        continue
    _given = "0.9" if _name == "exponential" else ""
    globals()[_name] = _maker(
        _name, _name, _keys, _core._schedule, "The schedule", f"optim.{_name}({_given}).factor(0, 10, 0.0, 1.0) <= 1\nTrue"
    )
