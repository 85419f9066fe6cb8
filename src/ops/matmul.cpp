// Matrix products, batched, with transposed operands as flags so that no gradient materialises a transpose.
#include "base/text.h"
#include "ops/batching.h"
#include "ops/families.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve {
namespace {

// One operand as the product reads it.
struct Matrix {
  std::int64_t rows, columns;
  Shape batch;
};

Matrix view(const Shape& shape, bool transposed) {
  const int rank = shape.rank();
  Matrix m{shape[rank - 2], shape[rank - 1], Shape(Ints(shape.begin(), shape.end() - 2))};
  if (transposed) std::swap(m.rows, m.columns);
  return m;
}

std::string product_text(const Shape& a, const Shape& b, const MatmulOptions& o) {
  return cat(a, o.transpose_a ? "ᵀ" : "", " · ", b, o.transpose_b ? "ᵀ" : "");
}

[[noreturn]] void inner_sizes_differ(const Shape& a, const Shape& b, const MatmulOptions& o, std::int64_t in_a,
                                     std::int64_t in_b) {
  throw Error(cat("matmul: inner sizes differ: ", product_text(a, b, o), " needs ", in_a, " = ", in_b, "."));
}

MatmulOptions options_of(const Attrs& attrs) { return {attrs.flag("transpose_a"), attrs.flag("transpose_b")}; }

std::vector<TensorType> matmul_shape(const Call& call) {
  const TensorType &a = call.in[0], &b = call.in[1];
  const MatmulOptions options = options_of(call.attrs);
  if (a.dtype != b.dtype || a.dtype == boolean)
    throw Error(cat("matmul: takes two tensors of one floating or integer type, got ", a.str(), " and ", b.str(), "."));
  if (a.shape.rank() < 2 || b.shape.rank() < 2)
    throw Error(cat("matmul: takes matrices or batches of them, got ", a.shape, " and ", b.shape, "."));
  const Matrix left = view(a.shape, options.transpose_a), right = view(b.shape, options.transpose_b);
  if (left.columns != right.rows) inner_sizes_differ(a.shape, b.shape, options, left.columns, right.rows);
  Shape out = broadcast(left.batch, right.batch, "matmul");
  out.push_back(left.rows);
  out.push_back(right.columns);
  return {{a.dtype, out}};
}

// y = a·b    a: [.., M, K]  b: [.., K, N]  dy: [.., M, N];  batches that were broadcast are summed
std::vector<Tensor> matmul_vjp(const Vjp& v) {
  const MatmulOptions o = options_of(v.attrs);
  const Tensor &a = v.in[0], &b = v.in[1];
  Tensor da, db;
  if (v.needs[0]) {
    da = o.transpose_a ? matmul(b, v.dy, {.transpose_a = o.transpose_b, .transpose_b = true})
                       : matmul(v.dy, b, {.transpose_b = !o.transpose_b});
    da = sum_to(da, a.shape());
  }
  if (v.needs[1]) {
    db = o.transpose_b ? matmul(v.dy, a, {.transpose_a = true, .transpose_b = o.transpose_a})
                       : matmul(a, v.dy, {.transpose_a = !o.transpose_a});
    db = sum_to(db, b.shape());
  }
  return {da, db};
}

Cost matmul_cost(const Call& call, const std::vector<TensorType>& out) {
  const Matrix left = view(call.in[0].shape, call.attrs.flag("transpose_a"));
  return {2.0 * static_cast<double>(out[0].shape.numel()) * static_cast<double>(left.columns),
          static_cast<double>(call.in[0].bytes() + call.in[1].bytes() + out[0].bytes())};
}

// Leading axes as rows of one matrix: a single GEMM then does what a batch of small ones would.
Tensor as_rows(const Tensor& x) {
  const Shape& shape = x.shape();
  return x.reshape({Shape(Ints(shape.begin(), shape.end() - 1)).numel(), shape.back()});
}

// With shared weights the rows of all examples are one matrix. Else the examples are one more batch, left of the
// others: ones stand between where an operand has fewer.
std::optional<std::vector<Tensor>> batch_matmul(const Batching& call) {
  std::vector<Tensor> in = call.in;
  const int extra[] = {call.batched[0] ? 1 : 0, call.batched[1] ? 1 : 0};
  if (!call.batched[1] && in[1].rank() == 2 && !call.attrs.flag("transpose_a")) {
    const Tensor y = record(call.op, {as_rows(in[0]), in[1]}, call.attrs)[0];
    Shape shape = in[0].shape();
    shape[shape.rank() - 1] = y.dim(1);
    return std::vector<Tensor>{reshape(y, shape)};
  }
  const int rank = std::max(in[0].rank() - extra[0], in[1].rank() - extra[1]);
  for (std::size_t i = 0; i < 2; ++i) {
    if (!call.batched[i]) continue;
    Ints sizes = in[i].shape().vec();
    sizes.insert(sizes.begin() + 1, static_cast<std::size_t>(rank + 1 - in[i].rank()), 1);
    in[i] = reshape(in[i], Shape(std::move(sizes)));
  }
  return record(call.op, in, call.attrs);
}

const OpDef matmul_op = define(OpRecord{
    .name = "matmul",
    .doc = "Matrix product [.., M, K] · [.., K, N]; batches broadcast, either operand may be read transposed",
    .family = "matmul",
    .arity = 2,
    .shape = matmul_shape,
    .gradient = matmul_vjp,
    .cost = matmul_cost,
    .batching = batch_matmul,
});

Tensor product(const Tensor& a, const Tensor& b, const MatmulOptions& o) {
  return matmul_op.call({a, b}, {{"transpose_a", o.transpose_a}, {"transpose_b", o.transpose_b}})[0];
}

Shape with_last(const Shape& shape, std::int64_t last) {
  Shape result = shape;
  result[shape.rank() - 1] = last;
  return result;
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  const DType dtype = promote(a.dtype(), b.dtype());
  if (a.rank() == 0 || b.rank() == 0)
    throw Error(cat("matmul: takes vectors, matrices or batches, got ", a.shape(), " and ", b.shape(),
                    ". Scalars multiply with *."));
  // As NumPy does: a vector is a row on the left and a column on the right, and its axis of 1 goes again. It is its
  // own transpose.
  const bool row = a.rank() == 1, column = b.rank() == 1;
  const MatmulOptions o{.transpose_a = options.transpose_a && !row, .transpose_b = options.transpose_b && !column};
  Tensor x = row ? a.to(dtype).reshape({1, a.dim(0)}) : a.to(dtype);
  const Tensor y = column ? b.to(dtype).reshape({b.dim(0), 1}) : b.to(dtype);
  // Told with the caller's shapes, before anything is folded.
  const std::int64_t in_a = view(x.shape(), o.transpose_a).columns, in_b = view(y.shape(), o.transpose_b).rows;
  if (in_a != in_b) inner_sizes_differ(a.shape(), b.shape(), o, in_a, in_b);

  const bool fold = x.rank() > 2 && y.rank() == 2 && !o.transpose_a;
  Tensor result = product(fold ? as_rows(x) : x, y, o);
  if (fold) result = result.reshape(with_last(x.shape(), result.dim(1)));
  Axes vectors;
  if (row) vectors.push_back(-2);
  if (column) vectors.push_back(-1);
  return vectors.empty() ? result : squeeze(result, vectors);
}

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias) {
  if (x.rank() == 0 || w.rank() != 2 || x.dim(-1) != w.dim(0))
    throw Error(cat("linear: takes x [.., I] and w [I, O], got ", x.shape(), " and ", w.shape(), "."));
  if (!bias.defined()) return matmul(x, w);
  if (bias.rank() != 1 || bias.dim(0) != w.dim(1))
    throw Error(cat("linear: bias ", bias.shape(), " does not fit w ", w.shape(), ": expected [", w.dim(1), "]."));
  // The bias is added to the folded matrix, next to the product that can take it along.
  const Tensor y = matmul(as_rows(x), w) + bias;
  return x.rank() == 2 ? y : y.reshape(with_last(x.shape(), w.dim(1)));
}

std::vector<const OpRecord*> matmul_ops() { return {&matmul_op.record()}; }

}  // namespace varve
