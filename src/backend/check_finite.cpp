#include "backend/check_finite.h"

#include "base/text.h"

namespace varve::backend {

std::uint64_t exponent_bits(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x7FF0000000000000u;
    case DType::f32:
      return 0x7F800000u;
    case DType::f16:
      return 0x7C00u;
    case DType::bf16:
      return 0x7F80u;
    default:
      return 0;
  }
}

std::string not_finite(const Attrs& attrs) {
  return cat(attrs.text("what"), ": expected finite values; element {} is the first that is NaN or infinite.");
}

}  // namespace varve::backend
