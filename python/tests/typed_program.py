"""A program that uses most of the package, for type checkers: test_types.py has mypy and pyright read it, strictly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import varve as vv
from varve import data, nn, optim, train, zoo


class Batch(NamedTuple):
    x: vv.Tensor
    y: vv.Tensor


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, kernel=3, activation="relu")
        self.second = nn.Conv2d(channels, kernel=[3, 3], padding="same")

    def forward(self, x: vv.Tensor, train: bool = False) -> vv.Tensor:
        return vv.relu(x + self.second(self.first(x, train), train))


def tensors() -> float:
    a = vv.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=vv.f32)
    b = vv.exp(a)[:, 0] + 1
    c = 2 * b - a.sum(axis=0, keepdims=False) @ a.T
    shared = vv.asarray(np.zeros(3, "float32"))
    mask: vv.Tensor = (a > 1) & ~(a == 2)
    parts = vv.split(vv.where(mask, a, 0.0), 2, axis=1)
    values, positions = vv.top_k(c, 1)
    shape: tuple[int, ...] = shared.shape
    return float(values) + len(parts) + len(shape) + float(positions[0].item())


def functions() -> vv.Tensor:
    g = vv.grad(lambda x: (x**3).sum())(vv.tensor([1.0]))

    @vv.compile
    def step(batch: Batch, scale: float = 1.0) -> vv.Tensor:
        return vv.mse_loss(batch.x * scale, batch.y)

    swish = vv.elementwise(lambda x: x * vv.sigmoid(x), name="swish")
    loss: vv.Tensor = step(Batch(vv.ones(3), vv.zeros(3)), scale=0.5)
    last, sums = vv.scan(lambda carry, x: (carry + x, carry), vv.tensor(0.0), vv.arange(3).astype("f32"))
    small: vv.Tensor = vv.cond(last > 0, lambda x: x, lambda x: -x, last)
    halved: vv.Tensor = vv.while_loop(lambda x: x > 1, lambda x: x / 2, small, max_steps=9)
    with vv.Scope("block"):
        total: vv.Tensor = loss + g.sum() + swish(loss) + halved + vv.sum(sums)
    return total


def training() -> float:
    model = nn.Sequential(nn.Conv2d(8), Residual(8), nn.Flatten(), nn.Dense(10))
    digits = data.digits(train=100, test=50)
    recipe = optim.AdamW(1e-3, weight_decay=0.01).clip_norm(1.0)
    history = model.fit(digits.train, optimizer=recipe, schedule=optim.cosine(), epochs=1, verbosity="quiet")
    adam = optim.Adam(1e-3).over(model.parameters())
    loss, slopes = vv.value_and_grad(lambda: vv.ones(1).sum(), model.parameters())
    adam.apply(slopes)
    small = zoo.lenet5(classes=10)
    scores = train.evaluate(model, digits.test)
    return float(scores["loss"]) + history.seconds + small.parameter_count() + float(loss)


if __name__ == "__main__":
    print(tensors(), functions().item())
