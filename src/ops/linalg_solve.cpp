// Systems of equations and determinants: triangular_solve, solve, inv, det, slogdet.
#include "ops/batching.h"
#include "ops/linalg.h"
#include "tensor/record.h"

namespace varve::linalg {
namespace {

double size_of_one(const Call& call) { return static_cast<double>(rows_of(call.in[0].shape)); }

// ---- a·x = b

std::vector<TensorType> solve_shape(const Call& call) {
  check_matrix(call, 0, true);
  check_matrix(call, 1, false);
  const TensorType &a = call.in[0], &b = call.in[1];
  if (a.dtype != b.dtype) throw Error(cat(call.op.name, ": a is ", a.dtype, " and b ", b.dtype, "; cast one of them."));
  if (rows_of(a.shape) != rows_of(b.shape) || batch_of(a.shape) != batch_of(b.shape))
    throw Error(
        cat(call.op.name, ": b must be [.., ", rows_of(a.shape), ", K] beside a ", a.shape, ", got ", b.shape, "."));
  return {b};
}

Cost triangular_cost(const Call& call, const std::vector<TensorType>& out) {
  const double n = size_of_one(call), k = static_cast<double>(columns_of(call.in[1].shape));
  return matrix_cost(call, out, n * n * k);
}

Cost solve_cost(const Call& call, const std::vector<TensorType>& out) {
  const double n = size_of_one(call), k = static_cast<double>(columns_of(call.in[1].shape));
  return matrix_cost(call, out, 2 * n * n * n / 3 + 2 * n * n * k);
}

Cost det_cost(const Call& call, const std::vector<TensorType>& out) {
  const double n = size_of_one(call);
  return matrix_cost(call, out, 2 * n * n * n / 3);
}

// Broadcasts batches, gives a vector b its axis, and takes it away again.
template <class Record>
Tensor solved(const char* op, const Tensor& a_given, const Tensor& b_given, Record record) {
  const DType dtype = promote(as_real(a_given).dtype(), as_real(b_given).dtype());
  Tensor a = a_given.to(dtype), b = b_given.to(dtype);
  if (a.rank() < 2 || b.rank() == 0)
    throw Error(cat(op, ": takes a [.., N, N] and b [.., N, K] or [N], got ", a.shape(), " and ", b.shape(), "."));
  const bool vector = b.rank() == 1;
  if (a.dim(-1) != a.dim(-2) || a.dim(-1) != b.dim(vector ? 0 : -2))
    throw Error(cat(op, ": takes a [.., N, N] and b [.., N, K] or [N], got ", a.shape(), " and ", b.shape(), "."));
  if (vector) b = as_column(b);
  const Shape batch = broadcast(batch_of(a.shape()), batch_of(b.shape()), op);
  const auto spread = [&](const Tensor& x) {
    Shape shape = batch;
    shape.push_back(x.dim(-2));
    shape.push_back(x.dim(-1));
    return x.shape() == shape ? x : broadcast_to(x, shape);
  };
  const Tensor x = record(spread(a), spread(b));
  return vector ? squeeze(x, {-1}) : x;
}

TriangularOptions options_of(const Attrs& attrs) {
  return {attrs.flag("lower"), attrs.flag("transpose"), attrs.flag("unit_diagonal")};
}

// x = a⁻¹·b    a: [.., N, N]  b, x, dx: [.., N, K];  da = -db·xᵀ in the triangle that is read
std::vector<Tensor> triangular_vjp(const Vjp& v) {
  TriangularOptions o = options_of(v.attrs);
  o.transpose = !o.transpose;
  const Tensor db = triangular_solve(v.in[0], v.dy, o);
  if (!v.needs[0]) return {{}, db};
  const Tensor da =
      o.transpose ? -matmul(db, v.out[0], {.transpose_b = true}) : -matmul(v.out[0], db, {.transpose_b = true});
  const std::int64_t beside = o.unit_diagonal ? 1 : 0;
  return {o.lower ? tril(da, -beside) : triu(da, beside), db};
}

// x = a⁻¹·b    a: [.., N, N]  b, x, dx: [.., N, K];  db = a⁻ᵀ·dx,  da = -db·xᵀ
std::vector<Tensor> solve_vjp(const Vjp& v) {
  const Tensor db = solve(transpose(v.in[0]), v.dy);
  return {v.needs[0] ? -matmul(db, v.out[0], {.transpose_b = true}) : Tensor{}, db};
}

// A matrix that all calls share is factored once: their right sides are columns of one.
std::optional<std::vector<Tensor>> batch_right_sides(const Batching& call) {
  if (call.batched[0]) return batch_leading(call);
  const Tensor& b = call.in[1];                            // [S, .., N, K]
  const Tensor beside = with_axis_at(b, 0, b.rank() - 2);  // [.., N, S, K]
  Shape folded = beside.shape();
  const std::int64_t k = folded.back();
  folded = Shape(Ints(folded.begin(), folded.end() - 1));
  folded[folded.rank() - 1] *= k;
  const Tensor x = record(call.op, {call.in[0], beside.reshape(folded)}, call.attrs)[0];
  return std::vector{with_axis_at(x.reshape(beside.shape()), b.rank() - 2, 0)};
}

// ---- determinants

std::vector<TensorType> det_shape(const Call& call) {
  check_matrix(call, 0, true);
  return {{call.in[0].dtype, batch_of(call.in[0].shape)}};
}

std::vector<TensorType> slogdet_shape(const Call& call) {
  const TensorType one = det_shape(call)[0];
  return {one, one};
}

// a⁻ᵀ · scale    a: [.., N, N]  scale: [..]
Tensor scaled_inverse(const Tensor& a, const Tensor& scale) { return as_column(as_column(scale)) * transpose(inv(a)); }

// y = |a|      da = dy · y · a⁻ᵀ
std::vector<Tensor> det_vjp(const Vjp& v) { return {scaled_inverse(v.in[0], v.dy * v.out[0])}; }

// y = log ||a||      da = dy · a⁻ᵀ;  the sign is constant
std::vector<Tensor> slogdet_vjp(const Vjp& v) { return {scaled_inverse(v.in[0], flowing(v, 1))}; }

// ---- records

const OpDef triangular_op = define({.name = "triangular_solve",
                                    .doc = "x with a·x = b, where one triangle of a is read",
                                    .family = "linalg",
                                    .arity = 2,
                                    .shape = solve_shape,
                                    .gradient = triangular_vjp,
                                    .cost = triangular_cost,
                                    .batching = batch_right_sides});
const OpDef solve_op = define({.name = "solve",
                               .doc = "x with a·x = b; a singular a is an error when x is read",
                               .family = "linalg",
                               .arity = 2,
                               .shape = solve_shape,
                               .gradient = solve_vjp,
                               .cost = solve_cost,
                               .batching = batch_right_sides});
const OpDef det_op = define({.name = "det",
                             .doc = "Determinants of matrices",
                             .family = "linalg",
                             .shape = det_shape,
                             .gradient = det_vjp,
                             .cost = det_cost,
                             .batching = batch_leading});
const OpDef slogdet_op = define({.name = "slogdet",
                                 .doc = "Sign of the determinant, and logarithm of its absolute value",
                                 .family = "linalg",
                                 .shape = slogdet_shape,
                                 .gradient = slogdet_vjp,
                                 .cost = det_cost,
                                 .batching = batch_leading});

}  // namespace

Tensor triangular_solve(const Tensor& a, const Tensor& b, const TriangularOptions& o) {
  return solved("triangular_solve", a, b, [&](const Tensor& matrix, const Tensor& right) {
    return triangular_op.call({matrix, right},
                              {{"lower", o.lower}, {"transpose", o.transpose}, {"unit_diagonal", o.unit_diagonal}})[0];
  });
}

Tensor solve(const Tensor& a, const Tensor& b) {
  return solved("solve", a, b, [](const Tensor& matrix, const Tensor& right) {
    return solve_op.call({matrix, right})[0];
  });
}

Tensor inv(const Tensor& a) {
  if (a.rank() < 2 || a.dim(-1) != a.dim(-2)) throw Error(cat("inv: takes square matrices, got ", a.shape(), "."));
  return solve(a, eye(a.dim(-1), as_real(a).dtype()));
}

Tensor det(const Tensor& a) { return det_op.call({as_real(a)})[0]; }

SlogDet slogdet(const Tensor& a) {
  const std::vector<Tensor> out = slogdet_op.call({as_real(a)});
  return {out[0], out[1]};
}

std::vector<const OpRecord*> solving_ops() {
  return {&triangular_op.record(), &solve_op.record(), &det_op.record(), &slogdet_op.record()};
}

}  // namespace varve::linalg
