#include "runtime/positions.h"

#include <algorithm>
#include <optional>

#include "base/text.h"

namespace varve::runtime {
namespace {

struct Source {
  const ir::Node* input = nullptr;  // null: computed
  bool whole = true;                // every element of the input is among the positions
};

bool is_whole_number_cast(const ir::Node& node) {
  return node.is("cast") && is_integer(node.inputs[0].type().dtype) && is_integer(node.types[0].dtype);
}

// Where positions come from, through operators that move elements and leave their values.
Source source_of(ir::Value value) {
  Source source;
  while (value.node->op != &ir::input_op()) {
    const ir::Node& node = *value.node;
    if (node.is("gather"))
      source.whole = false;
    else if (node.op->view)
      source.whole = source.whole && node.types[0].shape.numel() >= node.inputs[0].type().shape.numel();
    else if (!is_whole_number_cast(node))
      return {};
    value = node.inputs[0];
  }
  source.input = value.node.get();
  return source;
}

// The input whose every element is used as a position by the node, and its check. An input of the program: below both.
std::optional<PositionCheck> check_of(const ir::Graph& graph, const ir::Node& node, std::size_t arguments,
                                      std::size_t variables) {
  const std::vector<TensorType> in = ir::input_types(node);
  Positions positions = node.op->positions({*node.op, in, node.attrs});
  const Source source = source_of(node.inputs[static_cast<std::size_t>(positions.input)]);
  if (!source.input) return std::nullopt;
  std::size_t input = 0;
  while (input < arguments + variables && graph.inputs[input].get() != source.input) ++input;
  if (input == arguments + variables || (input < arguments && !source.whole)) return std::nullopt;
  return PositionCheck{input, positions.size, std::move(positions.complaint)};
}

template <class Integer>
void check(const PositionCheck& bound, const void* data, std::int64_t count) {
  const auto* positions = static_cast<const Integer*>(data);
  for (std::int64_t i = 0; i < count; ++i)
    if (positions[i] < 0 || positions[i] >= bound.size)
      throw Error(
          cat(bound.complaint, " Got ", positions[i], " at element ", i, ". Nothing was changed by this call."));
}

}  // namespace

void PositionCheck::operator()(const ir::Array& array) const {
  const std::int64_t count = array.type.shape.numel();
  if (array.type.dtype == i32) return check<std::int32_t>(*this, array.data(), count);
  if (array.type.dtype == i64) return check<std::int64_t>(*this, array.data(), count);
  std::vector<std::int64_t> wide(static_cast<std::size_t>(count));
  ir::read_elements(array, wide.data(), i64);
  check<std::int64_t>(*this, wide.data(), count);
}

PositionChecks::PositionChecks(const ir::Graph& graph, std::size_t arguments, std::size_t variables) {
  for (const ir::NodePtr& node : ir::topological(graph)) {
    whole_ = whole_ && node->regions.empty() && !node->is("check_finite");
    if (!node->op->positions) continue;
    std::optional<PositionCheck> check = check_of(graph, *node, arguments, variables);
    whole_ = whole_ && check;
    if (!check) continue;
    const bool known = std::any_of(checks_.begin(), checks_.end(), [&](const PositionCheck& other) {
      return other.input == check->input && other.size <= check->size;
    });
    if (!known) checks_.push_back(std::move(*check));
  }
}

}  // namespace varve::runtime
