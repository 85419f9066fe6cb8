// Simplification: what changes nothing goes, what is known is computed, what overflows takes its stable form.
#include <algorithm>
#include <numeric>
#include <optional>

#include "base/levers.h"
#include "base/text.h"
#include "compiler/pipeline.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve::compiler {
namespace {

using ir::NodePtr;
using ir::Value;
using Values = std::vector<Value>;  // empty: no rule applies

Tensor as_tensor(const Value& value) { return Tensor(value); }
Values one(const Tensor& tensor) { return {tensor.value()}; }

std::optional<double> literal(const Value& value) {
  if (!value.node->is("fill")) return std::nullopt;
  return value.node->attrs.number("value");
}
bool is_literal(const Value& value, double number) { return literal(value) == number; }

Values instead(const ir::Node& node, const Value& value) {
  if (value.type() != node.types[0]) return {};
  return {value};
}

// ---- nodes that stand for their inputs

Values transparent(const ir::Node& node) {
  if (node.is("identity") || node.is("stop_gradient")) return {node.inputs[0]};
  // In a world of one rank.
  if (node.op->family == "collective" && node.attrs.has("ranks") && node.attrs.integer("ranks") == 1 &&
      lever("lone-rank")) {
    if (node.is("all_gather")) return one(reshape(as_tensor(node.inputs[0]), node.types[0].shape));
    return {node.inputs[0]};
  }
  if (node.is("with_gradient")) {
    const auto first = static_cast<std::ptrdiff_t>(node.attrs.integer("inputs"));
    return {node.inputs.begin() + first, node.inputs.end()};
  }
  return {};
}

// ---- nothing to compute

bool is_empty(const TensorType& type) { return type.shape.numel() == 0; }

Values empty(const ir::Node& node) {
  if (node.inputs.empty() || node.is("exchanged")) return {};  // that waits for messages, whatever else it gives
  if (std::all_of(node.types.begin(), node.types.end(), is_empty)) {
    Values values;
    for (const TensorType& type : node.types) values.push_back(full(type.shape, 0, type.dtype).value());
    return values;
  }
  // A reduction of nothing is its neutral element.
  if (!node.is("sum") && !node.is("prod")) return {};
  if (!is_empty(node.inputs[0].type())) return {};
  return one(full(node.types[0].shape, node.is("sum") ? 0 : 1, node.types[0].dtype));
}

// ---- algebra

Values arithmetic(const ir::Node& node) {
  const Values& in = node.inputs;
  if (node.is("add")) {
    if (is_literal(in[1], 0)) return instead(node, in[0]);
    if (is_literal(in[0], 0)) return instead(node, in[1]);
  }
  if (node.is("subtract") && is_literal(in[1], 0)) return instead(node, in[0]);
  if (node.is("multiply")) {
    if (is_literal(in[1], 1)) return instead(node, in[0]);
    if (is_literal(in[0], 1)) return instead(node, in[1]);
  }
  if (node.is("divide") && is_literal(in[1], 1)) return instead(node, in[0]);
  if (node.is("power") && is_literal(in[1], 1)) return instead(node, in[0]);
  if (node.is("power") && is_literal(in[1], 2) && in[0].type() == node.types[0]) return one(square(as_tensor(in[0])));
  if (node.is("negative") && in[0].node->is("negative")) return instead(node, in[0].node->inputs[0]);
  return {};
}

// ---- constants: a formula of literals is a literal

Values folded(const ir::Node& node) {
  if (!node.op->elementwise() || node.types.size() != 1 || node.inputs.empty()) return {};
  if (!is_floating(node.types[0].dtype) || !is_floating(node.inputs[0].type().dtype)) return {};
  std::vector<double> numbers;
  for (const Value& input : node.inputs) {
    const std::optional<double> number = literal(input);
    if (!number) return {};
    numbers.push_back(*number);
  }
  const expr::Code code = expr::flatten(static_cast<int>(numbers.size()), node.op->exprs);
  return one(full(node.types[0].shape, expr::evaluate(code, numbers.data()), node.types[0].dtype));
}

// ---- stable forms

Values stable(const ir::Node& node) {
  const Values& in = node.inputs;
  if (node.is("log")) {
    const ir::Node& inner = *in[0].node;
    if (inner.is("softmax")) return one(log_softmax(as_tensor(inner.inputs[0]), inner.attrs.integer("axis")));
    if (inner.is("sigmoid")) return one(log_sigmoid(as_tensor(inner.inputs[0])));
    if (inner.is("add") && inner.types[0].shape == node.types[0].shape) {
      for (const int which : {0, 1}) {
        const Value& other = inner.inputs[static_cast<std::size_t>(which)];
        if (!is_literal(inner.inputs[static_cast<std::size_t>(1 - which)], 1) || other.type() != inner.types[0])
          continue;
        if (other.node->is("exp")) return one(softplus(as_tensor(other.node->inputs[0])));
        return one(log1p(as_tensor(other)));
      }
    }
  }
  if (node.is("subtract") && in[0].node->is("exp") && is_literal(in[1], 1)) {
    if (in[0].type() == node.types[0]) return one(expm1(as_tensor(in[0].node->inputs[0])));
  }
  if (node.is("divide") && is_literal(in[0], 1) && in[1].node->is("sqrt") && in[1].type() == node.types[0])
    return one(rsqrt(as_tensor(in[1].node->inputs[0])));
  return {};
}

// ---- shapes

std::vector<std::int64_t> composed(const Ints& inner, const Ints& outer) {
  std::vector<std::int64_t> order;
  for (const std::int64_t axis : outer) order.push_back(inner[static_cast<std::size_t>(axis)]);
  return order;
}

bool is_identity(const Ints& order) {
  for (std::size_t i = 0; i < order.size(); ++i)
    if (order[i] != static_cast<std::int64_t>(i)) return false;
  return true;
}

Values shapes(const ir::Node& node) {
  const Values& in = node.inputs;
  if (node.is("cast")) {
    if (in[0].type() == node.types[0]) return {in[0]};
    if (const auto number = literal(in[0]);
        number && is_floating(in[0].type().dtype) && is_floating(node.types[0].dtype))
      return one(full(node.types[0].shape, *number, node.types[0].dtype));
  }
  if (node.is("reshape")) {
    if (in[0].type() == node.types[0]) return {in[0]};
    if (in[0].node->is("reshape")) return one(reshape(as_tensor(in[0].node->inputs[0]), node.types[0].shape));
    if (const auto number = literal(in[0]); number && is_floating(node.types[0].dtype))
      return one(full(node.types[0].shape, *number, node.types[0].dtype));
  }
  if (node.is("broadcast_to")) {
    if (in[0].type() == node.types[0]) return {in[0]};
    if (const auto number = literal(in[0]); number && is_floating(node.types[0].dtype))
      return one(full(node.types[0].shape, *number, node.types[0].dtype));
  }
  if (node.is("transpose")) {
    const Ints& order = node.attrs.ints("order");
    if (is_identity(order)) return {in[0]};
    if (in[0].node->is("transpose")) {
      return one(transpose(as_tensor(in[0].node->inputs[0]), composed(in[0].node->attrs.ints("order"), order)));
    }
  }
  if (node.is("sum") && node.attrs.ints("axes").empty() && in[0].type() == node.types[0]) return {in[0]};
  return {};
}

// Elementwise operators broadcast by themselves: an input need not be expanded first.
Values unexpanded(const NodePtr& node) {
  if (!node->op->elementwise() || node->inputs.size() < 2) return {};
  Values inputs = node->inputs;
  bool changed = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Value smaller = inputs[i];
    if (smaller.node->is("broadcast_to"))
      smaller = smaller.node->inputs[0];
    else if (literal(smaller) && smaller.type().shape.rank() > 0 && is_floating(smaller.type().dtype))
      smaller = full({}, *literal(smaller), smaller.type().dtype).value();
    else
      continue;
    Shape shape;
    for (std::size_t j = 0; j < inputs.size(); ++j)
      shape = broadcast(shape, (j == i ? smaller : inputs[j]).type().shape, "simplify");
    if (shape != node->types[0].shape) continue;
    inputs[i] = smaller;
    changed = true;
  }
  if (!changed) return {};
  const NodePtr replacement = ir::with_inputs(*node, std::move(inputs));
  Values values;
  for (int i = 0; i < static_cast<int>(node->types.size()); ++i) values.push_back({replacement, i});
  return values;
}

