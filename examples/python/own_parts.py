"""Every part that may be yours, in one training: data set, layer, loss, metric, optimiser, schedule and callback.

The task: a polynomial through noisy points. The fitted function is compared with the true one at the end.
"""

from __future__ import annotations

import sys
from typing import List, Tuple

import numpy as np

import varve as vv
from varve import data, nn, optim, train


class Points:
    """Samples (x, y) of a cubic with noise. Reading must be pure: the same index gives the same sample."""

    def __len__(self) -> int:
        return 2000

    def __getitem__(self, i: int) -> Tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(i)
        x = rng.uniform(-1, 1)
        return np.float32([x]), np.float32([true(x) + rng.normal() * 0.1])


def true(x: float) -> float:
    return 1 - 2 * x + 3 * x**3


class Polynomial(nn.Module):
    """y = Σ cᵢ xⁱ: a layer with a parameter of its own, and no other."""

    def __init__(self, degree: int) -> None:
        super().__init__()
        self.coefficients = nn.Parameter(vv.zeros(degree + 1))

    def forward(self, x: vv.Tensor) -> vv.Tensor:
        powers = vv.concat([x**i for i in range(self.coefficients.shape[0])], axis=-1)
        return vv.sum(powers * self.coefficients, axis=-1, keepdims=True)


def log_cosh(output: vv.Tensor, target: vv.Tensor) -> vv.Tensor:
    """Squared near zero, absolute far away: outliers pull less."""
    return vv.mean(vv.log(vv.cosh(output - target)))


def far(output: vv.Tensor, target: vv.Tensor) -> vv.Tensor:
    """How many points are further away than 0.3."""
    return vv.abs(output - target) > 0.3


def signed(parameter: vv.Tensor, gradient: vv.Tensor, state: List[vv.Tensor], rate: vv.Tensor, step: vv.Tensor) -> List[vv.Tensor]:
    """Steps in the direction of an averaged gradient's sign, as Lion takes them."""
    average = 0.9 * state[0] + 0.1 * gradient
    return [parameter - rate * vv.sign(average), average]


class Watch(train.Callback):
    """Stops when hardly a point is far away."""

    def epoch_end(self, session: vv.Session) -> None:
        if session.history.epochs[-1]["far"] < 0.004:
            session.stop("the points are met")


def main() -> None:
    model = Polynomial(3)
    history = model.fit(data.dataset(Points(), name="points"), loss=log_cosh, metrics=[far], callbacks=[Watch()],
                        optimizer=optim.own(signed, state=["average"], rate=0.02), schedule=optim.cosine(),
                        epochs=20, batch=50, verbosity="quiet")  # fmt: skip
    found = [round(c, 2) for c in model.coefficients.tolist()]
    print(f"{len(history.epochs)} epochs, {history.stopped or 'to the end'}: y = " + " + ".join(f"{c}·x^{i}" for i, c in enumerate(found)))
    if not np.allclose(found, [1, -2, 0, 3], atol=0.1):
        sys.exit("that is not the polynomial")


if __name__ == "__main__":
    main()
