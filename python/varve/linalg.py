"""Linear algebra on matrices, and on batches of them: every function works on the last two axes.

    x = linalg.solve(a, b)                   # a [.., N, N], b [.., N, K] or [N]
    values, vectors = linalg.eigh(a)         # of a symmetric matrix, ascending
    u, s, vt = linalg.svd(a)                 # a = u · diag(s) · vt

f32 and f64, with gradients; integers are taken as f32. A matrix that has no answer (singular, not positive definite, not finite)
is an error when a result is read, which says which one of the batch it is. Signs are fixed, so that devices agree: r of qr has no
negative diagonal, and in a vector of eigh and svd the first entry of at least 0.9 times the largest magnitude is positive.
"""

from __future__ import annotations

from . import _core
from ._core import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import
    from typing import Tuple

    from ._types import TensorLike

__all__ = ["cholesky", "det", "eigh", "inv", "qr", "slogdet", "solve", "svd", "triangular_solve"]


def cholesky(a: TensorLike) -> Tensor:
    """Lower triangular l with l·lᵀ = a and a positive diagonal, of (a + aᵀ) / 2.

    >>> vv.linalg.cholesky([[4.0, 2.0], [2.0, 5.0]]).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    return _core._cholesky(a)


def solve(a: TensorLike, b: TensorLike) -> Tensor:
    """x with a·x = b: a [.., N, N], b [.., N, K] or a vector [N]. Batches broadcast.

    >>> vv.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [1.0, 1.0]).tolist()
    [0.5, 0.25]
    """
    return _core._solve(a, b)


def triangular_solve(
    a: TensorLike, b: TensorLike, lower: bool = True, transpose: bool = False, unit_diagonal: bool = False
) -> Tensor:
    """x with a·x = b (or aᵀ·x = b), where only one triangle of a is read.

    >>> vv.linalg.triangular_solve([[2.0, 9.0], [1.0, 1.0]], [2.0, 3.0]).tolist()
    [1.0, 2.0]
    """
    return _core._triangular_solve(a, b, lower, transpose, unit_diagonal)


def inv(a: TensorLike) -> Tensor:
    """The inverse; of a singular matrix an error when it is read.

    >>> vv.linalg.inv([[2.0, 0.0], [0.0, 4.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return _core._inv(a)


def det(a: TensorLike) -> Tensor:
    """The determinant. Its gradient needs an invertible matrix.

    >>> vv.linalg.det([[2.0, 0.0], [7.0, 4.0]]).item()
    8.0
    """
    return _core._det(a)


def slogdet(a: TensorLike) -> Tuple[Tensor, Tensor]:
    """Sign of the determinant, and the logarithm of its absolute value; 0 and -inf of a singular matrix.

    >>> sign, log = vv.linalg.slogdet([[0.0, 1.0], [1.0, 0.0]])
    >>> sign.item(), log.item()
    (-1.0, 0.0)
    """
    return _core._slogdet(a)


def qr(a: TensorLike) -> Tuple[Tensor, Tensor]:
    """a = q·r: orthonormal columns q [.., M, K], an upper triangle r [.., K, N] with no negative diagonal, K = min(M, N).

    >>> q, r = vv.linalg.qr([[2.0, 1.0], [0.0, 3.0]])
    >>> r.tolist()
    [[2.0, 1.0], [0.0, 3.0]]
    """
    return _core._qr(a)


def eigh(a: TensorLike) -> Tuple[Tensor, Tensor]:
    """Ascending eigenvalues and eigenvectors (columns) of a symmetric matrix, which is taken as (a + aᵀ) / 2.

    >>> values, vectors = vv.linalg.eigh([[2.0, 0.0], [0.0, 1.0]])
    >>> values.tolist(), vectors.tolist()
    ([1.0, 2.0], [[0.0, 1.0], [1.0, 0.0]])
    """
    return _core._eigh(a)


def svd(a: TensorLike) -> Tuple[Tensor, Tensor, Tensor]:
    """a = u·diag(s)·vt: u [.., M, K], s [.., K] descending, vt [.., K, N], K = min(M, N).

    >>> u, s, vt = vv.linalg.svd([[0.0, 2.0], [1.0, 0.0]])
    >>> s.tolist()
    [2.0, 1.0]
    """
    return _core._svd(a)
