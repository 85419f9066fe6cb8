// What the files of the linalg family share, and the list of its operators.
#include "ops/linalg.h"

#include "ops/families.h"

namespace varve::linalg {

void check_matrix(const Call& call, std::size_t input, bool square) {
  const TensorType& type = call.in[input];
  if (type.dtype != f32 && type.dtype != f64)
    throw Error(cat(call.op.name, ": takes f32 or f64, got ", type.str(), "; cast it."));
  if (type.shape.rank() < 2)
    throw Error(cat(call.op.name, ": takes a matrix or a batch of them, got ", type.str(), "."));
  if (square && rows_of(type.shape) != columns_of(type.shape))
    throw Error(cat(call.op.name, ": takes square matrices, got ", type.str(), "."));
}

Shape batch_of(const Shape& matrices) { return Shape(Ints(matrices.begin(), matrices.end() - 2)); }
std::int64_t rows_of(const Shape& matrices) { return matrices[matrices.rank() - 2]; }
std::int64_t columns_of(const Shape& matrices) { return matrices.back(); }

Shape with_sizes(const Shape& matrices, std::initializer_list<std::int64_t> last) {
  Shape shape = batch_of(matrices);
  for (const std::int64_t size : last) shape.push_back(size);
  return shape;
}

Tensor as_real(const Tensor& x) { return is_floating(x.dtype()) ? x : x.to(f32); }
Tensor symmetric(const Tensor& a) { return (a + transpose(a)) * 0.5; }
Tensor diagonal(const Tensor& square) { return sum(square * eye(square.dim(-1), square.dtype()), {.axes = Axes{-1}}); }
Tensor as_row(const Tensor& x) { return expand_dims(x, -2); }
Tensor as_column(const Tensor& x) { return expand_dims(x, -1); }
Tensor safe_inverse(const Tensor& x) {
  const Tensor zero = x == 0;
  return where(zero, 0.0, 1.0 / where(zero, 1.0, x));
}

Cost matrix_cost(const Call& call, const std::vector<TensorType>& out, double flops_of_one) {
  Cost cost = moves_only(call, out);
  cost.flops = static_cast<double>(batch_of(call.in[0].shape).numel()) * flops_of_one;
  return cost;
}

}  // namespace varve::linalg

namespace varve {

std::vector<const OpRecord*> linalg_ops() {
  std::vector<const OpRecord*> all = linalg::solving_ops();
  for (const OpRecord* op : linalg::factoring_ops()) all.push_back(op);
  return all;
}

}  // namespace varve
