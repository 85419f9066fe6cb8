#include "varve/precision.h"

#include "base/text.h"
#include "varve/error.h"

namespace varve {

std::string name(ProductType type) { return type.tf32 ? "tf32" : name(type.dtype); }

ProductType parse_precision(std::string_view text) {
  for (const ProductType known : {ProductType(f32), tf32, ProductType(bf16)})
    if (text == name(known)) return known;
  throw Error(cat("unknown precision '", text, "'. Known: f32, tf32, bf16."));
}

}  // namespace varve
