#include "nn/orthogonal.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "varve/ops.h"

namespace varve::nn {
namespace {

constexpr std::int64_t kBlock = 32;

// Rows of a block that is orthogonal to all earlier rows already.
Tensor orthonormal_block(const Tensor& a) {
  const auto rows = static_cast<std::size_t>(a.dim(0)), columns = static_cast<std::size_t>(a.dim(1));
  std::vector<double> values = a.to_vector<double>();
  for (std::size_t row = 0; row < rows; ++row) {
    double* const r = &values[row * columns];
    for (std::size_t done = 0; done < row; ++done) {
      const double* const q = &values[done * columns];
      double dot = 0;
      for (std::size_t i = 0; i < columns; ++i) dot += r[i] * q[i];
      for (std::size_t i = 0; i < columns; ++i) r[i] -= dot * q[i];
    }
    double square = 0;
    for (std::size_t i = 0; i < columns; ++i) square += r[i] * r[i];
    const double scale = square > 0 ? 1 / std::sqrt(square) : 0;
    for (std::size_t i = 0; i < columns; ++i) r[i] *= scale;
  }
  return tensor(values, a.shape());
}

}  // namespace

// In float64, where one pass leaves errors far below those of the float32 result; and in blocks, so that nearly all of
// the work is in products of matrices: a width of 1,500 would take seconds otherwise.
Tensor orthonormal_rows(const Tensor& a) {
  const Tensor source = a.to(f64).eval();
  std::vector<Tensor> blocks;
  for (std::int64_t first = 0; first < a.dim(0); first += kBlock) {
    Tensor block = source.slice({{first, std::min(first + kBlock, a.dim(0))}});
    if (!blocks.empty()) {
      const Tensor done = concat(blocks, 0).eval();
      block = block - matmul(matmul(block, done, {.transpose_b = true}), done);
    }
    blocks.push_back(orthonormal_block(block));
  }
  return concat(blocks, 0).to(a.dtype()).eval();
}

}  // namespace varve::nn
