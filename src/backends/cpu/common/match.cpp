#include "backends/cpu/common/match.h"

namespace varve::cpu {
namespace {

// Where a view of the base lies in it.
std::optional<Layout> place_in(const ir::Value& value, const ir::Value& base) {
  if (value == base) return contiguous(base.type().shape);
  if (!value.node->op->view) return std::nullopt;
  const std::optional<Layout> before = place_in(value.node->inputs[0], base);
  if (!before) return std::nullopt;
  const std::vector<TensorType> in = ir::input_types(*value.node);
  return value.node->op->view({*value.node->op, in, value.node->attrs}, *before, value.type());
}

}  // namespace

std::optional<BiasAdd> bias_after(const backend::Site& site, const ir::Value& value) {
  const ir::NodePtr next = site.sole_user(value);
  if (!next || !next->is("add") || next->types[0] != value.type()) return std::nullopt;
  const ir::Value& bias = next->inputs[next->inputs[0] == value ? 1 : 0];
  if (bias.type() != TensorType{value.type().dtype, {value.type().shape.back()}}) return std::nullopt;
  return BiasAdd{next, bias};
}

std::optional<std::vector<Reader>> readers_of(const backend::Site& site, const ir::Value& value) {
  if (site.is_output(value)) return std::nullopt;
  std::vector<Reader> all;
  for (const ir::Use& use : site.users(value)) {
    if (!use.user->op->view) {
      all.push_back({use.user, use.input, value});
      continue;
    }
    const auto further = readers_of(site, {use.user, 0});
    if (!further) return std::nullopt;
    all.insert(all.end(), further->begin(), further->end());
  }
  return all;
}

bool is_rows_of(const ir::Value& value, const ir::Value& base, std::int64_t first, std::int64_t count) {
  const std::int64_t columns = base.type().shape.back();
  const std::optional<Layout> layout = place_in(value, base);
  return layout && value.type().shape == Shape{count, columns} && layout->offset == first * columns &&
         is_contiguous(value.type().shape, {0, layout->strides});
}

const ir::Value& behind_views(const ir::Value& value) {
  return value.node->op->view ? behind_views(value.node->inputs[0]) : value;
}

}  // namespace varve::cpu
