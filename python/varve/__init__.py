"""Varve, a deep-learning framework: the C++ library, from Python.

    import varve as vv
    from varve import nn, optim, data, zoo

Tensors are lazy: an operator records, reading (print, item, numpy) computes. They never change.

    a = vv.tensor([[1., 2.], [3., 4.]])         # lists and arrays: copies; vv.asarray shares memory
    b = vv.exp(a)[:, 0] + 1                     # NumPy's indexing and broadcasting
    np.asarray(b), b.item(), b.tolist()         # values

Gradients and programs. Both take functions of tensors and of nests of them.

    vv.grad(lambda x: (x ** 3).sum())(a)
    loss, slopes = vv.value_and_grad(f, model.parameters())
    step = vv.compile(step)                     # one program; step.text(x), step.profile(x) show it

Networks. Layers come from the library's table; a network of your own is a class with forward.

    model = nn.Sequential(nn.Flatten(), nn.Dense(128, activation="relu"), nn.Dense(10))
    model = zoo.resnet20()
    print(model.summary())

Training.

    digits = data.digits()
    history = model.fit(digits.train, optimizer=optim.Adam(1e-3), epochs=3, batch=128, validation=digits.test)
    model.evaluate(digits.test), model.predict(x), model.save("digits.safetensors")

Several processes: `varve launch -n 4 python train.py`; help(varve.distributed).
Operators of your own: vv.elementwise (a formula), vv.define (rules and kernels), vv.custom_vjp (a gradient).
The machine: vv.set_device("cuda"), vv.set_threads(4), vv.info().

Errors are ValueError (varve.Error) with the library's text, TypeError, IndexError and varve.OutOfMemory.
help(varve.nn), help(varve.data), help(varve.matmul) go on from here. Every example in a docstring runs.
"""

from __future__ import annotations

from . import _core

_core._refuse_other_interpreters()

from ._core import *
from ._core import __version__
from . import _tensor
from ._create import arange, asarray, from_dlpack, load, load_metadata, save
from ._compiled import Compiled, compile
from ._control import cond, while_loop
from ._functions import checkpoint, custom_vjp, grad, gradients, scan, value_and_grad, vjp
from ._transforms import hessian, hvp, jacobian, jvp, vmap
from ._generator import Generator
from ._own import add_kernel, define, elementwise
from . import data, fft, linalg, nn, optim, train, zoo
from .train import evaluate, fit, lr_find, predict

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import
    from typing import Any, Dict, List

    from . import distributed

__all__ = [
    "arange", "asarray", "from_dlpack", "load", "load_metadata", "save", "Compiled", "Generator", "checkpoint", "compile", "cond", "custom_vjp", "grad",
    "gradients", "scan", "value_and_grad", "vjp", "hessian", "hvp", "jacobian", "jvp", "vmap", "while_loop", "add_kernel", "define", "elementwise", "data", "distributed", "nn", "optim", "train",
    "zoo", "evaluate", "fit", "lr_find", "predict", "info", "__version__", "fft", "linalg",
]  # fmt: skip
__all__ += _core.__all__


def info() -> Dict[str, Any]:
    """The versions and the machine, for a report of what went wrong.

    >>> sorted(vv.info())
    ['deterministic', 'device', 'numpy', 'package', 'python', 'threads', 'version']
    """
    import importlib.metadata
    import os
    import platform

    try:
        numpy = importlib.metadata.version("numpy")
    except importlib.metadata.PackageNotFoundError:
        numpy = ""
    return {
        "version": __version__, "python": platform.python_version(), "numpy": numpy, "device": _core.device(),
        "threads": _core.threads(), "deterministic": _core.deterministic(), "package": os.path.dirname(__file__),
    }  # fmt: skip


def __dir__() -> List[str]:
    return sorted({*__all__, "__doc__", "__file__", "__name__", "__path__"})


if not TYPE_CHECKING:  # a checker must see what is there

    def __getattr__(name):
        if name == "distributed":  # few programs need it, and all wait for what is imported
            import importlib

            return importlib.import_module("varve.distributed")
        from ._hints import FUNCTIONS, missing

        raise missing("varve", name, FUNCTIONS)
