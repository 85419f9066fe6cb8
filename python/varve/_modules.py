"""What every module can do: its tree, its state, hooks, copies and pickles."""

from __future__ import annotations

import copyreg
import re
import weakref
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Set, Tuple

from . import _core
from ._core import Error, Summary, Tensor, Variable

# How layers of the library were made, so that they can be made again: for copies and pickles.
_recipes: "weakref.WeakKeyDictionary[_core.Module, Tuple[Any, Tuple[Any, ...], Dict[str, Any]]]" = weakref.WeakKeyDictionary()


def remember(layer: _core.Module, maker: Callable[..., Any], *args: Any, **options: Any) -> _core.Module:
    """The layer, of which is known from now on that `maker(*args, **options)` makes one like it."""
    _recipes[layer] = (maker, args, options)
    return layer


def in_python_words(error: Error) -> Error:
    """The library's text, with options written as Python writes them."""
    text = re.sub(r"load\(path, \{\.partial = true\}\)", "strict=False", str(error))
    text = re.sub(r"\{\.pytorch = true\}", 'layout="pytorch"', text)
    text = re.sub(r"\{?\.(\w+) = true\}?", r"\1=True", text)
    return type(error)(text)


# ---- the tree


def named_children(self: _core.Module) -> List[Tuple[str, _core.Module]]:
    """The modules directly inside it, by name.

    Of the library's own networks those of Sequential, Residual, Branches and network files can be had.
    """
    if isinstance(self, _core._Sequential) or not hasattr(self, "__dict__"):
        return list(self._children())
    if "_items" in self.__dict__ and isinstance(self.__dict__["_items"], dict):
        items = self.__dict__["_items"].items()
    else:
        items = self.__dict__.items()
    return [(name, part) for name, part in items if isinstance(part, _core.Module)]


def children(self: _core.Module) -> List[_core.Module]:
    """The modules directly inside it."""
    return [part for _, part in named_children(self)]


def named_modules(self: _core.Module, prefix: str = "") -> List[Tuple[str, _core.Module]]:
    """It and all modules inside it, each once, under their paths."""
    found: List[Tuple[str, _core.Module]] = []
    seen: Set[int] = set()

    def walk(path: str, module: _core.Module) -> None:
        if id(module) in seen:
            return
        seen.add(id(module))
        found.append((path, module))
        for name, part in named_children(module):
            walk(f"{path}.{name}" if path else name, part)

    walk(prefix, self)
    return found


def modules(self: _core.Module) -> List[_core.Module]:
    """It and all modules inside it, each once."""
    return [module for _, module in named_modules(self)]


def named_parameters(self: _core.Module) -> List[Tuple[str, Variable]]:
    """What is learnt, frozen parameters included, by path: tied ones under each of their paths."""
    return [(path, variable) for path, variable, parameter in self._variables() if parameter]


def named_buffers(self: _core.Module) -> List[Tuple[str, Variable]]:
    """What is kept and not learnt, by path."""
    return [(path, variable) for path, variable, parameter in self._variables() if not parameter]


def build(self: _core.Module, sample: Any, dtype: Any = "f32", seed: int = 0, batch: int = 2) -> None:
    """Makes all variables for samples of this shape, by a forward pass that is never computed. Of several inputs: a dict of
    their shapes, or of (shape, type).

    dtype: of the input; i32 for token ids; f64 makes the parameters f64. seed: of their initial values.
    """
    if not isinstance(sample, dict):
        self._build(sample, dtype, seed, batch)
        return
    fields = []
    for name, kind in sample.items():
        typed = isinstance(kind, tuple) and len(kind) == 2 and isinstance(kind[0], (tuple, list))
        fields.append((name, *kind) if typed else (name, kind, dtype))
    self._build_all(fields, seed, batch)


def apply(self: _core.Module, function: Callable[[_core.Module], Any]) -> _core.Module:
    """Calls a function with it and with each module inside it."""
    for module in modules(self):
        function(module)
    return self


# ---- state


class Loaded(NamedTuple):
    """What a partial load left alone.

    >>> from varve import nn
    >>> nn.Loaded(missing=["0.bias"], unexpected=[]).missing
    ['0.bias']
    """

    missing: List[str]
    unexpected: List[str]


def _is_pytorch(layout: str) -> bool:
    if layout not in ("varve", "pytorch"):
        raise ValueError(f"layout: expected 'varve' or 'pytorch', got {layout!r}")
    return layout == "pytorch"


def state_dict(self: _core.Module, layout: str = "varve") -> Dict[str, Tensor]:
    """Weights and statistics by path, as tensors; `layout="pytorch"` as PyTorch would have them.

    >>> from varve import nn
    >>> model = nn.Sequential(nn.Dense(3)); model.build(2)
    >>> {name: value.shape for name, value in model.state_dict(layout="pytorch").items()}
    {'0.weight': (3, 2), '0.bias': (3,)}
    """
    return dict(self._weights(_is_pytorch(layout)))


