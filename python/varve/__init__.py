"""Varve, a deep-learning framework: the C++ library, from Python.

    import varve as vv
    from varve import nn, optim, data

    digits = data.digits()
    model = nn.Sequential(nn.Flatten(), nn.Dense(128, activation="relu"), nn.Dense(10))
    model.fit(digits.train, optimizer=optim.Adam(1e-3), epochs=3, batch=128, validation=digits.test)

Tensors are lazy: an operator records, reading (print, item, numpy) computes. `compile` makes one program of a function,
`grad` and `value_and_grad` differentiate, `nn` has layers, `optim` optimisers, `data` data sets, `zoo` networks.
"""

from __future__ import annotations

from . import _core
from ._core import *  # noqa: F401,F403  operators, creation, devices
from ._core import DType, Error, OutOfMemory, Tensor, Variable, __version__
from . import _tensor  # noqa: F401  operators and methods of Tensor
from ._create import arange, asarray, from_dlpack, load, load_metadata, save
from ._functions import checkpoint, compile, custom_vjp, grad, gradients, value_and_grad, vjp
from . import data, nn, optim, train, zoo
from .train import evaluate, fit, lr_find, predict
