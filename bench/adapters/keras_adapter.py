"""Keras 3: `keras-tensorflow` steps inside a tf.function (mode "plain", or "xla" with jit_compile), `keras-jax` inside
a jitted function with donated state. Both are the loops of Keras' guides "Writing a training loop from scratch"."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import common
from common import Request, Slot, Unsupported

request = common.begin()
os.environ["KERAS_BACKEND"] = request.framework.removeprefix("keras-")
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["JAX_PLATFORMS"] = "cpu"

import keras
from keras import layers, ops

# ---- networks


class Network:
    """A functional model under construction, which notes its layers in the order of Varve's parameters."""

    def __init__(self, request: Request):
        w = request.workload
        self.w, self.dropout = w, request.dropout_rate
        fixed, dtype = request.batch if w.get("stateful") else None, "int32" if w["dtype"] == "i32" else "float32"
        self.input = keras.Input(tuple(w["input"]), batch_size=fixed, dtype=dtype)
        self.made: list[layers.Layer] = []

    def __call__(self, layer: layers.Layer, *inputs: Any) -> Any:
        self.made.append(layer)
        return layer(*inputs)

    def dense_chain(self, x: Any, widths: list[int], activation: str, last: str | None = None) -> Any:
        for width in widths[:-1]:
            x = self(layers.Dense(width, activation=activation), x)
        return self(layers.Dense(widths[-1], activation=last), x)


def mlp(net: Network, x: Any) -> Any:
    activation = net.w.get("activation", "relu")
    return net.dense_chain(layers.Flatten()(x), [*net.w["hidden"], net.w["classes"]], activation)


def autoencoder(net: Network, x: Any) -> Any:
    flat = layers.Flatten()(x)
    return net.dense_chain(flat, [*net.w["hidden"], flat.shape[1]], "relu", last="sigmoid")


def cnn(net: Network, x: Any) -> Any:
    w = net.w
    for out in w["channels"]:
        x = net(layers.Conv2D(out, w["kernel"], padding=w["padding"], activation="relu"), x)
        x = layers.MaxPooling2D(2)(x)
        x = layers.Dropout(net.dropout)(x) if net.dropout else x
    return net.dense_chain(layers.Flatten()(x), [w["dense"], w["classes"]], "relu")


def alexnet(net: Network, x: Any) -> Any:
    def conv(x: Any, out: int, kernel: int, stride: int = 1) -> Any:
        return net(layers.Conv2D(out, kernel, stride, padding="same", activation="relu"), x)

    x = layers.MaxPooling2D(3, 2)(conv(x, 96, 11, 4))
    x = layers.MaxPooling2D(3, 2)(conv(x, 256, 5))
    x = layers.MaxPooling2D(3, 2)(conv(conv(conv(x, 384, 3), 384, 3), 256, 3))
    return net.dense_chain(layers.Flatten()(x), [4096, 4096, net.w["classes"]], "relu")


def batch_norm() -> layers.Layer:
    return layers.BatchNormalization(momentum=0.9, epsilon=1e-5)  # Keras counts the old statistics, Varve the new


def vgg(net: Network, x: Any) -> Any:
    for out, repeats in net.w["blocks"]:
        for _ in range(repeats):
            if net.w.get("batch_norm"):
                x = layers.ReLU()(net(batch_norm(), net(layers.Conv2D(out, 3, padding="same"), x)))
            else:
                x = net(layers.Conv2D(out, 3, padding="same", activation="relu"), x)
        x = layers.MaxPooling2D(2)(x)
    return net.dense_chain(layers.Flatten()(x), [*net.w["dense"], net.w["classes"]], "relu")


