"""Names that users of NumPy, PyTorch and Keras look for first, and what to use here."""

from __future__ import annotations

FUNCTIONS = {
    "cat": "varve.concat(tensors, axis)", "concatenate": "varve.concat(tensors, axis)", "clamp": "varve.clip(x, low, high)",
    "from_numpy": "varve.asarray(array)", "array": "varve.tensor(values)",
    "manual_seed": "seed= of what draws numbers, of fit and of build: there is no global generator",
    "no_grad": "nothing: only grad and value_and_grad differentiate", "inference_mode": "nothing: only grad and value_and_grad differentiate",
    "rand": "varve.uniform(shape, seed=…)", "randn": "varve.normal(shape, seed=…)", "pow": "varve.power(x, y)",
    "unsqueeze": "varve.expand_dims(x, axis)", "float32": "varve.f32", "float16": "varve.f16", "bfloat16": "varve.bf16",
    "float64": "varve.f64", "int64": "varve.i64", "int32": "varve.i32", "uint8": "varve.u8", "jit": "varve.compile(function)",
    "jacrev": "varve.jacobian(function, mode=\"reverse\")", "jacfwd": "varve.jacobian(function, mode=\"forward\")",
}  # fmt: skip
METHODS = {
    "backward": "varve.value_and_grad(function, variables): gradients are results", "grad": "varve.value_and_grad(function, variables)",
    "requires_grad": "nothing: any tensor can be differentiated by", "requires_grad_": "model.freeze(pattern) for parameters",
    "view": "x.reshape(shape)", "permute": "varve.transpose(x, axes)", "unsqueeze": "x[None] or varve.expand_dims(x, axis)",
    "cuda": "varve.set_device(\"cuda\"): programs run there, and bring what they need", "cpu": "x.numpy(): reading brings a value",
    "float": "x.astype(\"f32\")", "half": "x.astype(\"f16\")", "long": "x.astype(\"i64\")", "device": "varve.device_of(x)",
    "add_": "x + y: tensors never change", "mul_": "x * y: tensors never change", "zero_": "varve.zeros(shape): tensors never change",
    "clone": "x itself: tensors never change", "contiguous": "x itself", "data_ptr": "x.__dlpack__(), or x.numpy()",
}  # fmt: skip


def missing(owner: str, name: str, known: dict[str, str]) -> AttributeError:
    """What Python says of a name that is not there, and what to use instead."""
    hint = f". Use {known[name]}" if name in known else ""
    return AttributeError(f"{owner} has no attribute {name!r}{hint}")