def load_state_dict(self: _core.Module, state: Mapping[str, Any], layout: str = "varve", strict: bool = True) -> Loaded:
    """Takes values by path, all or nothing: tensors of Varve, NumPy or PyTorch; `layout="pytorch"` turns PyTorch's layouts.

    With strict=False what fits is taken, and what is missing or unexpected is returned.

    >>> import numpy
    >>> from varve import nn
    >>> model = nn.Sequential(nn.Dense(3)); model.build(2)
    >>> model.load_state_dict({"0.weight": numpy.ones((3, 2)), "0.bias": numpy.zeros(3)}, layout="pytorch")
    Loaded(missing=[], unexpected=[])
    """
    tensors = [(name, _tensor(name, value)) for name, value in state.items()]
    try:
        return Loaded(**self._set_weights(tensors, _is_pytorch(layout), not strict))
    except Error as error:
        raise in_python_words(error) from None


def _tensor(name: str, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Variable):
        return value.value()
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            return _core.tensor(value.float().numpy()).astype("bf16")
    try:
        return _core.tensor(value)
    except (TypeError, ValueError) as error:
        raise Error(f"load_state_dict: '{name}' is no tensor but a {type(value).__name__}.") from error


def save(
    self: _core.Module, path: Any, dtype: Any = "f32", layout: str = "varve", metadata: Optional[Mapping[str, str]] = None
) -> None:
    """Weights and statistics as a safetensors file; dtype: f32, f16 or bf16.

    >>> import tempfile, pathlib
    >>> from varve import nn
    >>> model = nn.Sequential(nn.Dense(3)); model.build(2)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> model.save(path)
    >>> model.load(path)
    Loaded(missing=[], unexpected=[])
    """
    self._save(str(path), dtype, _is_pytorch(layout), dict(metadata or {}))


def load(self: _core.Module, path: Any, layout: str = "varve", strict: bool = True) -> Loaded:
    """Weights and statistics from a safetensors file, or a run's best ones from its folder; all or nothing unless strict is
    False."""
    import os

    file = os.path.join(path, "best.safetensors") if os.path.isdir(path) else str(path)
    try:
        return Loaded(**self._load(file, _is_pytorch(layout), not strict))
    except Error as error:
        raise in_python_words(error) from None


# ---- hooks


class Hook:
    """A hook that can be removed; in a `with` block it is, at its end.

    >>> from varve import nn
    >>> hook = nn.Dense(3).register_forward_hook(lambda module, x, y: None)
    >>> hook.remove()
    """

    def __init__(self, module: _core.Module, number: int) -> None:
        self._module, self._number = weakref.ref(module), number

    def remove(self) -> None:
        """It is not called any more."""
        module = self._module()
        if module is not None:
            module._unhook(self._number)

    def __enter__(self) -> "Hook":
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()


def register_forward_hook(self: _core.Module, function: Callable[[Any, Tensor, Tensor], Any]) -> Hook:
    """Calls `function(module, x, y)` after each forward pass of this module, whoever calls it; a tensor that it returns takes
    the result's place. Inside compile it is called while the program is recorded.

    The module keeps the function until the hook is removed.

    >>> import varve as vv
    >>> from varve import nn
    >>> layer = nn.Dense(3)
    >>> shapes = []
    >>> with layer.register_forward_hook(lambda module, x, y: shapes.append(y.shape)):
    ...     _ = nn.Sequential(layer)(vv.ones((2, 4)))
    >>> shapes
    [(2, 3)]
    """
    return Hook(self, self._hook(function))


def register_gradient_hook(self: _core.Module, function: Callable[[str, Tensor], Any]) -> Hook:
    """Calls `function(path, dy)` with the gradient of each of this module's results, where one is computed; a tensor that it
    returns goes on in the gradient's place. Inside compile it is called while the program is recorded.

    >>> import varve as vv
    >>> from varve import nn
    >>> layer = nn.Dense(3); layer.build((4,))
    >>> shapes = []
    >>> with layer.register_gradient_hook(lambda path, dy: shapes.append(dy.shape)):
    ...     _ = vv.grad(lambda x: layer(x).sum())(vv.ones((2, 4)))
    >>> shapes
    [(2, 3)]
    """
    return Hook(self, self._hook_gradient(function))


# ---- copies and pickles


def _values(module: _core.Module) -> List[Tuple[str, Any, bool]]:
    """Variables at this level and below, as arrays, and whether they are trained."""
    return [(path, variable.value(), variable.trainable) for path, variable, _ in module._variables()]