// A product reads a transposed matrix as it lies.
Values untransposed(const ir::Node& node) {
  if (!node.is("matmul")) return {};
  Values inputs = node.inputs;
  bool flags[2] = {node.attrs.flag("transpose_a"), node.attrs.flag("transpose_b")};
  bool changed = false;
  for (const int i : {0, 1}) {
    const ir::Node& inner = *inputs[static_cast<std::size_t>(i)].node;
    if (!inner.is("transpose")) continue;
    Ints order = inner.attrs.ints("order");
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    if (!is_identity(order)) continue;
    inputs[static_cast<std::size_t>(i)] = inner.inputs[0];
    flags[i] = !flags[i];
    changed = true;
  }
  if (!changed) return {};
  return values_of(record(*node.op, tensors_of(inputs), {{"transpose_a", flags[0]}, {"transpose_b", flags[1]}}));
}

// ---- the gradient of a tensor that was split: windows that fill it side by side are its parts in a row

struct Windows {
  std::vector<Value> parts;         // the unslices
  std::vector<std::int64_t> begin;  // of each along the axis
  int axis = -1;                    // the one along which they are smaller than the whole
  int adds = 0;                     // between them
};

constexpr int kMostAdds = 64;  // a long unrolled loop would be walked again at every one of its sums

bool add_window(const Value& value, Windows& windows) {
  if (value.node->is("add"))
    return ++windows.adds < kMostAdds && value.node->inputs[0].type() == value.type() &&
           value.node->inputs[1].type() == value.type() && add_window(value.node->inputs[0], windows) &&
           add_window(value.node->inputs[1], windows);
  if (!value.node->is("unslice")) return false;
  const Shape &whole = value.type().shape, &part = value.node->inputs[0].type().shape;
  for (int axis = 0; axis < whole.rank(); ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    if (part[axis] == whole[axis]) continue;
    if (value.node->attrs.ints("step")[a] != 1 || (windows.axis >= 0 && windows.axis != axis)) return false;
    windows.axis = axis;
  }
  if (windows.axis < 0) return false;
  windows.parts.push_back(value);
  windows.begin.push_back(value.node->attrs.ints("begin")[static_cast<std::size_t>(windows.axis)]);
  return true;
}

