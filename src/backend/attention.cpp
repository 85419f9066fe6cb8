#include "backend/attention.h"

#include "backend/match.h"

namespace varve::backend {
namespace {

// Whether the value is heads [.., T, heads, D] as columns [.., T, heads·D].
bool is_columns_of(const ir::Value& value, const ir::Value& heads) {
  if (!value.node->is("reshape") || value.node->inputs[0] != heads) return false;
  Ints merged = heads.type().shape.vec();
  const std::int64_t depth = merged.back();
  merged.pop_back();
  merged.back() *= depth;
  return value.type().shape.vec() == merged;
}

}  // namespace

std::string heads_refusal(const ir::Node& node) {
  if (node.is("attention") && node.inputs.size() > 3) return "a mask";
  const auto leading = [&](std::size_t i) {
    Ints sizes = node.inputs[i].type().shape.vec();
    sizes.pop_back();
    sizes.erase(sizes.end() - (node.attrs.flag("heads_inside") ? 2 : 1));
    return sizes;
  };
  if (leading(0) != leading(1) || leading(0) != leading(2)) return "heads that broadcast";
  for (const ir::Value& input : node.inputs)
    if (input.type().shape.numel() == 0) return "an empty tensor";
  return "";
}

std::optional<JoinedHeads> joined_after(const Site& site) {
  JoinedHeads joined;
  if (!site.node().attrs.flag("heads_inside")) return std::nullopt;
  for (int o = 0; o < 3; ++o) {
    const auto readers = readers_of(site, {site.root(), o});
    if (!readers || readers->size() != 1) return std::nullopt;
    const auto& [concat, input, value] = readers->front();
    if (!concat->is("concat") || concat->inputs.size() != 3 || (o > 0 && concat != joined.concat)) return std::nullopt;
    if (!is_columns_of(value, {site.root(), o})) return std::nullopt;
    if (concat->attrs.integer("axis") != value.type().shape.rank() - 1) return std::nullopt;
    joined.concat = concat;
    for (int before = 0; before < input; ++before)
      joined.columns[static_cast<std::size_t>(o)] +=
          concat->inputs[static_cast<std::size_t>(before)].type().shape.back();
  }
  return joined;
}

Port part_of(const Port& whole, const TensorType& type) {
  Port part{type, whole.layout, nullptr};
  part.layout.strides.back() = type.shape.back();
  part.layout.strides.push_back(1);
  return part;
}

}  // namespace varve::backend
