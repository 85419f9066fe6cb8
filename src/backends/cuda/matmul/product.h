// A matrix product as strides: what operands and flags come to, with the batch folded into as few axes as possible.
#pragma once

#include <cstdint>
#include <string>

#include "backend/kernel.h"

namespace varve::cuda {

// Distances in elements. A batch stride of 0 repeats the matrix.
struct MatrixStrides {
  Ints batch;
  std::int64_t row = 0, col = 0;
};

// c[i] = a[i]·b[i]      a: [M,K]  b: [K,N]  c: [M,N]
struct Product {
  Ints batch;
  std::int64_t m = 0, n = 0, k = 0;
  MatrixStrides a, b, c;

  std::int64_t count() const;  // of products
  bool empty() const { return count() == 0 || m == 0 || n == 0; }
};

struct Transposes {
  bool a = false, b = false;
};
Product product_of(const backend::Port& a, const backend::Port& b, const backend::Port& c, Transposes transposes);

// "64x2048x26752 a26752,1 b1,26752": sizes and strides of one matrix.
std::string name_of(const Product& product);

// Axes of size 1 go, neighbours that all three operands walk as one axis become one, and an axis along which only rows
// of a and c advance becomes more rows.
void fold(Product& product);

// How far a, b and c are from their first matrix at product `index` of the first `axes` axes of the batch.
struct Offsets {
  std::int64_t a = 0, b = 0, c = 0;
};
Offsets offsets_of(const Product& product, std::size_t axes, std::int64_t index);

}  // namespace varve::cuda