Values joined(const ir::Node& node) {
  Windows windows;
  if (!node.is("add") || !(add_window(node.inputs[0], windows) && add_window(node.inputs[1], windows))) return {};
  if (node.inputs[0].type() != node.types[0] || node.inputs[1].type() != node.types[0]) return {};
  std::vector<std::size_t> order(windows.parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return windows.begin[a] < windows.begin[b]; });
  std::int64_t filled = 0;
  std::vector<Tensor> parts;
  for (const std::size_t i : order) {
    if (windows.begin[i] != filled) return {};
    parts.push_back(as_tensor(windows.parts[i].node->inputs[0]));
    filled += parts.back().dim(windows.axis);
  }
  return filled == node.types[0].shape[windows.axis] ? one(concat(parts, windows.axis)) : Values();
}

// ---- attention reads and writes heads where a projection leaves them: the transposes around it go

// [.., T, heads, D] as [.., heads, T, D], and back.
Tensor heads_swapped(const Tensor& x) {
  Ints order(static_cast<std::size_t>(x.rank()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::swap(order[order.size() - 3], order[order.size() - 2]);
  return transpose(x, order);
}

bool has_heads_swapped(const Value& value) {
  if (!value.node->is("transpose") || value.type().shape.rank() < 3) return false;
  Ints order = value.node->attrs.ints("order");
  std::swap(order[order.size() - 3], order[order.size() - 2]);
  return is_identity(order);
}

Values heads_inside(const ir::Node& node) {
  const bool forward = node.is("attention");
  if ((!forward && !node.is("attention_grad")) || node.attrs.flag("heads_inside")) return {};
  if (!std::all_of(node.inputs.begin(), node.inputs.begin() + 3, has_heads_swapped)) return {};
  std::vector<Tensor> in = tensors_of(node.inputs);
  for (const std::size_t i : {0, 1, 2}) in[i] = heads_swapped(in[i]);
  if (!forward) in.back() = heads_swapped(in.back());  // dy
  Attrs attrs = node.attrs;
  attrs.set("heads_inside", true);
  std::vector<Tensor> out = record(*node.op, in, attrs);
  for (std::size_t i = 0; i < (forward ? 1 : out.size()); ++i) out[i] = heads_swapped(out[i]);
  return values_of(out);
}

Values simplified(const NodePtr& node) {
  for (auto rule : {transparent, empty, arithmetic, folded, stable, shapes, untransposed, joined, heads_inside}) {
    Values values = rule(*node);
    if (!values.empty()) return values;
  }
  return unexpanded(node);
}

}  // namespace

ir::Graph simplify(const ir::Graph& graph) {
  return ir::rewrite(graph, [](const NodePtr& node, const NodePtr&) {
    const ir::OriginScope origin(node->origin);
    return node->op == &ir::input_op() ? Values() : simplified(node);
  });
}

}  // namespace varve::compiler
