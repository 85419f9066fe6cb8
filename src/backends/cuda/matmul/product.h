// A matrix product as strides, with the batch folded into as few axes as possible.
#pragma once

#include <cstdint>
#include <string>

#include "backend/product.h"

namespace varve::cuda {

using backend::MatrixStrides;
using backend::Product;
using backend::Transposes;
using backend::transposes_of;

// Folded.
Product folded_product(const backend::Port& a, const backend::Port& b, const backend::Port& c, Transposes transposes);

// "64x2048x26752 a26752,1 b1,26752": sizes and strides of one matrix.
std::string name_of(const Product& product);

// Merges axes of the batch, then makes an axis along which only rows of a and c advance more rows.
void fold(Product& product);

// How far a, b and c are from their first matrix at product `index` of the first `axes` axes of the batch.
struct Offsets {
  std::int64_t a = 0, b = 0, c = 0;
};
Offsets offsets_of(const Product& product, std::size_t axes, std::int64_t index);

}  // namespace varve::cuda
