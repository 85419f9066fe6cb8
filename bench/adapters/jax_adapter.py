"""Plain JAX: the whole step is one jitted function with donated state; layers are the few functions below."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import common
import tasks
from common import Request, Slot, Unsupported

request = common.begin()
os.environ["JAX_PLATFORMS"] = request.device
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"

import jax
import jax.numpy as jnp
from jax import lax

Array = jax.Array
IMAGES = ("NHWC", "HWIO", "NHWC")
ACTIVATIONS = {"relu": jax.nn.relu, "sigmoid": jax.nn.sigmoid, "tanh": jnp.tanh, "": lambda x: x}


# ---- layers


@dataclass
class Made:
    """A parameter or a buffer: its shape here, how it starts, and where its axes are in Varve's layout."""

    shape: tuple[int, ...]
    deviation: float = 0.0
    mean: float = 0.0
    axes: tuple[int, ...] | None = None


@dataclass
class Scope:
    """Where the layers of a forward pass take their parameters from, in order; without values it notes their shapes."""

    training: bool
    dtype: Any
    key: Array | None = None
    dropout_rate: float = 0.0
    values: tuple[list[Array], list[Array]] | None = None
    made: tuple[list[Made], list[Made]] = field(default_factory=lambda: ([], []))
    buffers_after: list[Array] = field(default_factory=list)

    def _next(self, kind: int, made: Made) -> Array:
        self.made[kind].append(made)
        return self.values[kind][len(self.made[kind]) - 1] if self.values else jnp.zeros(made.shape)

    def parameter(self, *shape: int, **how: Any) -> Array:
        return self._next(0, Made(shape, **how))

    def weight(self, *shape: int, fan: int, **how: Any) -> Array:
        return self.parameter(*shape, deviation=(2 / fan) ** 0.5, **how).astype(self.dtype)

    def bias(self, width: int) -> Array:
        return self.parameter(width).astype(self.dtype)

    def buffer(self, *shape: int, **how: Any) -> Array:
        return self._next(1, Made(shape, **how))

    def dense(self, x: Array, width: int, activation: str = "") -> Array:
        weight, bias = self.weight(x.shape[-1], width, fan=x.shape[-1]), self.bias(width)
        return ACTIVATIONS[activation](x @ weight + bias)

    def chain(self, x: Array, widths: list[int], activation: str = "relu", last: str = "") -> Array:
        for width in widths[:-1]:
            x = self.dense(x, width, activation)
        return self.dense(x, widths[-1], last)

    def conv(self, x: Array, out: int, kernel: int, stride: int = 1, padding: Any = "SAME", bias: bool = True) -> Array:
        weight = self.weight(kernel, kernel, x.shape[3], out, fan=kernel**2 * x.shape[3], axes=(1, 2, 3, 0))
        padding = padding if isinstance(padding, str) else [(padding, padding)] * 2
        y = lax.conv_general_dilated(x, weight, (stride, stride), padding, dimension_numbers=IMAGES)
        return y + self.bias(out) if bias else y

    def batch_norm(self, x: Array, momentum: float = 0.1, epsilon: float = 1e-5) -> Array:
        scale, shift = self.parameter(x.shape[-1], mean=1.0), self.parameter(x.shape[-1])
        mean, var = self.buffer(x.shape[-1]), self.buffer(x.shape[-1], mean=1.0)
        if self.training:
            axes, count, x32 = tuple(range(x.ndim - 1)), x.size // x.shape[-1], x.astype(jnp.float32)
            now = jnp.mean(x32, axes)
            spread = jnp.mean(lax.square(x32), axes) - lax.square(now)
            unbiased = lax.stop_gradient(spread) * (count / max(count - 1, 1))
            self.buffers_after += [mean + momentum * (lax.stop_gradient(now) - mean), var + momentum * (unbiased - var)]
            mean, var = now, spread
        else:
            self.buffers_after += [mean, var]
        factor = lax.rsqrt(var + epsilon) * scale
        return (x * factor + (shift - mean * factor)).astype(self.dtype)

    def layer_norm(self, x: Array, scale: Array, shift: Array, epsilon: float = 1e-5) -> Array:
        x = x.astype(jnp.float32)
        centred = x - x.mean(-1, keepdims=True)
        root = lax.rsqrt(lax.square(centred).mean(-1, keepdims=True) + epsilon)
        return (centred * root * scale + shift).astype(self.dtype)

    def norm_weights(self, width: int) -> tuple[Array, Array]:
        return self.parameter(width, mean=1.0), self.parameter(width)

    def dropout(self, x: Array) -> Array:
        if not self.dropout_rate or not self.training or self.key is None:
            return x
        self.key, key = jax.random.split(self.key)
        keep = 1 - self.dropout_rate
        return jnp.where(jax.random.bernoulli(key, keep, x.shape), x / keep, 0).astype(x.dtype)

    def lstm(self, x: Array, width: int, stateful: bool) -> Array:
        """[N, T, I] to [T, N, width]. The inputs' share of the gates is one product for all steps."""
        weight = self.weight(x.shape[2], 4 * width, fan=x.shape[2])
        hidden = self.weight(width, 4 * width, fan=width)
        gates_in = jnp.swapaxes(x, 0, 1) @ weight + self.bias(4 * width)
        start = [self.buffer(x.shape[0], width) for _ in range(2)] if stateful else [jnp.zeros((x.shape[0], width))] * 2

        def cell(state: tuple[Array, Array], given: Array) -> tuple[tuple[Array, Array], Array]:
            i, f, g, o = jnp.split(given + state[0] @ hidden, 4, axis=-1)
            c = jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        end, y = lax.scan(cell, tuple(s.astype(self.dtype) for s in start), gates_in)
        if stateful:
            self.buffers_after += [lax.stop_gradient(s).astype(jnp.float32) for s in end]
        return y


