#include "backends/cuda/matmul/product.h"

#include <array>
#include <utility>

#include "base/text.h"

namespace varve::cuda {
namespace {

// The matrix that stands in the last two axes. Axes that the batch has and the operand lacks, or has with size 1,
// repeat.
MatrixStrides matrix_of(const backend::Port& port, int batch_rank, bool transposed) {
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

std::array<MatrixStrides*, 3> sides(Product& p) { return {&p.a, &p.b, &p.c}; }

// [B,M,K]·[K,N] is [B·M,K]·[K,N] where the rows of all matrices follow each other.
bool more_rows(Product& p) {
  if (p.batch.empty()) return false;
  const std::int64_t a = p.m == 1 ? p.a.batch.back() : p.a.row, c = p.m == 1 ? p.c.batch.back() : p.c.row;
  if (p.b.batch.back() != 0 || p.a.batch.back() != p.m * a || p.c.batch.back() != p.m * c || a == 0) return false;
  p.a.row = a;
  p.c.row = c;
  p.m *= p.batch.back();
  p.batch.pop_back();
  for (MatrixStrides* side : sides(p)) side->batch.pop_back();
  return true;
}

}  // namespace

void fold(Product& p) {
  Product folded = p;
  folded.batch.clear();
  for (MatrixStrides* side : sides(folded)) side->batch.clear();
  for (std::size_t axis = 0; axis < p.batch.size(); ++axis) {
    const std::int64_t size = p.batch[axis];
    if (size == 1) continue;
    bool joins = !folded.batch.empty();
    for (std::size_t s = 0; joins && s < 3; ++s)
      joins = sides(folded)[s]->batch.back() == sides(p)[s]->batch[axis] * size;
    if (!joins) folded.batch.push_back(1);
    folded.batch.back() *= size;
    for (std::size_t s = 0; s < 3; ++s) {
      Ints& strides = sides(folded)[s]->batch;
      if (!joins) strides.push_back(0);
      strides.back() = sides(p)[s]->batch[axis];
    }
  }
  while (more_rows(folded)) {
  }
  p = std::move(folded);
}

std::int64_t Product::count() const {
  std::int64_t count = 1;
  for (const std::int64_t size : batch) {
    if (size == 0) return 0;
    count *= size;
  }
  return count;
}

Offsets offsets_of(const Product& p, std::size_t axes, std::int64_t index) {
  Offsets at;
  for (std::size_t axis = axes; axis-- > 0;) {
    const std::int64_t i = index % p.batch[axis];
    at.a += i * p.a.batch[axis];
    at.b += i * p.b.batch[axis];
    at.c += i * p.c.batch[axis];
    index /= p.batch[axis];
  }
  return at;
}

std::string name_of(const Product& p) {
  return cat(p.m, "x", p.n, "x", p.k, " a", p.a.row, ",", p.a.col, " b", p.b.row, ",", p.b.col);
}

Product product_of(const backend::Port& a, const backend::Port& b, const backend::Port& c, Transposes transposes) {
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
  if (!p.empty()) fold(p);
  return p;
}

}  // namespace varve::cuda
