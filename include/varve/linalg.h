// Linear algebra on matrices, and on batches of them: every function works on the last two axes. f32 and f64; integers
// are taken as f32. A matrix that has no answer (singular, not positive definite, not finite) is an Error at the next
// read that says which one of the batch it is.
#pragma once

#include "varve/tensor.h"

namespace varve::linalg {

// Lower triangular l with l·lᵀ = a and a positive diagonal. a is taken as (a + aᵀ) / 2, so that its gradient is
// symmetric.
Tensor cholesky(const Tensor& a);

struct TriangularOptions {
  bool lower = true;  // which triangle of a is read
  bool transpose = false;
  bool unit_diagonal = false;  // the diagonal is not read, but taken as ones
};
// x with a·x = b (aᵀ·x = b), where only one triangle of a is read. a [.., N, N], b [.., N, K] or [N].
Tensor triangular_solve(const Tensor& a, const Tensor& b, const TriangularOptions& = {});

Tensor solve(const Tensor& a, const Tensor& b);  // x with a·x = b; a [.., N, N], b [.., N, K] or [N]
Tensor inv(const Tensor& a);
Tensor det(const Tensor& a);  // its gradient needs an invertible matrix
struct SlogDet {
  Tensor sign, log;  // of the determinant's absolute value; a singular matrix has 0 and -infinity
};
SlogDet slogdet(const Tensor& a);

// a = q·r with orthonormal columns of q [.., M, K] and an upper triangle r [.., K, N] whose diagonal is not negative,
// K = min(M, N). The gradient needs the first K columns to be independent.
struct Qr {
  Tensor q, r;
};
Qr qr(const Tensor& a);

// a = vectors·diag(values)·vectorsᵀ of a symmetric matrix, which is taken as (a + aᵀ) / 2. Values ascend. Columns of
// `vectors` are orthonormal, and in each the first entry of at least 0.9 times the largest magnitude is positive: the
// same on every device. Vectors of equal values are any basis of their space, and no gradient flows between them.
struct Eigh {
  Tensor values, vectors;
};
Eigh eigh(const Tensor& a);

// a = u·diag(s)·vt with u [.., M, K], s [.., K] descending and not negative, vt [.., K, N], K = min(M, N). The sign is
// that of eigh, in the columns of u. No gradient flows between vectors of equal singular values, nor through 1 / s
// where s is 0.
struct Svd {
  Tensor u, s, vt;
};
Svd svd(const Tensor& a);

}  // namespace varve::linalg
