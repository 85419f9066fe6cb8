// What every backend must know of check_finite.
#pragma once

#include <cstdint>
#include <string>

#include "varve/dtype.h"
#include "varve/op.h"

namespace varve::backend {

// The bits of an element's exponent, all of which are set in NaN and infinity; 0 for integers, which are finite.
std::uint64_t exponent_bits(DType dtype);

// The error; the index follows it.
std::string not_finite(const Attrs& attrs);

}  // namespace varve::backend
