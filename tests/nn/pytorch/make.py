"""Writes the files beside it: weights, an input and the output of small networks, as PyTorch has them.

Run by hand, with torch, numpy and safetensors installed; pytorch_test.cpp reads what it wrote.
"""

import pathlib

import torch
from safetensors.torch import save_file
from torch import nn

FOLDER = pathlib.Path(__file__).parent


def randomise(module):
    """Values that no initialiser leaves as they are: statistics and biases differ from 0 and 1."""
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            if "running_var" in name:
                tensor.uniform_(0.5, 2)
            elif tensor.is_floating_point():
                tensor.normal_(0, 0.3)


def write(name, module, x, infer=None):
    randomise(module)
    module.eval()
    with torch.no_grad():
        y = module(x) if infer is None else infer(module, x)
    state = {key: value.contiguous() for key, value in module.state_dict().items()}
    save_file(state, FOLDER / f"{name}.safetensors")
    x = x.to(torch.int32) if not x.is_floating_point() else x
    save_file({"x": x.contiguous(), "y": y.contiguous()}, FOLDER / f"{name}_io.safetensors")


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.embedding = nn.Embedding(20, 6)
        self.rnn = kind(6, 5, batch_first=True, **options)
        self.fc = nn.Linear(5 * (2 if options.get("bidirectional") else 1), 3)

    def forward(self, ids):
        _, h = self.rnn(self.embedding(ids))
        h = h[0] if isinstance(h, tuple) else h
        last = torch.cat([h[-2], h[-1]], 1) if self.rnn.bidirectional else h[-1]
        return self.fc(last)


torch.manual_seed(1)
images = torch.randn(2, 9, 10, 3)  # N, H, W, C: as Varve takes them

write(
    "convnet",
    nn.Sequential(
        nn.Conv2d(3, 8, (3, 2), stride=1, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 12, 3, groups=2),
        nn.Tanh(),
        nn.Flatten(),
        nn.BatchNorm1d(12 * 2 * 3),
        nn.Dropout(0.5),
        nn.Linear(12 * 2 * 3, 5),
    ),
    images,
    lambda module, x: module(x.permute(0, 3, 1, 2)),
)
write(
    "deconvnet",
    nn.Sequential(nn.ConvTranspose2d(3, 4, (3, 2), stride=2, padding=(1, 0), output_padding=(1, 1)), nn.GroupNorm(2, 4)),
    images,
    lambda module, x: module(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1),
)
write(
    "conv1d",
    nn.Sequential(nn.Conv1d(3, 4, 3, padding=2, dilation=2), nn.GELU()),
    torch.randn(2, 7, 3),
    lambda module, x: module(x.permute(0, 2, 1)).permute(0, 2, 1),
)
ids = torch.randint(0, 20, (3, 7))
write("lstm", Recurrent(nn.LSTM, num_layers=2, bidirectional=True), ids)
write("gru", Recurrent(nn.GRU, num_layers=2), ids)
write("rnn", Recurrent(nn.RNN, nonlinearity="relu"), ids)

sequence = torch.randn(2, 6, 8)
for name, first in (("transformer_pre", True), ("transformer_post", False)):
    write(
        name,
        nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True, norm_first=first),
        sequence,
        lambda module, x: module(x, src_mask=nn.Transformer.generate_square_subsequent_mask(6), is_causal=True),
    )

torch.manual_seed(2)
write(
    "volumes",
    nn.Sequential(
        nn.Conv3d(2, 4, (2, 3, 1), stride=(1, 2, 1), padding=(1, 1, 0), groups=2),
        nn.MaxPool3d((2, 1, 2), ceil_mode=True),
        nn.ReLU(),
        nn.AvgPool3d(2, stride=1, padding=1, count_include_pad=False),
        nn.Upsample(scale_factor=1.5, mode="trilinear"),
        nn.Conv3d(4, 3, 1, bias=False),
    ),
    torch.randn(2, 4, 7, 5, 2),
    lambda module, x: module(x.permute(0, 4, 1, 2, 3)).permute(0, 2, 3, 4, 1),
)
