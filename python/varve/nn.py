"""Layers and networks.

Every layer of the library's table is here: `nn.Dense(10)`, `nn.Conv2d(32, kernel=3, activation="relu")`. A network of your
own is a class with `forward(self, x, train=False)`; layers and parameters that are its attributes register themselves, also
in lists and dicts.

    class Residual(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.first, self.second = nn.Conv2d(channels, kernel=3), nn.Conv2d(channels, kernel=3)

        def forward(self, x, train=False):
            return vv.relu(x + self.second(vv.relu(self.first(x, train)), train))
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from . import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._layer_table import *  # what the library's table makes
    from ._types import TensorLike

from ._core import Error, Mask, Summary, SummaryRow, Tensor, Variable
from ._layers import SPELLED as _SPELLED
from ._layers import layer_classes
from ._modules import Hook, Loaded, remember

Initial = Union[str, Callable[..., Any], Tensor, Any]


def Parameter(shape_or_value: Any, init: Initial = "glorot_uniform", seed: int = 0, trainable: bool = True) -> Variable:
    """A variable of a module: of a shape, started by `init` (a name, or a function of (shape, fans, seed)), or of a value.

    >>> import varve as vv
    >>> from varve import nn
    >>> nn.Parameter((2, 3)).shape, nn.Parameter(vv.ones(4)).shape
    ((2, 3), (4,))
    """
    if isinstance(shape_or_value, (tuple, int)) or (
        isinstance(shape_or_value, list) and all(isinstance(size, int) for size in shape_or_value)
    ):
        return Variable(_core._initial(init, shape_or_value, seed, "parameter"), "parameter", trainable)
    return Variable(_core.tensor(shape_or_value), "parameter", trainable)


class Module(_core.Module):
    """A network written in Python: give it `forward(self, x, train=False)`, or several inputs, and outputs in a dict.

    Layers and parameters that are its attributes register themselves; lists and dicts of them become `nn.ModuleList` and
    `nn.ModuleDict`. A layer that learns its size from its input calls `super().__init__(learns_size=True)` and makes its
    variables in forward with `self.parameter(name, shape)`.

    >>> import varve as vv
    >>> from varve import nn
    >>> class Scale(nn.Module):
    ...     def __init__(self):
    ...         super().__init__(learns_size=True)
    ...     def forward(self, x):
    ...         return x * self.parameter("scale", x.shape[-1:], init="ones")
    >>> model = nn.Sequential(nn.Dense(4), Scale())
    >>> model.build(3)
    >>> list(model.state_dict())
    ['0.weight', '0.bias', '1.scale']

    A mask of a batch with padding goes along the layers that forward calls. A class that has to see to it itself gives
    forward a third parameter, `mask` (an `nn.Mask`, or None), and returns a tensor, or a tensor and its mask.
    """

    def __init__(self, learns_size: bool = False) -> None:
        super().__init__()
        object.__setattr__(self, "_registers", True)
        code = getattr(type(self).forward, "__code__", None)
        if code is not None and "mask" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            self._use_masks()
        if learns_size:
            self._learns_size()

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, (list, tuple)) and value and all(isinstance(each, (_core.Module, Variable)) for each in value):
            value = ModuleList(value)
        elif isinstance(value, dict) and value and all(isinstance(each, (_core.Module, Variable)) for each in value.values()):
            value = ModuleDict(value)
        part = isinstance(value, (_core.Module, Variable))
        if part and "_registers" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__}: call super().__init__() before attributes are layers or parameters")
        if isinstance(value, _core.Module):
            self._add_child(name, value)
        elif isinstance(value, Variable):
            self._add_variable(name, value)
        elif isinstance(self.__dict__.get(name), (_core.Module, Variable)):
            self._remove(name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if isinstance(self.__dict__.get(name), (_core.Module, Variable)):
            self._remove(name)
        object.__delattr__(self, name)

    def forward(self, x: Any, train: bool = False) -> Any:
        """The forward pass of a batch, which your class defines: of several inputs `forward(self, image, question,
        train=False)`, and of several outputs it returns a dict of them, or a tuple.
        """
        raise NotImplementedError(f"{type(self).__name__} has no forward(self, x, train)")

    def _forward_all(self, parts: List[Tuple[str, Tensor]], mode: Any) -> Any:
        train = mode == _core.Mode.train
        if len(parts) == 1:
            if "_takes_train" not in self.__dict__:
                object.__setattr__(self, "_takes_train", _takes_train(self.forward))
            y: Any = self.forward(parts[0][1], train) if self.__dict__["_takes_train"] else self.forward(parts[0][1])
        else:
            y = self._of_several(parts, train)
        several = list(y.values()) if isinstance(y, dict) else list(y) if isinstance(y, (tuple, list)) else [y]
        if not several or not all(isinstance(each, Tensor) for each in several):
            raise TypeError(f"{type(self).__name__}.forward returned a {type(y).__name__}; expected a Tensor, or several by name or in a tuple")
        return tuple(y) if isinstance(y, list) else y

    def _of_several(self, parts: List[Tuple[str, Tensor]], train: bool) -> Any:
        """forward(image, question, train=False): by name where the batch has names, else by place."""
        import inspect

        known = inspect.signature(self.forward).parameters
        options = {"train": train} if "train" in known else {}
        if not all(name for name, _ in parts):
            return self.forward(*(part for _, part in parts), **options)  # type: ignore[arg-type]
        wanted = [name for name, p in known.items() if name != "train" and p.kind is not p.VAR_KEYWORD]
        takes_any = any(p.kind is p.VAR_KEYWORD for p in known.values())
        for name, _ in parts:
            if name not in wanted and not takes_any:
                raise Error(f"forward takes {', '.join(wanted)}; got an input '{name}'.")
        for name in wanted:
            if known[name].default is inspect.Parameter.empty and name not in dict(parts):
                raise Error(f"forward takes {', '.join(wanted)}; the input '{name}' is missing.")
        return self.forward(**dict(parts), **options)  # type: ignore[arg-type]

    def _masked_forward(self, x: Tensor, mode: Any, mask: Optional[Mask]) -> Tuple[Tensor, Optional[Mask]]:
        answer = self.forward(x, train=mode == _core.Mode.train, mask=mask)  # type: ignore[call-arg]
        if not isinstance(answer, tuple):
            answer = (answer, None)
        if len(answer) != 2 or not isinstance(answer[0], Tensor):
            raise TypeError(f"{type(self).__name__}.forward: expected a Tensor, or a Tensor and its mask")
        return answer[0], answer[1]

    def _kind(self) -> str:
        return type(self).__name__

    def parameter(self, name: str, shape: Sequence[int], init: Initial = "glorot_uniform") -> Variable:
        """The parameter of that name, made at the first call: for layers that learn their size from their input."""
        return self._parameter(name, tuple(shape), init)

    def register_buffer(self, name: str, value: Any) -> Variable:
        """A variable that is kept with the model and not learnt: `self.name`.

        >>> class Counter(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.register_buffer("calls", vv.zeros(()))
        >>> list(Counter().state_dict())
        ['calls']
        """
        variable = self._add_buffer(name, value)
        object.__setattr__(self, name, variable)
        return variable


def _takes_train(function: Callable[..., Any]) -> bool:
    """Whether a function of x takes the mode as well."""
    if hasattr(function, "__nb_signature__"):  # one of ours, which Python 3.13 takes for a function of any arguments
        return False
    import inspect

    if isinstance(function, type(_core._layer_schemas)):  # the library's: from 3.13 on they claim to take anything
        return False
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a function of C
        return False
    if any(p.kind == p.VAR_POSITIONAL for p in parameters):
        return True
    return sum(1 for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)) > 1


class ModuleList(Module):
    """Modules and parameters in a list, which register themselves: `self.blocks = nn.ModuleList(Block() for _ in range(3))`.

    >>> from varve import nn
    >>> blocks = nn.ModuleList([nn.Dense(3), nn.Dense(3)])
    >>> blocks.append(nn.Dense(2))
    >>> len(blocks), [name for name, _ in blocks.named_children()]
    (3, ['0', '1', '2'])
    """

    _items: List[Any]

    def __init__(self, items: Iterable[Any] = ()) -> None:
        super().__init__()
        object.__setattr__(self, "_items", [])
        for item in items:
            self.append(item)

    def _put(self) -> None:
        for name in [key for key in self.__dict__ if key.isdigit()]:
            Module.__delattr__(self, name)
        for index, item in enumerate(self._items):
            Module.__setattr__(self, str(index), item)

    def append(self, item: Any) -> None:
        """Adds a module or a parameter at the end."""
        if not isinstance(item, (_core.Module, Variable)):
            raise TypeError(f"ModuleList: expected modules or parameters, got a {type(item).__name__}")
        Module.__setattr__(self, str(len(self._items)), item)
        self._items.append(item)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._items))

    def __getitem__(self, index: Any) -> Any:
        return self._items[index]

    def __setitem__(self, index: int, item: Any) -> None:
        self._items[index] = item
        self._put()

    def __delitem__(self, index: int) -> None:
        del self._items[index]
        self._put()

    def forward(self, x: Tensor, train: bool = False) -> Tensor:
        raise NotImplementedError("a ModuleList is no layer: call what is in it, or use nn.Sequential")


ParameterList = ModuleList


class ModuleDict(Module):
    """Modules and parameters by name, which register themselves.

    >>> from varve import nn
    >>> heads = nn.ModuleDict({"left": nn.Dense(2), "right": nn.Dense(3)})
    >>> sorted(heads), heads["left"].kind()
    (['left', 'right'], 'dense')
    """

    _items: Dict[str, Any]

    def __init__(self, items: Mapping[str, Any] = {}) -> None:
        super().__init__()
        object.__setattr__(self, "_items", {})
        for name, item in items.items():
            self[name] = item

    def __setitem__(self, name: str, item: Any) -> None:
        if not isinstance(item, (_core.Module, Variable)):
            raise TypeError(f"ModuleDict: expected modules or parameters, got a {type(item).__name__}")
        if isinstance(item, Variable):
            self._add_variable(name, item)
        else:
            self._add_child(name, item)
        self._items[name] = item

    def __delitem__(self, name: str) -> None:
        del self._items[name]
        self._remove(name)

    def __getitem__(self, name: str) -> Any:
        return self._items[name]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._items))

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def keys(self) -> List[str]:
        """The names.

        >>> nn.ModuleDict({"left": nn.Dense(2)}).keys()
        ['left']
        """
        return list(self._items)

    def values(self) -> List[Any]:
        """What they name.

        >>> [layer.kind() for layer in nn.ModuleDict({"left": nn.Dense(2)}).values()]
        ['dense']
        """
        return list(self._items.values())

    def items(self) -> List[Tuple[str, Any]]:
        """Both.

        >>> [(name, layer.kind()) for name, layer in nn.ModuleDict({"left": nn.Dense(2)}).items()]
        [('left', 'dense')]
        """
        return list(self._items.items())

    def forward(self, x: Tensor, train: bool = False) -> Tensor:
        raise NotImplementedError("a ModuleDict is no layer: call what is in it")


class Sequential(_core._Sequential):
    """Layers one after the other; functions of a tensor are layers too. With names: `Sequential(body=…, head=…)`.

    >>> import varve as vv
    >>> from varve import nn
    >>> model = nn.Sequential(nn.Flatten(), nn.Dense(8), vv.tanh, head=nn.Dense(2))
    >>> model.build((4, 4))
    >>> len(model), model[1].kind(), list(model.state_dict())[-1]
    (4, 'dense', 'head.bias')
    """

    def __init__(self, *layers: Any, **named: Any) -> None:
        super().__init__([])
        if len(layers) == 1 and isinstance(layers[0], (list, tuple)):  # as Keras has it
            layers = tuple(layers[0])
        for layer in layers:
            self.push(layer)
        for name, layer in named.items():
            self.push(layer, name)

    def push(self, layer: Any, name: str = "") -> "Sequential":
        """Adds a layer at the end.

        >>> len(nn.Sequential(nn.Flatten()).push(nn.Dense(3), name="last"))
        2
        """
        self._push(layer if isinstance(layer, _core.Module) else Lambda(layer), name)
        return self

    append = push

    def __getitem__(self, index: Any) -> Any:
        layers = [layer for _, layer in self._children()]
        if isinstance(index, slice):
            return Sequential(*layers[index])
        if isinstance(index, str):
            return dict(self._children())[index]
        return layers[index]

    def __iter__(self) -> Iterator[_core.Module]:
        return iter([layer for _, layer in self._children()])


def Lambda(function: Callable[..., Tensor], name: str = "") -> _core.Module:
    """A function of a tensor, or of a tensor and whether it is training, as a layer without variables.

    >>> import varve as vv
    >>> from varve import nn
    >>> nn.Lambda(lambda x: x * 2)(vv.ones(2)).tolist()
    [2.0, 2.0]
    """
    if not callable(function):
        raise TypeError(f"expected a layer or a function of a tensor, got a {type(function).__name__}")
    both = function if _takes_train(function) else lambda x, train: function(x)
    kind = name or getattr(function, "__name__", "lambda").strip("<>")
    return remember(_core._lambda(kind, both), Lambda, function, name)


def Residual(body: _core.Module, shortcut: Optional[_core.Module] = None, activation: Any = None) -> _core.Module:
    """activation(body(x) + shortcut(x)); without a shortcut, x itself. Activation: a name or a function.

    >>> import varve as vv
    >>> from varve import nn
    >>> block = nn.Residual(nn.Dense(3, weight_init="zeros"), activation="relu")
    >>> block(vv.tensor([[1.0, -2.0, 3.0]])).tolist()
    [[1.0, 0.0, 3.0]]
    """
    function = _core._activation(activation) if isinstance(activation, str) and activation else activation or None
    return remember(_core._residual(body, shortcut, function), Residual, body, shortcut, activation)


def Branches(*layers: _core.Module, join: str = "concat") -> _core.Module:
    """All layers on the same input, joined: concat, add or multiply.

    >>> import varve as vv
    >>> from varve import nn
    >>> nn.Branches(nn.Dense(2), nn.Dense(3))(vv.ones((1, 4))).shape
    (1, 5)
    """
    return remember(_core._branches(join, list(layers)), Branches, *layers, join=join)


def TiedDense(embedding: _core.Module, bias: bool = False) -> _core.Module:
    """y = x · weightᵀ of an embedding: the output layer of a language model with tied weights.

    >>> import varve as vv
    >>> from varve import nn
    >>> words = nn.Embedding(20, 4)
    >>> model = nn.Sequential(words, nn.TiedDense(words))
    >>> model(vv.zeros((1, 3), vv.i32)).shape, model.parameter_count()
    ((1, 3, 20), 80)
    """
    return remember(_core._tied_dense(embedding, bias), TiedDense, embedding, bias)


def attend(attention: _core.Module, query: Any, memory: Any, train: bool = False, mask: Optional[Mask] = None) -> Tensor:
    """What an `nn.MultiHeadAttention` gives for a query, with keys and values from `memory`; mask: of the memory's steps.

    >>> import varve as vv
    >>> from varve import nn
    >>> nn.attend(nn.MultiHeadAttention(2), vv.ones((1, 3, 4)), vv.ones((1, 5, 4))).shape
    (1, 3, 4)
    """
    return attention._attend(query, memory, train, mask)


class watch:
    """While it runs, sees each call of a module on this thread when it returns.

    `see(module, path, depth, x, y)` may return a tensor to take the result's place.

    >>> import varve as vv
    >>> from varve import nn
    >>> model = nn.Sequential(nn.Dense(2), nn.Dense(3))
    >>> seen = []
    >>> with nn.watch(lambda module, path, depth, x, y: seen.append((path, y.shape))):
    ...     _ = model(vv.ones((1, 4)))
    >>> seen
    [('0', (1, 2)), ('1', (1, 3)), ('', (1, 3))]
    """

    def __init__(self, see: Callable[..., Any]) -> None:
        self._watch = _core._Watch(see)

    def __enter__(self) -> "watch":
        self._watch.enter()
        return self

    def __exit__(self, *error: Any) -> None:
        self._watch.exit()


class precision:
    """While it runs, products of layers on this thread are computed in this type from float32 weights.

    >>> import varve as vv
    >>> from varve import nn
    >>> layer = nn.Dense(2, weight_init="ones")
    >>> with nn.precision("bf16"):
    ...     layer(vv.ones((1, 3))).dtype.name
    'bf16'
    """

    def __init__(self, dtype: Any) -> None:
        self._precision = _core._Precision(dtype)

    def __enter__(self) -> "precision":
        self._precision.enter()
        return self

    def __exit__(self, *error: Any) -> None:
        self._precision.exit()


class sync_batch_norm:
    """While it runs, batch norms in training on this thread normalise by the statistics of all ranks' samples.

    >>> import varve as vv
    >>> from varve import nn
    >>> layer = nn.BatchNorm()
    >>> with nn.sync_batch_norm():
    ...     layer(vv.tensor([[1.0], [3.0]]), train=True).shape
    (2, 1)
    """

    def __init__(self) -> None:
        self._scope = _core._SyncBatchNorm()

    def __enter__(self) -> "sync_batch_norm":
        self._scope.enter()
        return self

    def __exit__(self, *error: Any) -> None:
        self._scope.exit()


def add_loss(loss: TensorLike) -> None:
    """In a module's forward while it is trained: a scalar that is added to the loss, a penalty on activations, say.

    `fit` collects them; in a loop of your own `AddedLosses` does. Where nobody does, they are dropped.

    >>> import varve as vv
    >>> from varve import nn
    >>> with nn.AddedLosses() as added:
    ...     nn.add_loss(2.0); nn.add_loss(vv.ones(3).sum())
    ...     total = added.total()
    >>> total.item()
    5.0
    """
    _core._add_loss(loss)


class AddedLosses:
    """While it runs, it collects what modules add to the loss.

    >>> from varve import nn
    >>> with nn.AddedLosses() as added:
    ...     added.total().item()
    0.0
    """

    def __init__(self) -> None:
        self._scope = _core._AddedLosses()

    def total(self) -> Tensor:
        """The sum so far; 0 when none was added.

        >>> from varve import nn
        >>> with nn.AddedLosses() as added:
        ...     added.total().shape
        ()
        """
        return self._scope.total()

    def __enter__(self) -> "AddedLosses":
        self._scope.enter()
        return self

    def __exit__(self, *error: Any) -> None:
        self._scope.exit()


def place_evenly(model: _core.Module) -> None:
    """Places the layers of a built model over the ranks of this job, so that each has about as much to compute.

    >>> from varve import nn
    >>> model = nn.Sequential(nn.Dense(3), nn.Dense(2))
    >>> model.build(2)
    >>> nn.place_evenly(model)
    """
    _core._place_evenly(model)


def split_layers(model: _core.Module) -> None:
    """Splits what can be of a built model over the ranks of this job: blocks and attentions by heads, pairs of dense layers.

    >>> from varve import nn
    >>> model = nn.Sequential(nn.Dense(4), nn.Dense(2))
    >>> model.build(2)
    >>> nn.split_layers(model)
    """
    _core._split_layers(model)


def network(text: str, name: str = "network") -> _core.Module:
    """The network that a TOML text describes, not built yet.

    >>> from varve import nn
    >>> nn.network('input = [4]\\n[[layer]]\\ndense = 3\\n')
    <varve graph, not built>
    """
    return remember(_core._network(text, name), network, text, name)


def load_network(path: Any) -> _core.Module:
    """The network of a TOML file, not built yet.

    >>> import tempfile, pathlib
    >>> from varve import nn
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "small.toml"
    >>> _ = path.write_text('input = [4]\\n[[layer]]\\ndense = 3\\n')
    >>> nn.load_network(path)
    <varve graph, not built>
    """
    with open(os.fspath(path), encoding="utf-8") as file:  # not a number: open() would take and close that file
        return network(file.read(), str(path))


_made = layer_classes(globals())
globals().update(_made)
_layers = list(_made)
__all__ = [
    "AddedLosses", "add_loss", "Branches", "Hook", "Lambda", "Loaded", "Mask", "Module", "ModuleDict", "ModuleList", "Parameter", "ParameterList", "Residual",
    "Sequential", "Summary", "SummaryRow", "TiedDense", "attend", "load_network", "network", "place_evenly", "precision", "split_layers",
    "sync_batch_norm",
    "watch", *_layers,
]  # fmt: skip