def max_pool(x: Array, window: int, stride: int, padding: int = 0) -> Array:
    pads = ((0, 0), (padding, padding), (padding, padding), (0, 0))
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, window, window, 1), (1, stride, stride, 1), pads)


def flat(x: Array) -> Array:
    return x.reshape(len(x), -1)


# ---- networks


def mlp(s: Scope, w: dict[str, Any], x: Array) -> Array:
    return s.chain(flat(x), [*w["hidden"], w["classes"]], w.get("activation", "relu"))


def autoencoder(s: Scope, w: dict[str, Any], x: Array) -> Array:
    return s.chain(flat(x), [*w["hidden"], int(np.prod(w["input"]))], last="sigmoid")


def cnn(s: Scope, w: dict[str, Any], x: Array) -> Array:
    for out in w["channels"]:
        x = s.dropout(max_pool(jax.nn.relu(s.conv(x, out, w["kernel"], padding=w["padding"].upper())), 2, 2))
    return s.chain(flat(x), [w["dense"], w["classes"]])


def alexnet(s: Scope, w: dict[str, Any], x: Array) -> Array:
    x = max_pool(jax.nn.relu(s.conv(x, 96, 11, 4)), 3, 2)
    x = max_pool(jax.nn.relu(s.conv(x, 256, 5)), 3, 2)
    for out in (384, 384, 256):
        x = jax.nn.relu(s.conv(x, out, 3))
    return s.chain(flat(max_pool(x, 3, 2)), [4096, 4096, w["classes"]])


def vgg(s: Scope, w: dict[str, Any], x: Array) -> Array:
    for out, repeats in w["blocks"]:
        for _ in range(repeats):
            x = s.conv(x, out, 3)
            x = jax.nn.relu(s.batch_norm(x) if w.get("batch_norm") else x)
        x = max_pool(x, 2, 2)
    return s.chain(flat(x), [*w["dense"], w["classes"]])


