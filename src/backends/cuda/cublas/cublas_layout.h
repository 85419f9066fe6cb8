// How a product of row-major matrices is put to a library that knows column-major ones. Pure: needs no GPU.
//
// Memory that holds X [R,C] row by row, C elements to a row, holds Xᵀ [C,R] column by column. So instead of c = a·b we
// ask for cᵀ = bᵀ·aᵀ: the library's A is our b, its B our a, its D our c, and its m, n, k are our n, m, k. Each operand
// of ours, X [R,C] with strides (row, col), is read as Xᵀ [C,R]:
//
//   col = 1   memory as columns of length C, `row` apart, is Xᵀ: taken as it is          rows C, columns R, ld = row
//   row = 1   memory as columns of length R, `col` apart, is X: taken transposed        rows R, columns C, ld = col
//
// What has neither must be copied first. A bias for each column of c is one for each row of D, as the library wants.
#pragma once

#include <cstdint>
#include <optional>

#include "backends/cuda/matmul/product.h"

namespace varve::cuda {

// Column-major: element (r, c) of matrix i stands at i · batch + c · ld + r.
struct BlasMatrix {
  std::int64_t rows = 0, columns = 0, ld = 0, batch = 0;
  bool transposed = false;  // the product reads it so
  friend bool operator==(const BlasMatrix&, const BlasMatrix&) = default;
};

// D = op(A)·op(B)      op(A): [m,k]  op(B): [k,n]  D: [m,n]
struct BlasProblem {
  std::int64_t m = 0, n = 0, k = 0, count = 1;
  BlasMatrix a, b, d;
  friend bool operator==(const BlasProblem&, const BlasProblem&) = default;
};

// Xᵀ of X [rows, columns] as the library can read it, or nothing.
std::optional<BlasMatrix> blas_matrix(const MatrixStrides& matrix, std::int64_t rows, std::int64_t columns);
// Nothing when an operand cannot be read or the batch has more than one axis; never of an empty product, or one with
// nothing to sum over.
std::optional<BlasProblem> blas_problem(const Product& product);

// The product with those operands replaced that stand in the way of one call: they are to be copied, each matrix row by
// row and all of the batch one after another.
struct Packed {
  Product product;
  bool a = false, b = false;  // copied
};
Packed pack_for_blas(const Product& product);

}  // namespace varve::cuda
