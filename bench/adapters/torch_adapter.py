"""PyTorch: `torch` runs eagerly, `torch-compile` compiles forward, loss and gradient with Inductor. On a GPU `torch` has
modes: `plain` (eager), `compile`, and `graph` and `compile-graph`, which capture the whole step in one CUDA graph.

Images are channels last: a batch is a view of Varve's N×H×W×C, and so is its flattening, so no weight is permuted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import common
from common import Request, Slot, Unsupported

request = common.begin()

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import cuda_graph

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"relu": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh}


# ---- networks


class FlattenChannelsLast(nn.Module):
    """[N, C, H, W] to [N, H·W·C]: a view where memory is channels last."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.permute(0, 2, 3, 1).flatten(1)


class PadSame(nn.Module):
    """The padding that keeps size / stride, the odd pixel after, as TensorFlow and Varve have it."""

    def __init__(self, kernel: int, stride: int):
        super().__init__()
        self.kernel, self.stride = kernel, stride

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        both = []
        for size in (x.shape[3], x.shape[2]):
            total = max((-(-size // self.stride) - 1) * self.stride + self.kernel - size, 0)
            both += [total // 2, total - total // 2]
        return F.pad(x, both)


def dense_chain(widths: list[int], activation: Callable[[], nn.Module]) -> list[nn.Module]:
    """Dense layers of these widths, the first being the input's, with the activation between."""
    layers: list[nn.Module] = []
    for before, width in zip(widths, widths[1:]):
        layers += [nn.Linear(before, width), activation()]
    return layers[:-1]


def mlp(w: dict[str, Any], dropout: float) -> nn.Module:
    widths = [int(np.prod(w["input"])), *w["hidden"], w["classes"]]
    return nn.Sequential(nn.Flatten(), *dense_chain(widths, ACTIVATIONS[w.get("activation", "relu")]))


def autoencoder(w: dict[str, Any], dropout: float) -> nn.Module:
    size = int(np.prod(w["input"]))
    return nn.Sequential(nn.Flatten(), *dense_chain([size, *w["hidden"], size], nn.ReLU), nn.Sigmoid())


def cnn(w: dict[str, Any], dropout: float) -> nn.Module:
    height, width, channels = w["input"]
    layers: list[nn.Module] = []
    for out in w["channels"]:
        padding = w["padding"] if w["padding"] == "same" else 0
        layers += [nn.Conv2d(channels, out, w["kernel"], padding=padding), nn.ReLU(), nn.MaxPool2d(2)]
        layers += [nn.Dropout(dropout)] if dropout else []
        shrink = 0 if w["padding"] == "same" else w["kernel"] - 1
        height, width, channels = (height - shrink) // 2, (width - shrink) // 2, out
    widths = [height * width * channels, w["dense"], w["classes"]]
    return nn.Sequential(*layers, FlattenChannelsLast(), *dense_chain(widths, nn.ReLU))


def alexnet(w: dict[str, Any], dropout: float) -> nn.Module:
    def conv(before: int, out: int, kernel: int) -> list[nn.Module]:
        return [nn.Conv2d(before, out, kernel, padding="same"), nn.ReLU()]

    size = w["input"][0]
    size = -(-size // 4)
    for _ in range(3):
        size = (size - 3) // 2 + 1
    return nn.Sequential(
        PadSame(11, 4), nn.Conv2d(w["input"][2], 96, 11, stride=4), nn.ReLU(), nn.MaxPool2d(3, 2),
        *conv(96, 256, 5), nn.MaxPool2d(3, 2), *conv(256, 384, 3), *conv(384, 384, 3), *conv(384, 256, 3),
        nn.MaxPool2d(3, 2), FlattenChannelsLast(), *dense_chain([256 * size**2, 4096, 4096, w["classes"]], nn.ReLU))


def vgg(w: dict[str, Any], dropout: float) -> nn.Module:
    channels, layers = w["input"][2], []
    for out, repeats in w["blocks"]:
        for _ in range(repeats):
            layers.append(nn.Conv2d(channels, out, 3, padding=1))
            layers += [nn.BatchNorm2d(out)] if w.get("batch_norm") else []
            layers.append(nn.ReLU(inplace=True))
            channels = out
        layers.append(nn.MaxPool2d(2))
    size = w["input"][0] >> len(w["blocks"])
    widths = [channels * size**2, *w["dense"], w["classes"]]
    return nn.Sequential(*layers, FlattenChannelsLast(), *dense_chain(widths, nn.ReLU))


class Bottleneck(nn.Module):
    def __init__(self, before: int, width: int, stride: int, project: bool):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = (
            nn.Sequential(nn.Conv2d(before, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))
            if project else None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + (self.downsample(x) if self.downsample else x))


def resnet(w: dict[str, Any], dropout: float) -> nn.Module:
    layers = [nn.Conv2d(w["input"][2], 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
              nn.MaxPool2d(3, 2, 1)]
    before = 64
    for stage, blocks in enumerate(w["layers"]):
        for i in range(blocks):
            width = 64 << stage
            layers.append(Bottleneck(before, width, 2 if stage > 0 and i == 0 else 1, project=i == 0))
            before = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, w["classes"]))


class Recurrent(nn.Module):
    """Embedding, LSTMs, and a dense layer: at every step (a language model), or after the last (a classifier)."""

    def __init__(self, w: dict[str, Any], dropout: float):
        super().__init__()
        self.every_step, self.stateful, self.state = w["targets"] == "tokens", w.get("stateful", False), None
        layers = w.get("layers", 1)
        self.embedding = nn.Embedding(w["vocabulary"], w["embedded"])
        self.lstm = nn.LSTM(w["embedded"], w["width"], layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(w["width"], w["classes"])
        # PyTorch adds two biases where one is meant: the second stays zero and is no parameter.
        for name, parameter in self.lstm.named_parameters():
            if name.startswith("bias_hh"):
                nn.init.zeros_(parameter).requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, state = self.lstm(self.dropout(self.embedding(x)), self.state)
        if self.stateful:
            self.state = tuple(s.detach() for s in state)
        return self.fc(self.dropout(y) if self.every_step else state[0][-1])


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.heads, self.rate = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.in_proj, self.out_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.linear1, self.linear2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        n, t, d = x.shape
        q, k, v = (part.view(n, t, self.heads, d // self.heads).transpose(1, 2)
                   for part in self.in_proj(x).split(d, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out_proj(y.transpose(1, 2).reshape(n, t, d))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.dropout(self.attend(self.norm1(x)))
        return x + self.dropout(self.linear2(self.dropout(F.gelu(self.linear1(self.norm2(x))))))


class Gpt(nn.Module):
    def __init__(self, w: dict[str, Any], dropout: float):
        super().__init__()
        self.embedding = nn.Embedding(w["vocabulary"], w["width"])
        self.positions = nn.Embedding(w["context"], w["width"])
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(w["width"], w["heads"], dropout) for _ in range(w["layers"]))
        self.norm = nn.LayerNorm(w["width"])
        for table in (self.embedding, self.positions):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.dropout(self.embedding(x) + self.positions.weight[: x.shape[1]])
        for block in self.blocks:
            y = block(y)
        return F.linear(self.norm(y), self.embedding.weight)


class TreeLstm(nn.Module):
    """Over binary trees in postfix order: an id is a leaf, -1 joins the two trees before it, -2 fills the rest."""

    def __init__(self, w: dict[str, Any], dropout: float):
        super().__init__()
        width = w["width"]
        self.words = nn.Embedding(w["vocabulary"], w["embedded"])
        self.leaf, self.join = nn.Linear(w["embedded"], 3 * width), nn.Linear(2 * width, 5 * width)
        self.out = nn.Linear(width, w["classes"])

    def leaf_of(self, word: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        i, o, u = self.leaf(word).chunk(3, 1)
        c = torch.sigmoid(i) * torch.tanh(u)
        return torch.sigmoid(o) * torch.tanh(c), c

    def joined(self, left: tuple[torch.Tensor, torch.Tensor],
               right: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        i, f, g, o, u = self.join(torch.cat((left[0], right[0]), 1)).chunk(5, 1)
        c = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(f) * left[1] + torch.sigmoid(g) * right[1]
        return torch.sigmoid(o) * torch.tanh(c), c

    def root(self, tree: list[int]) -> torch.Tensor:
        ids = [node for node in tree if node >= 0]
        words = iter(self.words(torch.tensor(ids, device=self.out.weight.device)).split(1, 0))
        open_trees: list[tuple[torch.Tensor, torch.Tensor]] = []
        for node in tree:
            if node >= 0:
                open_trees.append(self.leaf_of(next(words)))
            elif node == -1:
                right = open_trees.pop()
                open_trees.append(self.joined(open_trees.pop(), right))
        return open_trees[0][0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(torch.cat([self.root(tree) for tree in x.tolist()], 0))


FAMILIES: dict[str, Callable[[dict[str, Any], float], nn.Module]] = {
    "mlp": mlp, "cnn": cnn, "alexnet": alexnet, "vgg": vgg, "resnet": resnet, "lm": Recurrent,
    "classifier": Recurrent, "gpt": Gpt, "autoencoder": autoencoder, "tree": TreeLstm}


# ---- parameters


def slot(parameter: nn.Parameter, axes: tuple[int, ...] | None = None) -> Slot:
    """axes: where each axis of PyTorch's is in Varve's layout; None: the same."""

    def assign(value: np.ndarray) -> None:
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(value if axes is None else value.transpose(axes)))

    shape = tuple(parameter.shape)
    return Slot(shape if axes is None else tuple(shape[axes.index(i)] for i in range(len(axes))), assign)


def module_slots(module: nn.Module) -> list[Slot]:
    """The parameters of a module and its children, in the order and the layouts of Varve."""
    if isinstance(module, nn.Linear | nn.Conv2d):
        axes = (1, 0) if isinstance(module, nn.Linear) else (0, 3, 1, 2)
        return [slot(module.weight, axes)] + ([slot(module.bias)] if module.bias is not None else [])
    if isinstance(module, nn.LSTM):
        return [slot(parameter, (1, 0) if parameter.dim() == 2 else None)
                for parameter in module.parameters() if parameter.requires_grad]
    if isinstance(module, Block):
        order = (module.in_proj, module.out_proj, module.linear1, module.linear2, module.norm1, module.norm2)
        return [each for child in order for each in module_slots(child)]
    own = [slot(parameter) for parameter in module.parameters(recurse=False)]
    return own + [each for child in module.children() for each in module_slots(child)]


# ---- the peer


def fused_optimizer(o: common.Optimizer, parameters: list[nn.Parameter], graph: bool) -> torch.optim.Optimizer:
    if o.name == "sgd":
        return torch.optim.SGD(parameters, lr=o.rate, momentum=o.momentum, nesterov=o.nesterov,
                               weight_decay=o.weight_decay, fused=True)
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    if o.name not in kinds:
        raise Unsupported(f"the optimiser {o.name} has no counterpart here.")
    return kinds[o.name](parameters, lr=o.rate, betas=(o.beta1, o.beta2), eps=o.epsilon,
                         weight_decay=o.weight_decay, fused=True, capturable=graph)


class Torch(common.Peer):
    version = torch.__version__
    ranks = True
    trees = True
    out_of_memory = (torch.OutOfMemoryError,)

    def __init__(self, request: Request):
        torch.set_num_threads(request.threads)
        torch.set_num_interop_threads(1)
        torch.set_flush_denormal(True)
        torch.manual_seed(request.seed)
        torch.set_float32_matmul_precision("high" if request.tf32 else "highest")
        torch.backends.cudnn.allow_tf32 = request.tf32
        torch.backends.cudnn.benchmark = True
        self.device, self.bf16 = torch.device(request.device), request.bf16
        if self.device.type == "cuda" and not torch.cuda.is_available():
            raise Unsupported("this PyTorch finds no GPU.")
        self.compiled = request.framework == "torch-compile" or request.mode in ("compile", "compile-graph")
        self.captured = request.mode in ("graph", "compile-graph")
        if request.family == "tree" and (self.compiled or self.captured):
            raise Unsupported("its graph differs from sample to sample: it runs eagerly.")
        if self.captured and (why := cuda_graph.refusal(request)):
            raise Unsupported(why)
        self.targets, self.recurrent = request.workload["targets"], request.family in ("lm", "classifier")
        self.model = FAMILIES[request.family](request.workload, request.dropout_rate)
        self.model.to(self.device, memory_format=torch.channels_last).train()
        self.trained = self.joined(request)
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = fused_optimizer(request.optimizer, self.parameters, self.captured)
        self.clip = request.optimizer.clip_norm
        self.loss = torch.compile(self.loss_of) if self.compiled else self.loss_of
        self.outputs = torch.compile(self.model) if self.compiled else self.model
        self.step_graph = cuda_graph.Graph(self.step_once) if self.captured else None
        self.infer_graph = cuda_graph.Graph(self.infer_once) if self.captured else None
        self.flags = {"mode": "compile" if self.compiled else "eager", "channels_last": True, "fused_optimizer": True,
                      "flush_denormal": True, "autocast": "bf16" if self.bf16 else None, "tf32": request.tf32,
                      "mkldnn": torch.backends.mkldnn.is_available(), "cuda_graph": self.captured}
        if request.ranks > 1:
            self.flags |= {"parallel": "DistributedDataParallel", "backend": "gloo", "gradient_as_bucket_view": True,
                           "static_graph": True}

    def joined(self, request: Request) -> nn.Module:
        """What is trained: the model, or as one of several ranks the model that averages gradients."""
        if request.ranks == 1:
            return self.model
        if self.device.type != "cpu" or self.compiled or not request.meeting:
            raise Unsupported("several ranks train on processors, eagerly, and meet in a file.")
        torch.distributed.init_process_group("gloo", init_method=f"file://{request.meeting}", rank=request.rank,
                                             world_size=request.ranks)
        return nn.parallel.DistributedDataParallel(self.model, gradient_as_bucket_view=True, static_graph=True)

    def mean_over_ranks(self, value: float) -> float:
        if self.trained is self.model:
            return value
        sum_of_all = torch.tensor(value, dtype=torch.float64)
        torch.distributed.all_reduce(sum_of_all)
        return float(sum_of_all) / torch.distributed.get_world_size()

    def agreed(self, value: float) -> float:
        if self.trained is self.model:
            return value
        first = torch.tensor(float(value), dtype=torch.float64)
        torch.distributed.broadcast(first, 0)
        return float(first)

    def slots(self) -> list[Slot]:
        return module_slots(self.model)

    def batch(self, x: np.ndarray, y: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        return self.shaped(torch.from_numpy(x).to(self.device), torch.from_numpy(y).to(self.device))

    def shaped(self, xt: torch.Tensor, yt: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if self.targets != "input":
            return xt.permute(0, 3, 1, 2) if xt.dim() == 4 else xt, yt.long()
        return xt.flatten(1), xt.flatten(1)

    def hold(self, x: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
        if self.device.type == "cpu":
            return x, y
        return torch.from_numpy(x).to(self.device), torch.from_numpy(y).to(self.device)

    def take(self, held: Any, chosen: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        if self.device.type == "cpu":
            return super().take(held, chosen)
        rows = torch.from_numpy(chosen).to(self.device, non_blocking=True)
        return self.shaped(held[0][rows], held[1][rows])

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16)

    def loss_of(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with self.autocast():
            out = self.trained(x)
            if self.targets == "input":
                return F.mse_loss(out.float(), y)
            return F.cross_entropy(out.flatten(0, -2), y.flatten())

    def set_training(self, on: bool) -> None:
        if self.model.training != on:  # it walks the whole tree
            self.model.train(on)

    def gradients(self, batch: Any) -> tuple[torch.Tensor, None]:
        self.set_training(True)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(*batch)
        loss.backward()
        return loss, None

    def update(self, gradients: None) -> None:
        if self.clip:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.clip)
        self.optimizer.step()

    def step_once(self, batch: Any) -> torch.Tensor:
        loss, gradients = self.gradients(batch)
        self.update(gradients)
        return loss.detach()

    def step(self, batch: Any) -> torch.Tensor:
        if not self.step_graph:
            return self.step_once(batch)
        self.set_training(True)  # a replay does not ask
        try:
            return self.step_graph(batch)
        except RuntimeError as error:
            if not self.compiled or self.step_graph.graph:
                raise
            self.without_graph(error)
            return self.step_once(batch)

    def without_graph(self, error: Exception) -> None:
        """What was compiled could not be captured: PyTorch's own way to put it into graphs, the optimiser apart."""
        self.loss = torch.compile(self.loss_of, mode="reduce-overhead")
        self.step_graph = None
        self.flags |= {"mode": "reduce-overhead", "cuda_graph": False, "capture_failed": str(error)[:300]}

    def keep(self, loss: torch.Tensor) -> torch.Tensor:
        return loss.clone() if self.captured else loss

    def forward(self, batch: Any) -> torch.Tensor:
        self.set_training(True)
        return self.loss(*batch).detach()

    def infer_once(self, batch: Any) -> torch.Tensor:
        self.set_training(False)
        with torch.inference_mode(), self.autocast():
            return self.outputs(batch[0])

    def infer(self, batch: Any) -> torch.Tensor:
        return self.infer_graph(batch) if self.infer_graph else self.infer_once(batch)

    def numpy(self, outputs: torch.Tensor) -> np.ndarray:
        return outputs.float().cpu().numpy()

    def correct(self, outputs: torch.Tensor, batch: Any) -> torch.Tensor:
        return (outputs.argmax(-1) == batch[1]).sum()

    def value(self, loss: torch.Tensor) -> float:
        return float(loss)

    def wait(self, handle: Any) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def reset(self) -> None:
        if isinstance(self.model, Recurrent):
            self.model.state = None

    def flops(self, batch: Any) -> float | None:
        if self.recurrent:
            return None  # its counter does not know fused recurrent layers
        self.set_training(False)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            self.model(batch[0])
        return float(counter.get_total_flops())

    def peak_bytes(self) -> int | None:
        return torch.cuda.max_memory_allocated() if self.device.type == "cuda" else None


if __name__ == "__main__":
    common.finish(request, Torch)
