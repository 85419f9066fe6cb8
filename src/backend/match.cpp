#include "backend/match.h"

#include <algorithm>
#include <unordered_set>

namespace varve::backend {
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

// One value for each column, repeated along all other axes.
bool is_bias(const TensorType& type, const TensorType& result) {
  const Shape& shape = type.shape;
  if (type.dtype != result.dtype || shape.rank() == 0 || shape.rank() > result.shape.rank()) return false;
  if (shape.back() != result.shape.back()) return false;
  return std::all_of(shape.begin(), shape.end() - 1, [](std::int64_t size) { return size == 1; });
}

}  // namespace

const ir::Value& behind_views(const ir::Value& value) {
  return value.node->op->view ? behind_views(value.node->inputs[0]) : value;
}

std::optional<double> number_of(const ir::Value& value) {
  if (!is_scalar(value) || !value.node->is("fill")) return std::nullopt;
  return value.node->attrs.number("value");
}

std::optional<double> number_behind(const ir::Value& value) {
  const ir::Node& made = *behind_views(value).node;
  if (!made.is("fill")) return std::nullopt;
  return made.attrs.number("value");
}

bool depends_on(const ir::Value& value, const ir::Node* node) {
  std::unordered_set<const ir::Node*> seen;
  std::vector<const ir::Node*> stack{value.node.get()};
  while (!stack.empty()) {
    const ir::Node* next = stack.back();
    stack.pop_back();
    if (next == node) return true;
    // Inputs are older than what reads them.
    if (next->id < node->id || !seen.insert(next).second) continue;
    for (const ir::Value& input : next->inputs) stack.push_back(input.node.get());
  }
  return false;
}

std::optional<std::vector<Reader>> readers_of(const Site& site, const ir::Value& value) {
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

bool is_read_only_by(const Site& site, const ir::Value& value, const std::vector<ir::NodePtr>& nodes) {
  const auto readers = readers_of(site, value);
  return readers && std::all_of(readers->begin(), readers->end(), [&](const Reader& reader) {
           return std::find(nodes.begin(), nodes.end(), reader.node) != nodes.end();
         });
}

bool is_rows_of(const ir::Value& value, const ir::Value& base, std::int64_t first, std::int64_t count) {
  const std::int64_t columns = base.type().shape.back();
  const std::optional<Layout> layout = place_in(value, base);
  return layout && value.type().shape == Shape{count, columns} && layout->offset == first * columns &&
         is_contiguous(value.type().shape, {0, layout->strides});
}

std::optional<BiasAdd> bias_after(const Site& site, const ir::Value& value) {
  const ir::NodePtr next = site.sole_user(value);
  if (!next || !next->is("add") || next->types[0] != value.type()) return std::nullopt;
  const ir::Value& bias = next->inputs[next->inputs[0] == value ? 1 : 0];
  if (bias == value || !is_bias(bias.type(), value.type())) return std::nullopt;
  return BiasAdd{next, bias};
}

ir::NodePtr dropout_after(const Site& site, const ir::Value& value) {
  const ir::NodePtr next = site.sole_user(value);
  return next && next->is("dropout") && next->inputs[0] == value ? next : nullptr;
}

void cover_dropout(Claim& claim, const ir::NodePtr& dropout) {
  claim.nodes.push_back(dropout);
  claim.inputs.insert(claim.inputs.end(), dropout->inputs.begin() + 1, dropout->inputs.end());
  claim.outputs[0] = {dropout, 0};
}

}  // namespace varve::backend
