// A matrix product as strides: what operands and flags come to, with the batch merged into as few axes as possible.
#pragma once

#include <array>
#include <cstdint>

#include "backend/kernel.h"
#include "ir/node.h"

namespace varve::backend {

// Distances in elements. A batch stride of 0 repeats the matrix.
struct MatrixStrides {
  Ints batch;
  std::int64_t row = 0, col = 0;

  std::int64_t offset(const Ints& sizes, std::int64_t index) const;  // of matrix `index` of the batch, row-major
};

// c[i] = a[i]·b[i]      a: [M,K]  b: [K,N]  c: [M,N]
struct Product {
  Ints batch;
  std::int64_t m = 0, n = 0, k = 0;
  MatrixStrides a, b, c;

  std::array<MatrixStrides*, 3> sides() { return {&a, &b, &c}; }
  std::int64_t count() const;  // of products
  bool empty() const { return count() == 0 || m == 0 || n == 0; }
};

struct Transposes {
  bool a = false, b = false;
};
inline Transposes transposes_of(const ir::Node& matmul) {
  return {matmul.attrs.flag("transpose_a"), matmul.attrs.flag("transpose_b")};
}

Product product_of(const Port& a, const Port& b, const Port& c, Transposes transposes);

// Axes of size 1 go; neighbours that all three operands walk as one axis become one.
void merge_batch_axes(Product& product);

// Row-major, no gaps.
inline bool is_dense(const MatrixStrides& matrix, std::int64_t columns) {
  return matrix.col == 1 && matrix.row == columns;
}

}  // namespace varve::backend
