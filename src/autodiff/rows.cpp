// Gradients of tables as the rows that were read.
#include <mutex>

#include "tensor/record.h"
#include "varve/autodiff.h"
#include "varve/ops.h"

namespace varve {
namespace {

bool is_zeros(const ir::Value& value) { return value.node->is("fill") && value.node->attrs.number("value") == 0; }

Tensor in_one_line(const Tensor& indices) { return indices.rank() == 1 ? indices : indices.reshape({-1}); }

// dy [.., D] for indices [..], as [K, D].
GradientRows rows_of(const ir::Value& dy, const ir::Value& indices, const Shape& table) {
  const Tensor at = in_one_line(Tensor(indices));
  Shape shape = table;
  shape[0] = at.dim(0);
  return {at, Tensor(dy).reshape(shape), {Tensor(dy)}};
}

std::optional<std::vector<GradientRows>> parts_of(const ir::Value& gradient) {
  std::vector<GradientRows> parts;
  std::vector<ir::Value> open{gradient};
  while (!open.empty()) {
    const ir::Value value = open.back();
    open.pop_back();
    const ir::Node& node = *value.node;
    if (node.inputs.empty() || node.slots[0].value()) return std::nullopt;
    const auto& in = node.inputs;
    const Shape& shape = value.type().shape;
    if (node.is("embedding_grad")) {
      parts.push_back(rows_of(in[0], in[1], shape));
    } else if (node.is("scatter_add") && node.attrs.integer("axis") == 0 && is_zeros(in[0])) {
      parts.push_back(rows_of(in[2], in[1], shape));
    } else if (node.op == &primitive_op(expr::Prim::add) && in[0].type() == in[1].type()) {
      open.push_back(in[1]);
      open.push_back(in[0]);
    } else {
      return std::nullopt;
    }
  }
  return parts;
}

}  // namespace

std::optional<GradientRows> gradient_rows(const Tensor& gradient) {
  if (!gradient.defined() || gradient.rank() == 0) return std::nullopt;
  const std::lock_guard lock(ir::graph_mutex());
  const auto parts = parts_of(gradient.value());
  if (!parts) return std::nullopt;
  std::vector<Tensor> rows, values, from;
  for (const GradientRows& part : *parts) {
    rows.push_back(part.rows);
    values.push_back(part.values);
    from.push_back(part.from[0]);
  }
  const GradientRows all = parts->size() == 1 ? (*parts)[0] : GradientRows{concat(rows, 0), concat(values, 0), from};
  all.values.node()->companion = gradient.node()->companion;
  return all;
}

}  // namespace varve