def _built_for(module: _core.Module) -> Any:
    """Its input, or the list of several; None: not built."""
    return module.inputs if len(module.inputs) > 1 else module.input


def _build_again(module: _core.Module, given: Any) -> None:
    if isinstance(given, list):
        module._build_all(given, 0, 2)
    elif given is not None:
        module._build(given[0], given[1], 0, 2)


def _restore(module: _core.Module, given: Any, values: List[Tuple[str, Any, bool]]) -> None:
    _build_again(module, given)
    known = {path: variable for path, variable, _ in module._variables()}
    for path, value, trainable in values:
        variable = known.get(path)
        if variable is None or variable.shape != value.shape:
            continue  # a state carried for another batch size
        variable.assign(value)
        variable.trainable = trainable


def _remade(maker: Any, args: Any, options: Any, given: Any, values: Any) -> _core.Module:
    layer = maker(*args, **options)
    _restore(layer, given, values)
    return layer  # type: ignore[no-any-return]


def _new_module(cls: Any) -> Any:
    module = cls.__new__(cls)
    _core.Module.__init__(module)
    object.__setattr__(module, "_registers", True)
    return module


def _new_sequential(cls: Any) -> Any:
    module = cls.__new__(cls)
    _core._Sequential.__init__(module, [])
    return module


def _reduce(self: _core.Module) -> Any:
    if isinstance(self, _core._Sequential) and hasattr(self, "__dict__"):
        return _new_sequential, (type(self),), (self._children(), dict(self.__dict__), _built_for(self))
    if hasattr(self, "__dict__"):
        own = {name: (variable.value(), variable.trainable) for name, variable, _ in _lazy(self)}
        buffers = [name for name, _, learnt in self._variables() if "." not in name and not learnt]
        return _new_module, (type(self),), (dict(self.__dict__), own, buffers, _built_for(self))
    if self not in _recipes:
        raise TypeError(
            f"a {self.kind()} that is part of a network of the library cannot be copied by itself: copy the whole network, or "
            "its state_dict()"
        )
    maker, args, options = _recipes[self]
    return _remade, (maker, args, options, _built_for(self), _values(self))


def _lazy(module: _core.Module) -> List[Tuple[str, Variable, bool]]:
    """Variables of a Python module that forward made: no attributes of it."""
    return [each for each in module._variables() if "." not in each[0] and not isinstance(module.__dict__.get(each[0]), Variable)]


def _setstate(self: _core.Module, state: Any) -> None:
    if isinstance(self, _core._Sequential):
        layers, attributes, given = state
        for name, layer in layers:
            self._push(layer, name)
        self.__dict__.update(attributes)
    else:
        attributes, own, buffers, given = state
        items = attributes.get("_items")
        for name, value in attributes.items():
            if isinstance(value, Variable) and name in buffers:
                object.__setattr__(self, name, self._add_buffer(name, value.value()))
            elif isinstance(value, (_core.Module, Variable)):
                setattr(self, name, value)
            else:
                object.__setattr__(self, name, value)
        for name, item in items.items() if isinstance(items, dict) else ():
            self[name] = item  # type: ignore[index]
        for name, (value, trainable) in own.items():
            if not isinstance(items, dict):
                self._add_variable(name, Variable(value, name, trainable))
    _build_again(self, given)  # its parts have their values: this names them by their paths


def _function_reduce(function: Any) -> str:
    """Functions of the compiled module are found by their name."""
    return str(function.__name__)


def _variable_reduce(self: Variable) -> Any:
    return _new_variable, (self.value(), self.name, self.trainable)


def _new_variable(value: Any, name: str, trainable: bool) -> Variable:
    return Variable(value, name, trainable)


# ---- how it shows itself


def _repr(self: _core.Module) -> str:
    return f"<varve {self.kind()}, {self.parameter_count():,} parameters>" if self.built else f"<varve {self.kind()}, not built>"


def _html(self: _core.Module) -> str:
    from ._notebook import module_html

    return module_html(self)


def _summary_html(self: Summary) -> str:
    from ._notebook import summary_html

    return summary_html(self)


for _function in (named_children, children, named_modules, modules, named_parameters, named_buffers, build, apply, state_dict,
                  load_state_dict, save, load, register_forward_hook,
                  register_gradient_hook):  # fmt: skip
    setattr(_core.Module, _function.__name__, _function)
for _name, _method in {"__reduce__": _reduce, "__setstate__": _setstate, "__repr__": _repr, "_repr_html_": _html}.items():
    setattr(_core.Module, _name, _method)
copyreg.pickle(type(_core._layer_schemas), _function_reduce)
if "__reduce__" not in Variable.__dict__:
    Variable.__reduce__ = _variable_reduce  # type: ignore[method-assign]
Summary._repr_html_ = _summary_html  # type: ignore[method-assign]
