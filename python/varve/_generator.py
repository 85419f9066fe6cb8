"""Random numbers that do not repeat."""

from __future__ import annotations

from . import _core
from ._core import Tensor, Variable

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import
    from typing import Any, Dict, Sequence

    from ._types import TensorLike


class Generator:
    """Random numbers that do not repeat: every call draws others, and two generators of one seed draw the same.

    What it has drawn so far is a variable, so that compiled functions go on drawing as well.

    >>> rng = vv.Generator(7)
    >>> first, second = rng.uniform((3,)), rng.uniform((3,))
    >>> first.tolist() == second.tolist(), vv.Generator(7).uniform((3,)).tolist() == first.tolist()
    (False, True)
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = int(seed)
        self._drawn = Variable(_core.full((), 0, dtype="i64"), name="generator", trainable=False)

    def next(self) -> Dict[str, Any]:
        """The options of one more call of any function that takes a seed.

        >>> sorted(vv.Generator(7).next())
        ['counter', 'seed', 'stream']
        """
        counter = self._drawn.value()
        self._drawn.assign(counter + 1)
        return {"seed": self.seed, "stream": "generator", "counter": counter}

    def uniform(self, shape: Sequence[int] = (), dtype: Any = "f32") -> Tensor:
        """Numbers in [0, 1).

        >>> 0 <= vv.Generator(1).uniform().item() < 1
        True
        """
        return _core.uniform(shape, dtype=dtype, **self.next())

    def normal(self, shape: Sequence[int] = (), dtype: Any = "f32") -> Tensor:
        """Numbers with mean 0 and deviation 1.

        >>> vv.Generator(1).normal((2, 3)).shape
        (2, 3)
        """
        return _core.normal(shape, dtype=dtype, **self.next())

    def bernoulli(self, shape: Sequence[int], probability: TensorLike) -> Tensor:
        """True with a probability.

        >>> vv.Generator(1).bernoulli((2,), 1.0).tolist()
        [True, True]
        """
        return _core.bernoulli(shape, probability, **self.next())

    def permutation(self, n: int) -> Tensor:
        """The numbers 0 … n - 1 in a random order.

        >>> sorted(vv.Generator(1).permutation(3).tolist())
        [0, 1, 2]
        """
        return _core.permutation(n, **self.next())

    def integers(self, shape: Sequence[int], low: int, high: int) -> Tensor:
        """Integers from low up to high, which is not among them.

        >>> vv.Generator(1).integers((2,), 3, 4).tolist()
        [3, 3]
        """
        return _core.integers(shape, low, high, **self.next())

    def categorical(self, logits: TensorLike) -> Tensor:
        """A class for each row of the last axis, with probabilities softmax(logits).

        >>> vv.Generator(1).categorical([[0.0, 100.0]]).tolist()
        [1]
        """
        return _core.categorical(logits, **self.next())

    def reset(self, drawn: int = 0) -> None:
        """Begins again, or after so many calls.

        >>> rng = vv.Generator(7)
        >>> first = rng.uniform().item(); rng.reset(); rng.uniform().item() == first
        True
        """
        self._drawn.assign(_core.full((), int(drawn), dtype="i64"))

    def drawn(self) -> Variable:
        """Calls so far, to keep in a checkpoint.

        >>> vv.Generator(7).drawn().item()
        0
        """
        return self._drawn
