// A matrix product as strides.
#pragma once

#include "backend/product.h"

namespace varve::cpu {

using backend::is_dense;
using backend::MatrixStrides;
using backend::Product;
using backend::product_of;
using backend::Transposes;
using backend::transposes_of;

}  // namespace varve::cpu
