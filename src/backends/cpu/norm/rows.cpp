#include "backends/cpu/norm/rows.h"

namespace varve::cpu {

std::string row_refusal(const TensorType& type) {
  if (type.dtype != f32) return name(type.dtype);
  if (type.shape.rank() == 0) return "a scalar";
  return type.shape.numel() == 0 ? "an empty tensor" : "";
}

void offer_rows(ClaimMap& map, const std::string& op, Maker make) {
  map[op].push_back([make](const backend::Site& site, std::vector<backend::Claim>& claims) {
    const ir::Node& node = site.node();
    const std::string kernel = cat("rows ", node.op->name);
    std::string refusal = row_refusal(node.inputs[0].type());
    if (refusal.empty() && node.attrs.has("axis") && node.attrs.integer("axis") != node.types[0].shape.rank() - 1)
      refusal = "not the last axis";
    if (!refusal.empty()) return claims.push_back(backend::Claim::no(kernel, refusal));
    claims.push_back(backend::claim_of(kernel, site.root(), make));
  });
}

}  // namespace varve::cpu