def resnet(s: Scope, w: dict[str, Any], x: Array) -> Array:
    def conv_norm(x: Array, out: int, kernel: int, stride: int = 1) -> Array:
        return s.batch_norm(s.conv(x, out, kernel, stride, padding=kernel // 2, bias=False))

    x = max_pool(jax.nn.relu(conv_norm(x, 64, 7, 2)), 3, 2, padding=1)
    for stage, blocks in enumerate(w["layers"]):
        for i in range(blocks):
            width, stride = 64 << stage, 2 if stage > 0 and i == 0 else 1
            y = jax.nn.relu(conv_norm(x, width, 1))
            y = conv_norm(jax.nn.relu(conv_norm(y, width, 3, stride)), 4 * width, 1)
            x = jax.nn.relu(y + (conv_norm(x, 4 * width, 1, stride) if i == 0 else x))
    return s.dense(x.mean((1, 2)), w["classes"])


def recurrent(s: Scope, w: dict[str, Any], x: Array) -> Array:
    """Embedding, LSTMs, and a dense layer: at every step (a language model), or after the last (a classifier)."""
    y = s.parameter(w["vocabulary"], w["embedded"], deviation=0.05)[x].astype(s.dtype)
    for _ in range(w.get("layers", 1)):
        y = jnp.swapaxes(s.lstm(s.dropout(y), w["width"], w.get("stateful", False)), 0, 1)
    return s.dense(s.dropout(y) if w["targets"] == "tokens" else y[:, -1], w["classes"])


def gpt(s: Scope, w: dict[str, Any], x: Array) -> Array:
    width, heads, (n, t) = w["width"], w["heads"], x.shape
    table = s.parameter(w["vocabulary"], width, deviation=0.02).astype(s.dtype)
    y = s.dropout(table[x] + s.parameter(w["context"], width, deviation=0.02).astype(s.dtype)[:t])
    for _ in range(w["layers"]):
        weights = [(s.weight(i, o, fan=i), s.bias(o))
                   for i, o in ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width))]
        (qkv, qkv_bias), (out, out_bias), (up, up_bias), (down, down_bias) = weights
        norm1, norm2 = s.norm_weights(width), s.norm_weights(width)
        q, k, v = jnp.split(s.layer_norm(y, *norm1) @ qkv + qkv_bias, 3, axis=-1)
        q, k, v = (part.reshape(n, t, heads, width // heads) for part in (q, k, v))
        attended = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(n, t, width)
        y = y + s.dropout(attended @ out + out_bias)
        hidden = jax.nn.gelu(s.layer_norm(y, *norm2) @ up + up_bias, approximate=False)
        y = y + s.dropout(s.dropout(hidden) @ down + down_bias)
    return s.layer_norm(y, *s.norm_weights(width)) @ table.T


FAMILIES: dict[str, Callable[[Scope, dict[str, Any], Array], Array]] = {
    "mlp": mlp, "cnn": cnn, "alexnet": alexnet, "vgg": vgg, "resnet": resnet, "lm": recurrent,
    "classifier": recurrent, "gpt": gpt, "autoencoder": autoencoder}


# ---- optimisers


def updated(o: common.Optimizer, count: Array, parameter: Array, gradient: Array, moments: tuple[Array, ...]) -> tuple:
    """The new value of a parameter, and its new moments."""
    if o.name != "adamw" and o.weight_decay:
        gradient = gradient + o.weight_decay * parameter
    if o.name == "sgd":
        if not o.momentum:
            return parameter - o.rate * gradient, ()
        velocity = o.momentum * moments[0] + gradient
        return parameter - o.rate * (gradient + o.momentum * velocity if o.nesterov else velocity), (velocity,)
    m = moments[0] + (1 - o.beta1) * (gradient - moments[0])
    v = moments[1] + (1 - o.beta2) * (lax.square(gradient) - moments[1])
    if o.name == "adamw":
        parameter = parameter * (1 - o.rate * o.weight_decay)
    root = jnp.sqrt(v / (1 - o.beta2**count)) + o.epsilon
    return parameter - o.rate / (1 - o.beta1**count) * m / root, (m, v)


def moments_of(o: common.Optimizer) -> int:
    if o.name not in ("sgd", "adam", "adamw"):
        raise Unsupported(f"the optimiser {o.name} is not written here.")
    return 2 if o.name != "sgd" else int(o.momentum > 0)


def clipped(gradients: list[Array], norm: float) -> list[Array]:
    total = jnp.sqrt(sum(jnp.vdot(g, g) for g in gradients))
    return [g * jnp.minimum(1.0, norm / (total + 1e-6)) for g in gradients]


# ---- the peer


class Jax(common.Peer):
    version = jax.__version__
    pooled = request.device == "cpu"

    def __init__(self, request: Request):
        self.workload, self.optimizer = request.workload, request.optimizer
        self.dtype = jnp.bfloat16 if request.bf16 else jnp.float32
        if request.device == "cuda" and not request.bf16:  # left alone, JAX multiplies float32 in TF32
            jax.config.update("jax_default_matmul_precision", "tensorfloat32" if request.tf32 else "highest")
        self.network, self.rate = FAMILIES[request.family], request.dropout_rate
        try:
            self.device = jax.devices()[0]
        except Exception as error:  # of several kinds, by what is missing
            raise Unsupported(f"this JAX finds no device called {request.device}. {error}") from error
        scope = Scope(training=True, dtype=self.dtype)
        x, _ = tasks.synthetic(request, request.batch)
        jax.eval_shape(lambda x: self.network(scope, self.workload, self.typed(x)), x)
        self.made, rng = scope.made, np.random.default_rng(request.seed)
        first = [[jnp.asarray(m.mean + m.deviation * rng.standard_normal(m.shape, np.float32)) for m in group]
                 for group in self.made]
        self.parameters, self.buffers = first
        self.moments = [tuple(jnp.zeros(m.shape) for _ in range(moments_of(self.optimizer))) for m in self.made[0]]
        self.count, self.key = jnp.zeros(()), jax.random.key(request.seed)
        self.flags = {"mode": "jit", "donated": True, "device": self.device.device_kind,
                      "compute": self.dtype.__name__, "products": jax.config.jax_default_matmul_precision}
        value_and_grad = jax.value_and_grad(self.loss_of, has_aux=True)

        def step_once(parameters: Any, buffers: Any, moments: Any, count: Array, key: Array, x: Array, y: Array) -> Any:
            key, now = jax.random.split(key)
            (loss, buffers), gradients = value_and_grad(parameters, buffers, now, x, y)
            return loss, (*self.apply(parameters, moments, count, gradients), buffers, key)

        self.step_function = jax.jit(step_once, donate_argnums=(0, 1, 2, 3, 4))
        self.forward_function = jax.jit(self.loss_of)
        self.gradients_function = jax.jit(value_and_grad)
        self.update_function = jax.jit(self.apply, donate_argnums=(0, 1, 2))
        self.infer_function = jax.jit(self.outputs)

    def outputs(self, parameters: Any, buffers: Any, x: Array) -> tuple[Array, Any]:
        scope = Scope(training=False, dtype=self.dtype, values=(parameters, buffers))
        out = self.network(scope, self.workload, self.typed(x))
        return out, scope.buffers_after if self.workload.get("stateful") else None

    def typed(self, x: Array) -> Array:
        return x.astype(self.dtype) if self.workload["dtype"] == "f32" else x

    def loss_of(self, parameters: Any, buffers: Any, key: Array, x: Array, y: Array) -> tuple[Array, Any]:
        scope = Scope(training=True, dtype=self.dtype, key=key, dropout_rate=self.rate, values=(parameters, buffers))
        out = self.network(scope, self.workload, self.typed(x)).astype(jnp.float32)
        if self.workload["targets"] == "input":
            return jnp.mean(lax.square(out - flat(x))), scope.buffers_after
        picked = jnp.take_along_axis(out, y[..., None], axis=-1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(out, axis=-1) - picked), scope.buffers_after

    def apply(self, parameters: Any, moments: Any, count: Array, gradients: Any) -> tuple[Any, Any, Array]:
        count = count + 1
        if self.optimizer.clip_norm:
            gradients = clipped(gradients, self.optimizer.clip_norm)
        both = [updated(self.optimizer, count, *each) for each in zip(parameters, gradients, moments)]
        return [new for new, _ in both], [moment for _, moment in both], count

    def slots(self) -> list[Slot]:
        def assign(i: int, axes: tuple[int, ...] | None, value: np.ndarray) -> None:
            self.parameters[i] = jnp.asarray(value if axes is None else value.transpose(axes))

        return [Slot(m.shape if m.axes is None else tuple(m.shape[m.axes.index(k)] for k in range(len(m.axes))),
                     partial(assign, i, m.axes)) for i, m in enumerate(self.made[0])]

    def batch(self, x: np.ndarray, y: np.ndarray) -> tuple[Array, Array]:
        return jax.device_put(x), jax.device_put(y)

    def hold(self, x: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
        return (x, y) if self.device.platform == "cpu" else (jax.device_put(x), jax.device_put(y))

    def step(self, batch: Any) -> Array:
        loss, (self.parameters, self.moments, self.count, self.buffers, self.key) = self.step_function(
            self.parameters, self.buffers, self.moments, self.count, self.key, *batch)
        return loss

    def forward(self, batch: Any) -> Array:
        return self.forward_function(self.parameters, self.buffers, self.key, *batch)[0]

    def gradients(self, batch: Any) -> tuple[Array, Any]:
        (loss, _), gradients = self.gradients_function(self.parameters, self.buffers, self.key, *batch)
        return loss, gradients

    def update(self, gradients: Any) -> Any:
        self.parameters, self.moments, self.count = self.update_function(
            self.parameters, self.moments, self.count, gradients)
        return self.parameters

    def infer(self, batch: Any) -> Array:
        out, carried = self.infer_function(self.parameters, self.buffers, batch[0])
        self.buffers = carried or self.buffers
        return out

    def correct(self, outputs: Array, batch: Any) -> Array:
        return (outputs.argmax(-1) == batch[1]).sum()

    def wait(self, handle: Any) -> None:
        jax.block_until_ready(handle)

    def reset(self) -> None:
        if self.workload.get("stateful"):
            self.buffers = [b * 0 for b in self.buffers]

    def peak_bytes(self) -> int | None:
        return self.device.memory_stats()["peak_bytes_in_use"] if self.device.platform == "gpu" else None


if __name__ == "__main__":
    common.finish(request, Jax)