def resnet(net: Network, x: Any) -> Any:
    def conv_norm(x: Any, out: int, kernel: int, stride: int = 1) -> Any:
        if stride > 1 and kernel > 1:  # "same" would pad one side only
            x = layers.ZeroPadding2D(kernel // 2)(x)
            x = net(layers.Conv2D(out, kernel, stride, use_bias=False), x)
        else:
            x = net(layers.Conv2D(out, kernel, stride, padding="same", use_bias=False), x)
        return net(batch_norm(), x)

    x = layers.ReLU()(conv_norm(x, 64, 7, 2))
    x = layers.MaxPooling2D(3, 2)(layers.ZeroPadding2D(1)(x))  # zeros are the least there is after a ReLU
    for stage, blocks in enumerate(net.w["layers"]):
        for i in range(blocks):
            width, stride = 64 << stage, 2 if stage > 0 and i == 0 else 1
            y = layers.ReLU()(conv_norm(x, width, 1))
            y = layers.ReLU()(conv_norm(y, width, 3, stride))
            y = conv_norm(y, 4 * width, 1)
            x = layers.ReLU()(layers.Add()([y, conv_norm(x, 4 * width, 1, stride) if i == 0 else x]))
    return net(layers.Dense(net.w["classes"]), layers.GlobalAveragePooling2D()(x))


def recurrent(net: Network, x: Any) -> Any:
    """Embedding, LSTMs, and a dense layer: at every step (a language model), or after the last (a classifier)."""
    w, every_step = net.w, net.w["targets"] == "tokens"
    drop = layers.Dropout(net.dropout) if net.dropout else lambda x: x
    x = net(layers.Embedding(w["vocabulary"], w["embedded"]), x)
    for _ in range(w.get("layers", 1)):
        lstm = layers.LSTM(w["width"], return_sequences=every_step, stateful=w.get("stateful", False))
        x = net(lstm, drop(x))
    return net(layers.Dense(w["classes"]), drop(x) if every_step else x)


def small_normal() -> keras.initializers.Initializer:
    return keras.initializers.RandomNormal(stddev=0.02)


class Positions(layers.Layer):
    def __init__(self, context: int):
        super().__init__()
        self.context = context

    def build(self, shape: tuple[int, ...]) -> None:
        self.table = self.add_weight(shape=(self.context, shape[-1]), initializer=small_normal())

    def call(self, x: Any) -> Any:
        return x + ops.cast(self.table[: x.shape[1]], x.dtype)


class CausalAttention(layers.Layer):
    """[N, T, 3·D], the queries, keys and values of all heads, to [N, T, D]."""

    def __init__(self, heads: int):
        super().__init__()
        self.heads = heads

    def call(self, x: Any) -> Any:
        n, t, d = ops.shape(x)[0], x.shape[1], x.shape[2] // 3
        q, k, v = (ops.reshape(part, (n, t, self.heads, d // self.heads)) for part in ops.split(x, 3, axis=2))
        return ops.reshape(ops.dot_product_attention(q, k, v, is_causal=True), (n, t, d))


def gpt(net: Network, x: Any) -> Any:
    w, width = net.w, net.w["width"]
    drop = layers.Dropout(net.dropout) if net.dropout else lambda x: x
    table = layers.ReversibleEmbedding(w["vocabulary"], width, embeddings_initializer=small_normal())
    x = drop(net(Positions(w["context"]), net(table, x)))
    for _ in range(w["layers"]):
        norm1, norm2 = layers.LayerNormalization(epsilon=1e-5), layers.LayerNormalization(epsilon=1e-5)
        attended = CausalAttention(w["heads"])(net(layers.Dense(3 * width), norm1(x)))
        x = layers.Add()([x, drop(net(layers.Dense(width), attended))])
        hidden = net(layers.Dense(4 * width), norm2(x))
        hidden = layers.Activation(partial(keras.activations.gelu, approximate=False))(hidden)
        x = layers.Add()([x, drop(net(layers.Dense(width), drop(hidden)))])
        net.made += [norm1, norm2]
    return table(net(layers.LayerNormalization(epsilon=1e-5), x), reverse=True)


FAMILIES: dict[str, Callable[[Network, Any], Any]] = {
    "mlp": mlp, "cnn": cnn, "alexnet": alexnet, "vgg": vgg, "resnet": resnet, "lm": recurrent,
    "classifier": recurrent, "gpt": gpt, "autoencoder": autoencoder}


# ---- what both backends have in common


def slot(variable: Any, axes: tuple[int, ...] | None = None) -> Slot:
    """axes: where each axis of Keras' is in Varve's layout; None: the same."""
    shape = tuple(variable.shape)
    if axes is None:
        return Slot(shape, variable.assign)
    return Slot(tuple(shape[axes.index(i)] for i in range(len(axes))), lambda v: variable.assign(v.transpose(axes)))


class EpsilonAfterCorrection:
    """Keras adds epsilon to the root before correcting the bias, Varve and PyTorch after: the same once scaled."""

    @property
    def epsilon(self) -> Any:
        return self._epsilon * ops.sqrt(1 - ops.power(self.beta_2, ops.cast(self.iterations + 1, "float32")))

    @epsilon.setter
    def epsilon(self, value: float) -> None:
        self._epsilon = value


class Adam(EpsilonAfterCorrection, keras.optimizers.Adam):
    pass


class AdamW(EpsilonAfterCorrection, keras.optimizers.AdamW):
    pass


def optimizer_of(o: common.Optimizer) -> keras.optimizers.Optimizer:
    clip = o.clip_norm or None
    if o.name == "sgd" and not o.weight_decay:
        return keras.optimizers.SGD(o.rate, momentum=o.momentum, nesterov=o.nesterov, global_clipnorm=clip)
    moments = {"beta_1": o.beta1, "beta_2": o.beta2, "epsilon": o.epsilon, "global_clipnorm": clip}
    if o.name == "adam" and not o.weight_decay:
        return Adam(o.rate, **moments)
    if o.name == "adamw":
        return AdamW(o.rate, weight_decay=o.weight_decay, **moments)
    raise Unsupported(f"{o.name} with weight decay {o.weight_decay}: Keras decays weights apart from the gradient.")


class Keras(common.Peer):
    pooled = True

    def __init__(self, request: Request):
        if request.device != "cpu":
            raise Unsupported(f"{request.framework} is measured on the CPU only; its GPU builds are not installed.")
        keras.utils.set_random_seed(request.seed)
        keras.config.set_dtype_policy("mixed_bfloat16" if request.bf16 else "float32")
        net = Network(request)
        self.model = keras.Model(net.input, FAMILIES[request.family](net, net.input))
        self.made, self.targets = net.made, request.workload["targets"]
        self.stateful = [layer for layer in self.model.layers if getattr(layer, "stateful", False)]
        self.optimizer = optimizer_of(request.optimizer)
        self.optimizer.build(self.model.trainable_variables)
        self.flags = {"policy": keras.config.dtype_policy().name, "keras": keras.__version__}

    def slots(self) -> list[Slot]:
        return [slot(v, (1, 2, 3, 0) if len(v.shape) == 4 else None)
                for layer in self.made for v in layer.trainable_variables]

    def loss_of(self, out: Any, y: Any) -> Any:
        if self.targets == "input":
            return ops.mean(ops.square(ops.cast(out, "float32") - y))
        return ops.mean(ops.sparse_categorical_crossentropy(y, ops.cast(out, "float32"), from_logits=True))

    def batch(self, x: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
        y = x.reshape(len(x), -1) if self.targets == "input" else y
        return ops.convert_to_tensor(x), ops.convert_to_tensor(y)

    def numpy(self, outputs: Any) -> np.ndarray:
        return ops.convert_to_numpy(ops.cast(outputs, "float32"))

    def correct(self, outputs: Any, batch: Any) -> Any:
        return ops.sum(ops.cast(ops.argmax(outputs, axis=-1), "int32") == batch[1])

    def reset(self) -> None:
        for layer in self.stateful:
            layer.reset_states()


# ---- TensorFlow


class KerasTensorflow(Keras):
    def __init__(self, request: Request):
        import tensorflow as tf

        self.tf = tf
        tf.config.threading.set_intra_op_parallelism_threads(request.threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        super().__init__(request)
        xla = request.mode == "xla"
        self.version, self.out_of_memory = tf.__version__, (tf.errors.ResourceExhaustedError,)
        self.flags |= {"mode": "xla" if xla else "plain", "inter_op": 1, "intra_op": request.threads, "onednn": True}
        # An embedding's gradient has a slice for each token. Plain SGD may add them singly; Adam and clipping square
        # them, and Keras would square each slice of a repeated token on its own, which is another rule than Adam's.
        self.dense_gradients = request.optimizer.name != "sgd" or request.optimizer.clip_norm > 0
        compiled = partial(tf.function, jit_compile=xla, reduce_retracing=True)
        self.step_function = compiled(self.step_once)
        self.forward_function = compiled(self.forward_once)
        self.gradients_function = compiled(self.gradients_once)
        self.update_function = compiled(self.update_once)
        self.infer_function = compiled(lambda x: self.model(x, training=False))

    def forward_once(self, x: Any, y: Any) -> Any:
        return self.loss_of(self.model(x, training=True), y)

    def gradients_once(self, x: Any, y: Any) -> tuple[Any, list[Any]]:
        with self.tf.GradientTape() as tape:
            loss = self.forward_once(x, y)
        gradients = tape.gradient(loss, self.model.trainable_variables)
        return loss, [self.tf.convert_to_tensor(g) for g in gradients] if self.dense_gradients else gradients

    def update_once(self, gradients: list[Any]) -> None:
        self.optimizer.apply(gradients, self.model.trainable_variables)

    def step_once(self, x: Any, y: Any) -> Any:
        loss, gradients = self.gradients_once(x, y)
        self.update_once(gradients)
        return loss

    def step(self, batch: Any) -> Any:
        return self.step_function(*batch)

    def forward(self, batch: Any) -> Any:
        return self.forward_function(*batch)

    def gradients(self, batch: Any) -> tuple[Any, Any]:
        return self.gradients_function(*batch)

    def update(self, gradients: Any) -> None:
        self.update_function(gradients)

    def infer(self, batch: Any) -> Any:
        return self.infer_function(batch[0])


# ---- JAX


class KerasJax(Keras):
    """The state is taken from the model's variables at the first call, after weights were set, and lives here since."""

    def __init__(self, request: Request):
        import jax

        super().__init__(request)
        self.jax, self.version = jax, jax.__version__
        self.flags |= {"mode": "jit", "donated": True}
        self.state: tuple[Any, Any, Any] | None = None
        # What stateful layers carry from batch to batch is not among the model's variables.
        self.carried = [v for layer in self.stateful for v in layer.states]
        self.others = [*self.model.non_trainable_variables, *self.carried]
        value_and_grad = jax.value_and_grad(self.loss_and_state, has_aux=True)

        def step_once(trainable: Any, other: Any, moments: Any, x: Any, y: Any) -> Any:
            (loss, other), gradients = value_and_grad(trainable, other, x, y)
            trainable, moments = self.optimizer.stateless_apply(moments, gradients, trainable)
            return loss, trainable, other, moments

        self.step_function = jax.jit(step_once, donate_argnums=(0, 1, 2))
        self.forward_function = jax.jit(self.loss_and_state)
        self.gradients_function = jax.jit(value_and_grad)
        self.update_function = jax.jit(self.optimizer.stateless_apply, donate_argnums=(0, 2))
        self.infer_function = jax.jit(partial(self.call, training=False))

    def call(self, trainable: Any, other: Any, x: Any, training: bool) -> tuple[Any, Any]:
        mapping = [*zip(self.model.trainable_variables, trainable), *zip(self.others, other)]
        with keras.StatelessScope(state_mapping=mapping) as scope:
            out = self.model(x, training=training)
        return out, [scope.get_current_value(v) for v in self.others]

    def loss_and_state(self, trainable: Any, other: Any, x: Any, y: Any) -> tuple[Any, Any]:
        out, other = self.call(trainable, other, x, training=True)
        return self.loss_of(out, y), other

    def held(self) -> tuple[Any, Any, Any]:
        if self.state is None:
            groups = (self.model.trainable_variables, self.others, self.optimizer.variables)
            self.state = tuple([v.value for v in group] for group in groups)
        return self.state

    def step(self, batch: Any) -> Any:
        loss, *self.state = self.step_function(*self.held(), *batch)
        return loss

    def forward(self, batch: Any) -> Any:
        return self.forward_function(*self.held()[:2], *batch)[0]

    def gradients(self, batch: Any) -> tuple[Any, Any]:
        (loss, _), gradients = self.gradients_function(*self.held()[:2], *batch)
        return loss, gradients

    def update(self, gradients: Any) -> Any:
        trainable, other, moments = self.held()
        trainable, moments = self.update_function(moments, gradients, trainable)
        self.state = (trainable, other, moments)
        return trainable

    def infer(self, batch: Any) -> Any:
        trainable, other, moments = self.held()
        out, other = self.infer_function(trainable, other, batch[0])
        if self.carried:
            self.state = (trainable, other, moments)
        return out

    def wait(self, handle: Any) -> None:
        self.jax.block_until_ready(handle)

    def reset(self) -> None:
        if self.carried and self.state is not None:
            trainable, other, moments = self.state
            kept = len(other) - len(self.carried)
            self.state = (trainable, [*other[:kept], *(v * 0 for v in other[kept:])], moments)


if __name__ == "__main__":
    common.finish(request, KerasTensorflow if request.framework == "keras-tensorflow" else KerasJax)
