"""Varve through its Python package: `varve-python` beside `varve`, which is the same library from C++.

The network is the zoo's, as it is there; the step is the loop that a Python user writes: one compiled function, called
batch after batch.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

import common
from common import Request, Slot, Unsupported

request = common.begin()

import varve as vv
from varve import nn, optim, zoo

OPTIMIZERS = {"sgd": optim.SGD, "adam": optim.Adam, "adamw": optim.AdamW}
RESIZED_DROPOUT = ("lm", "gpt")  # families whose networks take the rate of their dropout as a size


class VarvePython(common.Peer):
    version = vv.__version__
    out_of_memory = (vv.OutOfMemory,)

    def __init__(self, request: Request):
        w = request.workload
        vv.set_threads(request.threads)
        try:
            vv.synchronize(request.device)  # opens it, or says what is missing
        except vv.Error as error:
            raise Unsupported(str(error)) from None
        self.request, self.reconstructs = request, w["targets"] == "input"
        sizes = dict(w["sizes"])
        if not request.dropout and request.family in RESIZED_DROPOUT:
            sizes["dropout"] = 0
        # Without dropout the other families that have it train as they infer: none of them has batch norm.
        self.training = request.dropout or not w["dropout_rate"] or request.family in RESIZED_DROPOUT
        self.model = zoo.make(w["zoo"], **sizes)
        self.model.build(tuple(w["input"]), dtype=vv.i32 if w["dtype"] == "i32" else vv.f32, seed=request.seed)
        self.parameters = self.model.parameters()
        self.optimizer = self.optimizer_of(request)
        how = {"device": request.device, "tf32": request.tf32}
        self.step_program = vv.compile(self.one_step, name="step", **how)
        self.infer_program = vv.compile(self.outputs, name="infer", **how)
        self.forward_program = vv.compile(self.loss, name="forward", **how)
        self.gradient_program = vv.compile(self.loss_and_gradients, name="gradient", **how)
        self.update_program = vv.compile(self.apply, name="update", **how)
        self.flags = {"mode": request.mode, "python": True}

    def optimizer_of(self, request: Request) -> Any:
        name, clip = request.optimizer.name, request.optimizer.clip_norm
        if name not in OPTIMIZERS:
            raise Unsupported(f"the optimiser {name} has no counterpart here.")
        numbers = {key: float(value) for key, value in request.workload["optimizer"].items() if key not in ("name", "clip_norm")}
        made = OPTIMIZERS[name](**numbers)
        return (made.clip_norm(clip) if clip > 0 else made).over(self.parameters)

    # ---- what is compiled

    def precision(self) -> contextlib.AbstractContextManager[Any]:
        return nn.precision("bf16") if self.request.bf16 else contextlib.nullcontext()

    def loss(self, x: vv.Tensor, y: vv.Tensor) -> vv.Tensor:
        with self.precision():
            output = self.model(x, self.training)
            return vv.mse_loss(vv.cast(output, vv.f32), x) if self.reconstructs else vv.cast(vv.cross_entropy(output, y), vv.f32)

    def loss_and_gradients(self, x: vv.Tensor, y: vv.Tensor) -> tuple[vv.Tensor, list[vv.Tensor]]:
        return vv.value_and_grad(lambda: self.loss(x, y), self.parameters)

    def one_step(self, x: vv.Tensor, y: vv.Tensor) -> vv.Tensor:
        loss, gradients = self.loss_and_gradients(x, y)
        self.optimizer.apply(gradients)
        return loss

    def apply(self, gradients: list[vv.Tensor]) -> None:
        self.optimizer.apply(gradients)

    def outputs(self, x: vv.Tensor) -> vv.Tensor:
        with self.precision():
            return vv.cast(self.model(x), vv.f32)

    # ---- the peer

    def slots(self) -> list[Slot]:
        return [Slot(tuple(variable.shape), variable.assign) for variable in self.parameters]

    def load_file(self, path: str) -> dict[str, np.ndarray]:
        return {name: np.asarray(value) for name, value in vv.load(path).items()}

    def batch(self, x: np.ndarray, y: np.ndarray) -> tuple[vv.Tensor, vv.Tensor]:
        return vv.asarray(np.ascontiguousarray(x)), vv.asarray(np.ascontiguousarray(y))

    def step(self, batch: Any) -> vv.Tensor:
        return self.step_program(*batch)

    def infer(self, batch: Any) -> vv.Tensor:
        return self.infer_program(batch[0])

    def forward(self, batch: Any) -> vv.Tensor:
        return self.forward_program(*batch)

    def gradients(self, batch: Any) -> tuple[vv.Tensor, Any]:
        return self.gradient_program(*batch)

    def update(self, gradients: Any) -> None:
        self.update_program(gradients)

    def correct(self, outputs: vv.Tensor, batch: Any) -> vv.Tensor:
        return (vv.argmax(outputs, -1) == batch[1]).sum()

    def value(self, loss: vv.Tensor) -> float:
        return float(loss.item())

    def wait(self, handle: Any) -> None:
        if isinstance(handle, vv.Tensor):
            handle.eval()
        vv.synchronize(self.request.device)

    def reset(self) -> None:
        self.model.reset_state()


if __name__ == "__main__":
    common.finish(request, VarvePython)
