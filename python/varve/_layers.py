"""Layers from the table that network files use: each is a class here, made through the text of a network file."""

from __future__ import annotations

import re
from typing import Any, Dict, Tuple

from . import _core
from ._core import Error
from ._modules import remember

SPELLED = {"lstm": "LSTM", "gru": "GRU", "rnn": "RNN"}


def toml(value: Any) -> str:
    if hasattr(value, "item") and not isinstance(value, (str, bytes)) and getattr(value, "shape", None) == ():
        value = value.item()  # a number of NumPy
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml(each) for each in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + "}"
    raise TypeError(f"a layer's option cannot be a {type(value).__name__}")


def _own(options: Dict[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any], Dict[str, Any]]:
    """Options as text, and apart from them the initialisers and activations that are no names."""
    plain, initializers, activations = {}, {}, {}
    for key, value in options.items():
        if key.endswith("_init") and not isinstance(value, (str, dict)):
            plain[key], initializers[f"own_{key}"] = f"own_{key}", value
        elif callable(value) and not isinstance(value, type):
            name = getattr(value, "__name__", "own")
            if name in _core._activations() and getattr(_core, name, None) is value:
                plain[key] = name  # varve.relu is "relu", and starts weights accordingly
            else:
                name = name if name.isidentifier() and name not in _core._activations() else "own"
                plain[key], activations[name] = name, value
        else:
            plain[key] = value
    return plain, initializers, activations


class LayerType(type):
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
        plain, initializers, activations = _own(given)
        text = f"input = [1]\n[[layer]]\n{cls._name} = {toml(plain)}\n"  # type: ignore[attr-defined]
        try:
            layer = _core._layer(text, f"nn.{cls.__name__}", initializers, activations)
        except Error as error:  # it names a place in the text, which nobody wrote
            raise Error(re.sub(r"^(nn\.\w+):\d+: \w+: ", r"\1: ", str(error))) from None
        return remember(layer, cls, **given)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _core.Module) and instance.kind() == cls._name  # type: ignore[attr-defined]


_EXAMPLES = {
    "out": "8", "name": '"relu"', "shape": "[2, 2]", "order": "[2, 1]", "groups": "2", "size": "1", "padding": "1",
    "vocabulary": "100", "width": "8", "context": "16", "heads": "2",
}  # fmt: skip


def _layer_doc(python: str, name: str, doc: str, keys: Any) -> str:
    lines = [doc, ""]
    for key, kind, standard, text in keys:
        lines.append(f"{key}: {kind}, {text}" + (f" (unless given: {standard})" if standard else ""))
    required = ", ".join(f"{key}={_EXAMPLES[key]}" for key, _, standard, _ in keys if not standard)
    kind = "relu" if name == "activation" else name
    return "\n".join(lines + ["", ">>> from varve import nn", f">>> nn.{python}({required}).kind()", repr(kind)])


def layer_classes(taken: Dict[str, Any]) -> Dict[str, Any]:
    """A class for each layer of the table that has no other here."""
    classes: Dict[str, Any] = {}
    for name, doc, keys in _core._layer_schemas():
        python = SPELLED.get(name) or "".join(part.capitalize() for part in name.split("_"))
        if python in taken:
            continue
        text = _layer_doc(python, name, doc, keys)
        classes[python] = LayerType(python, (), {"_name": name, "_keys": keys, "__doc__": text, "__module__": "varve.nn"})
    return classes
