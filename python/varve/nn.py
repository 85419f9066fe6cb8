"""Layers and networks.

Every layer of the library's table is here: `nn.Dense(10)`, `nn.Conv2d(32, kernel=3, activation="relu")`. A network of your
own is a class with `forward(self, x, train=False)`; layers and parameters that are its attributes register themselves.
"""

from __future__ import annotations

import inspect
from typing import Any, Dict, List, Optional, Tuple

from . import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._layers import *  # what the library's table makes

from ._core import Tensor, Variable

_SPELLED = {"lstm": "LSTM", "gru": "GRU", "rnn": "RNN"}


def Parameter(shape_or_value: Any, init: str = "glorot_uniform", seed: int = 0) -> Variable:
    """A trainable variable: of a shape, started by `init`, or of a value."""
    if isinstance(shape_or_value, (tuple, int)) or (
        isinstance(shape_or_value, list) and all(isinstance(size, int) for size in shape_or_value)
    ):
        return Variable(_core._initial(init, shape_or_value, seed, "parameter").eval())
    return Variable(_core.tensor(shape_or_value))


class Module(_core.Module):
    """A network written in Python: give it `forward(self, x, train=False)`."""

    def __init__(self) -> None:
        super().__init__()

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, _core.Module):
            self._add_child(name, value)
        elif isinstance(value, Variable):
            self._add_variable(name, value)
        object.__setattr__(self, name, value)

    def forward(self, x: Tensor, train: bool = False) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no forward(self, x, train)")

    def _forward(self, x: Tensor, mode: Any) -> Tensor:
        if "_takes_train" not in self.__dict__:
            parameters = inspect.signature(self.forward).parameters.values()
            takes = sum(1 for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)) > 1
            object.__setattr__(self, "_takes_train", takes or any(p.kind == p.VAR_POSITIONAL for p in parameters))
        train = mode == _core.Mode.train
        y = self.forward(x, train) if self._takes_train else self.forward(x)
        if not isinstance(y, Tensor):
            raise TypeError(f"{type(self).__name__}.forward returned a {type(y).__name__}; expected a Tensor")
        return y

    def _kind(self) -> str:
        return type(self).__name__

    def register_buffer(self, name: str, value: Any) -> Variable:
        """A variable that is kept with the model and not learnt."""
        variable = Variable(value, name, False)
        self._add_variable(name, variable)
        object.__setattr__(self, name, variable)
        return variable


def _state_dict(self: _core.Module) -> Dict[str, Tensor]:
    """All variables by path, as tensors."""
    return {path: variable.value() for path, variable, _ in self._variables()}


def _named_parameters(self: _core.Module) -> List[Tuple[str, Variable]]:
    return [(path, variable) for path, variable, parameter in self._variables() if parameter]


def _load_state_dict(self: _core.Module, state: Dict[str, Any], layout: str = "varve", strict: bool = True) -> Any:
    """Takes values by path: tensors of Varve, NumPy or PyTorch; `layout="pytorch"` turns PyTorch's layouts."""
    import os
    import tempfile

    if layout not in ("varve", "pytorch"):
        raise ValueError(f"layout: expected 'varve' or 'pytorch', got {layout!r}")
    from . import asarray

    tensors = [(name, asarray(value)) for name, value in state.items()]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "state.safetensors")
        _core._save_safetensors(path, tensors, {})
        return self._load(path, layout == "pytorch", not strict)


def _load(self: _core.Module, path: Any, layout: str = "varve", strict: bool = True) -> Any:
    """Weights and statistics from a safetensors file; all or nothing unless strict is False."""
    return self._load(str(path), layout == "pytorch", not strict)


def _repr(self: _core.Module) -> str:
    return f"<varve {self.kind()}, {self.parameter_count():,} parameters>" if self.built else f"<varve {self.kind()}, not built>"


def _html(self: _core.Module) -> str:
    import html

    return f"<pre>{html.escape(self.summary() if self.built else repr(self))}</pre>"


for _name, _method in {
    "state_dict": _state_dict, "named_parameters": _named_parameters, "load_state_dict": _load_state_dict, "load": _load,
    "__repr__": _repr, "_repr_html_": _html,
}.items():  # fmt: skip
    setattr(_core.Module, _name, _method)


class Sequential(_core._Sequential):
    """Layers one after the other."""

    def __init__(self, *layers: _core.Module) -> None:
        super().__init__(list(layers))


def Residual(body: _core.Module, shortcut: Optional[_core.Module] = None, activation: str = "") -> _core.Module:
    """activation(body(x) + shortcut(x)); without a shortcut, x itself."""
    return _core._residual(body, shortcut, activation)


def Branches(*layers: _core.Module, join: str = "concat") -> _core.Module:
    """All layers on the same input, joined: concat, add or multiply."""
    return _core._branches(join, list(layers))


def load_network(path: Any) -> _core.Module:
    """The network of a TOML file."""
    return _core._load_network(str(path))


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + "}"
    raise TypeError(f"a layer's option cannot be a {type(value).__name__}")


class _LayerType(type):
    """Makes layers of the library's table; `isinstance(layer, nn.Dense)` asks for their kind."""

    def __call__(cls, *args: Any, **options: Any) -> _core.Module:
        keys = [key for key, _, _, _ in cls._keys]  # type: ignore[attr-defined]
        if len(args) > len(keys):
            raise TypeError(f"{cls.__name__}() takes at most {len(keys)} options, got {len(args)}")
        given = dict(zip(keys, args))
        for key, value in options.items():
            if key in given:
                raise TypeError(f"{cls.__name__}() got two values for '{key}'")
            given[key] = value
        given = {key: value for key, value in given.items() if value is not None}
        name = cls._name  # type: ignore[attr-defined]
        return _core._layer(f"input = [1]\n[[layer]]\n{name} = {_toml(given)}\n", f"nn.{cls.__name__}")

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _core.Module) and instance.kind() == cls._name  # type: ignore[attr-defined]


def _layer_classes() -> List[str]:
    names = []
    for name, doc, keys in _core._layer_schemas():
        python = _SPELLED.get(name) or "".join(part.capitalize() for part in name.split("_"))
        if python in globals():
            continue
        lines = [doc, ""] + [f"{key}: {kind}, {text}" + (f" (unless given: {standard})" if standard else "") for key, kind, standard, text in keys]
        globals()[python] = _LayerType(python, (), {"_name": name, "_keys": keys, "__doc__": "\n".join(lines), "__module__": __name__})
        names.append(python)
    return names


_layers = _layer_classes()
