// Factorisations: cholesky, qr, eigh, svd. Gradients are the textbook's (Giles 2008; Townsend 2016; Walter 2012).
#include <algorithm>

#include "ops/batching.h"
#include "ops/linalg.h"

namespace varve::linalg {
namespace {

double cube(const Call& call) {
  const auto n = static_cast<double>(columns_of(call.in[0].shape));
  return n * n * n;
}

// Of factorisations by reflections or rotations of an M × N matrix: so many times M·N·min(M, N).
Cost rectangle_cost(const Call& call, const std::vector<TensorType>& out, double times) {
  const auto m = static_cast<double>(rows_of(call.in[0].shape)), n = static_cast<double>(columns_of(call.in[0].shape));
  return matrix_cost(call, out, times * m * n * std::min(m, n));
}

// The lower triangle with the diagonal halved: the part of a symmetric matrix that its lower triangle stands for.
Tensor halved(const Tensor& x) { return tril(x) * (1.0 - 0.5 * eye(x.dim(-1), x.dtype())); }

// ---- cholesky

std::vector<TensorType> cholesky_shape(const Call& call) {
  check_matrix(call, 0, true);
  return {call.in[0]};
}

// a = l·lᵀ      s = l⁻ᵀ·halved(lᵀ·dl)·l⁻¹,  da = (s + sᵀ) / 2
std::vector<Tensor> cholesky_vjp(const Vjp& v) {
  const Tensor& l = v.out[0];
  const Tensor half = triangular_solve(l, halved(matmul(l, v.dy, {.transpose_a = true})), {.transpose = true});
  return {symmetric(triangular_solve(l, transpose(half), {.transpose = true}))};
}

// ---- qr

std::vector<TensorType> qr_shape(const Call& call) {
  check_matrix(call, 0, false);
  const auto& [dtype, shape] = call.in[0];
  const std::int64_t m = rows_of(shape), n = columns_of(shape), k = std::min(m, n);
  return {{dtype, with_sizes(shape, {m, k})}, {dtype, with_sizes(shape, {k, n})}};
}

// a = q·r    a, q: [.., M, N]  r: [.., N, N]      m = r·drᵀ - dqᵀ·q,  da = (dq + q·copyltu(m))·r⁻ᵀ
Tensor tall_qr_vjp(const Tensor& q, const Tensor& r, const Tensor& dq, const Tensor& dr) {
  const Tensor m = matmul(r, dr, {.transpose_b = true}) - matmul(dq, q, {.transpose_a = true});
  const Tensor right = dq + matmul(q, tril(m) + transpose(tril(m, -1)));
  return transpose(triangular_solve(r, transpose(right), {.lower = false}));
}

Tensor columns(const Tensor& x, std::int64_t begin, std::int64_t end) {
  std::vector<Range> ranges(static_cast<std::size_t>(x.rank()));
  ranges.back() = {begin, end};
  return slice(x, ranges);
}

// A wide matrix is [x y] = [q·u q·v]: x with its own factors, and v = qᵀ·y.
std::vector<Tensor> qr_vjp(const Vjp& v) {
  const Tensor &a = v.in[0], &q = v.out[0], &r = v.out[1];
  const Tensor dq = flowing(v, 0), dr = flowing(v, 1);
  const std::int64_t m = a.dim(-2), n = a.dim(-1);
  if (m >= n) return {tall_qr_vjp(q, r, dq, dr)};
  const Tensor y = columns(a, m, n), dv = columns(dr, m, n);
  const Tensor dx = tall_qr_vjp(q, columns(r, 0, m), dq + matmul(y, dv, {.transpose_b = true}), columns(dr, 0, m));
  return {concat({dx, matmul(q, dv)}, -1)};
}

// ---- eigh

std::vector<TensorType> eigh_shape(const Call& call) {
  check_matrix(call, 0, true);
  const auto& [dtype, shape] = call.in[0];
  return {{dtype, with_sizes(shape, {rows_of(shape)})}, call.in[0]};
}

// a = v·diag(w)·vᵀ      da = v·(diag(dw) + f ∘ (vᵀ·dv))·vᵀ,  fᵢⱼ = 1 / (wⱼ - wᵢ)
std::vector<Tensor> eigh_vjp(const Vjp& v) {
  const Tensor &values = v.out[0], &vectors = v.out[1];
  Tensor middle = as_column(flowing(v, 0)) * eye(values.dim(-1), values.dtype());
  if (v.dys[1].defined())
    middle =
        middle + safe_inverse(as_row(values) - as_column(values)) * matmul(vectors, v.dys[1], {.transpose_a = true});
  return {symmetric(matmul(matmul(vectors, middle), vectors, {.transpose_b = true}))};
}

// ---- svd

std::vector<TensorType> svd_shape(const Call& call) {
  check_matrix(call, 0, false);
  const auto& [dtype, shape] = call.in[0];
  const std::int64_t m = rows_of(shape), n = columns_of(shape), k = std::min(m, n);
  return {{dtype, with_sizes(shape, {m, k})}, {dtype, with_sizes(shape, {k})}, {dtype, with_sizes(shape, {k, n})}};
}

Tensor antisymmetric(const Tensor& x) { return x - transpose(x); }

// a = u·diag(s)·vᵀ      fᵢⱼ = 1 / (sⱼ² - sᵢ²)
// da = u·[(f ∘ (uᵀ·du - duᵀ·u))·diag(s) + diag(s)·(f ∘ (vᵀ·dv - dvᵀ·v)) + diag(ds)]·vᵀ
//      + (1 - u·uᵀ)·du·diag(1/s)·vᵀ + u·diag(1/s)·dvᵀ·(1 - v·vᵀ)
std::vector<Tensor> svd_vjp(const Vjp& v) {
  const Tensor &u = v.out[0], &s = v.out[1], &vt = v.out[2];
  const Tensor &du = v.dys[0], &dvt = v.dys[2];
  const std::int64_t m = u.dim(-2), k = s.dim(-1), n = vt.dim(-1);
  const Tensor f = safe_inverse(as_row(s * s) - as_column(s * s)), inverse = safe_inverse(s);
  Tensor middle = as_column(flowing(v, 1)) * eye(k, s.dtype());
  if (du.defined()) middle = middle + f * antisymmetric(matmul(u, du, {.transpose_a = true})) * as_row(s);
  if (dvt.defined()) middle = middle + as_column(s) * f * antisymmetric(matmul(vt, dvt, {.transpose_b = true}));
  Tensor left = matmul(u, middle);
  if (du.defined() && m > k) left = left + (du - matmul(u, matmul(u, du, {.transpose_a = true}))) * as_row(inverse);
  Tensor da = matmul(left, vt);
  if (dvt.defined() && n > k) {
    const Tensor beside = dvt - matmul(matmul(dvt, vt, {.transpose_b = true}), vt);
    da = da + matmul(u * as_row(inverse), beside);
  }
  return {da};
}

// ---- records

const OpDef cholesky_op =
    define({.name = "cholesky",
            .doc = "Lower triangular l with l·lᵀ = a; reads the lower triangle",
            .family = "linalg",
            .shape = cholesky_shape,
            .gradient = cholesky_vjp,
            .cost = [](const Call& call,
                       const std::vector<TensorType>& out) { return matrix_cost(call, out, cube(call) / 3); },
            .batching = batch_leading});
const OpDef qr_op =
    define({.name = "qr",
            .doc = "a = q·r: orthonormal columns, an upper triangle with a diagonal ≥ 0",
            .family = "linalg",
            .shape = qr_shape,
            .gradient = qr_vjp,
            .cost = [](const Call& call, const std::vector<TensorType>& out) { return rectangle_cost(call, out, 4); },
            .batching = batch_leading});
const OpDef eigh_op =
    define({.name = "eigh",
            .doc = "Ascending eigenvalues and eigenvectors of symmetric matrices; reads the lower triangle",
            .family = "linalg",
            .shape = eigh_shape,
            .gradient = eigh_vjp,
            .cost = [](const Call& call,
                       const std::vector<TensorType>& out) { return matrix_cost(call, out, 9 * cube(call)); },
            .batching = batch_leading});
const OpDef svd_op =
    define({.name = "svd",
            .doc = "a = u·diag(s)·vt with descending singular values",
            .family = "linalg",
            .shape = svd_shape,
            .gradient = svd_vjp,

            .cost = [](const Call& call, const std::vector<TensorType>& out) { return rectangle_cost(call, out, 14); },
            .batching = batch_leading});

// Said here, as transposing would fail first.
Tensor symmetric_matrix(const char* op, const Tensor& a) {
  if (a.rank() < 2 || a.dim(-1) != a.dim(-2)) throw Error(cat(op, ": takes square matrices, got ", a.shape(), "."));
  return symmetric(as_real(a));
}

}  // namespace

Tensor cholesky(const Tensor& a) { return cholesky_op.call({symmetric_matrix("cholesky", a)})[0]; }

Qr qr(const Tensor& a) {
  const std::vector<Tensor> out = qr_op.call({as_real(a)});
  return {out[0], out[1]};
}

Eigh eigh(const Tensor& a) {
  const std::vector<Tensor> out = eigh_op.call({symmetric_matrix("eigh", a)});
  return {out[0], out[1]};
}

Svd svd(const Tensor& a) {
  const std::vector<Tensor> out = svd_op.call({as_real(a)});
  return {out[0], out[1], out[2]};
}

std::vector<const OpRecord*> factoring_ops() {
  return {&cholesky_op.record(), &qr_op.record(), &eigh_op.record(), &svd_op.record()};
}

}  // namespace varve::linalg
