#include "backend/product.h"

#include <utility>

namespace varve::backend {
namespace {

// The matrix that stands in the last two axes. Axes that the batch has and the operand lacks, or has with size 1,
// repeat.
MatrixStrides matrix_of(const Port& port, int batch_rank, bool transposed) {
  const Shape& shape = port.type.shape;
  const Ints& strides = port.layout.strides;
  const auto rank = static_cast<std::size_t>(shape.rank());
  MatrixStrides matrix{Ints(static_cast<std::size_t>(batch_rank), 0), strides[rank - 2], strides[rank - 1]};
  if (transposed) std::swap(matrix.row, matrix.col);
  const std::size_t shift = matrix.batch.size() + 2 - rank;
  for (std::size_t axis = 0; axis + 2 < rank; ++axis)
    if (shape[static_cast<int>(axis)] != 1) matrix.batch[axis + shift] = strides[axis];
  return matrix;
}

}  // namespace

void merge_batch_axes(Product& p) {
  Product merged = p;
  merged.batch.clear();
  for (MatrixStrides* side : merged.sides()) side->batch.clear();
  for (std::size_t axis = 0; axis < p.batch.size(); ++axis) {
    const std::int64_t size = p.batch[axis];
    if (size == 1) continue;
    bool joins = !merged.batch.empty();
    for (std::size_t s = 0; joins && s < 3; ++s)
      joins = merged.sides()[s]->batch.back() == p.sides()[s]->batch[axis] * size;
    if (!joins) merged.batch.push_back(1);
    merged.batch.back() *= size;
    for (std::size_t s = 0; s < 3; ++s) {
      Ints& strides = merged.sides()[s]->batch;
      if (!joins) strides.push_back(0);
      strides.back() = p.sides()[s]->batch[axis];
    }
  }
  p = std::move(merged);
}

std::int64_t MatrixStrides::offset(const Ints& sizes, std::int64_t index) const {
  std::int64_t at = 0;
  for (std::size_t axis = sizes.size(); axis-- > 0;) {
    at += index % sizes[axis] * batch[axis];
    index /= sizes[axis];
  }
  return at;
}

std::int64_t Product::count() const {
  std::int64_t count = 1;
  for (const std::int64_t size : batch) {
    if (size == 0) return 0;
    count *= size;
  }
  return count;
}

Product product_of(const Port& a, const Port& b, const Port& c, Transposes transposes) {
  const Shape &shape = c.type.shape, &left = a.type.shape;
  const int rank = shape.rank();
  Product p;
  p.batch = Ints(shape.begin(), shape.end() - 2);
  p.m = shape[rank - 2];
  p.n = shape[rank - 1];
  p.k = left[left.rank() - (transposes.a ? 2 : 1)];
  p.a = matrix_of(a, rank - 2, transposes.a);
  p.b = matrix_of(b, rank - 2, transposes.b);
  p.c = matrix_of(c, rank - 2, false);
  if (!p.empty()) merge_batch_axes(p);
  return p;
}

}  // namespace varve::backend
