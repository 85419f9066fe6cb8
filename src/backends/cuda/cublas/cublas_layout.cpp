#include "backends/cuda/cublas/cublas_layout.h"

#include <algorithm>

namespace varve::cuda {
namespace {

// One axis would do for this operand alone.
bool is_one_axis(const MatrixStrides& matrix, const Ints& sizes) {
  for (std::size_t axis = 0; axis + 1 < sizes.size(); ++axis)
    if (matrix.batch[axis] != matrix.batch[axis + 1] * sizes[axis + 1]) return false;
  return true;
}

MatrixStrides packed(const MatrixStrides& matrix, const Ints& sizes, std::int64_t rows, std::int64_t columns) {
  MatrixStrides to{matrix.batch, columns, 1};
  if (std::all_of(to.batch.begin(), to.batch.end(), [](std::int64_t stride) { return stride == 0; })) return to;
  std::int64_t stride = rows * columns;
  for (std::size_t axis = sizes.size(); axis-- > 0;) {
    to.batch[axis] = stride;
    stride *= sizes[axis];
  }
  return to;
}

}  // namespace

std::optional<BlasMatrix> blas_matrix(const MatrixStrides& matrix, std::int64_t rows, std::int64_t columns) {
  const std::int64_t batch = matrix.batch.empty() ? 0 : matrix.batch[0];
  // Strides along axes of size 1 mean nothing.
  const bool by_rows = matrix.col == 1 || columns == 1, by_columns = matrix.row == 1 || rows == 1;
  const std::int64_t row = rows == 1 ? columns : matrix.row, col = columns == 1 ? rows : matrix.col;
  const BlasMatrix as_it_is{columns, rows, row, batch, false}, transposed{rows, columns, col, batch, true};
  // A single column without gaps is one run, not many of one element.
  if (columns == 1 && matrix.row == 1) return transposed;
  if (by_rows && row >= columns) return as_it_is;
  if (by_columns && col >= rows) return transposed;
  return std::nullopt;
}

std::optional<BlasProblem> blas_problem(const Product& p) {
  if (p.empty() || p.k == 0 || p.batch.size() > 1) return std::nullopt;
  const auto a = blas_matrix(p.b, p.k, p.n), b = blas_matrix(p.a, p.m, p.k);
  const bool c_by_rows = (p.c.col == 1 || p.n == 1) && (p.c.row >= p.n || p.m == 1);
  if (!a || !b || !c_by_rows) return std::nullopt;
  BlasProblem problem{.m = p.n, .n = p.m, .k = p.k, .count = p.count(), .a = *a, .b = *b, .d = {}};
  problem.d = {p.n, p.m, p.m == 1 ? p.n : p.c.row, p.c.batch.empty() ? 0 : p.c.batch[0], false};
  return problem;
}

Packed pack_for_blas(const Product& product) {
  Packed result{product};
  Product& p = result.product;
  const bool many = p.batch.size() > 1;
  if ((many && !is_one_axis(p.a, p.batch)) || !blas_matrix(p.a, p.m, p.k)) {
    p.a = packed(p.a, p.batch, p.m, p.k);
    result.a = true;
  }
  if ((many && !is_one_axis(p.b, p.batch)) || !blas_matrix(p.b, p.k, p.n)) {
    p.b = packed(p.b, p.batch, p.k, p.n);
    result.b = true;
  }
  return result;
}

}  // namespace varve::cuda
