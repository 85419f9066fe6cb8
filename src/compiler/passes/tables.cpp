// Rows that were taken from a table and then multiplied: where there are many more of them than the table has, the
// table is multiplied instead, and the products are taken from that. In the backward pass, gradients of equal rows are
// summed before they are multiplied, once for the weights and for the table.
//
//   table[ids]·w            =  (table·w)[ids]
//   table[ids]ᵀ·d           =  tableᵀ·D      with D = Σ d by id
//   Σ (d·wᵀ) by id          =  D·wᵀ
#include <algorithm>
#include <optional>

#include "base/levers.h"
#include "compiler/pipeline.h"
#include "ops/index.h"
#include "tensor/record.h"

namespace varve::compiler {
namespace {

using ir::NodePtr;
using ir::Value;
using Values = std::vector<Value>;  // empty: no rule applies

constexpr std::int64_t kTimes = 4;     // as many rows as the table has, to be worth it
constexpr std::int64_t kFeatures = 8;  // of a row: with fewer, a product costs no more than taking its result

Shape without_last(const Shape& shape) { return Shape(std::vector<std::int64_t>(shape.begin(), shape.end() - 1)); }

// Whether a view moves whole rows, features last.
bool keeps_rows(const ir::Node& view) {
  const Shape &from = view.inputs[0].type().shape, &to = view.types[0].shape;
  if (from.rank() == 0 || to.rank() == 0 || from.back() != to.back() || from.back() == 0) return false;
  if (view.is("reshape")) return true;
  return view.is("transpose") && view.attrs.ints("order").back() == from.rank() - 1;
}

// What a view of rows does to their ids, and undoes.
Tensor moved(const Tensor& ids, const ir::Node& view) {
  if (view.is("reshape")) return reshape(ids, without_last(view.types[0].shape));
  Ints order = view.attrs.ints("order");
  order.pop_back();
  return transpose(ids, order);
}
Tensor moved_back(const Tensor& ids, const ir::Node& view) {
  if (view.is("reshape")) return reshape(ids, without_last(view.inputs[0].type().shape));
  const Ints& order = view.attrs.ints("order");
  Ints inverse(order.size() - 1);
  for (std::size_t i = 0; i < inverse.size(); ++i)
    inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return transpose(ids, inverse);
}

struct Embedded {
  Tensor table, ids;
};

// A value that is rows of a table, through views and in any precision.
std::optional<Embedded> embedded(const Value& value) {
  const ir::Node& node = *value.node;
  if (node.is("embedding")) return Embedded{Tensor(node.inputs[0]), Tensor(node.inputs[1])};
  if (node.is("cast")) {
    std::optional<Embedded> inner = embedded(node.inputs[0]);
    if (inner) inner->table = cast(inner->table, node.types[0].dtype);
    return inner;
  }
  if ((!node.is("reshape") && !node.is("transpose")) || !keeps_rows(node)) return std::nullopt;
  std::optional<Embedded> inner = embedded(node.inputs[0]);
  if (inner) inner->ids = moved(inner->ids, node);
  return inner;
}

bool worth(const Tensor& ids, std::int64_t rows, std::int64_t features, DType dtype) {
  return is_floating(dtype) && features >= kFeatures && ids.shape().numel() >= kTimes * std::max<std::int64_t>(rows, 1);
}
bool worth(const Embedded& rows) { return worth(rows.ids, rows.table.dim(0), rows.table.dim(1), rows.table.dtype()); }

bool is_product_of_matrices(const ir::Node& node) {
  return node.is("matmul") && node.inputs[0].type().shape.rank() == 2 && node.inputs[1].type().shape.rank() == 2;
}
MatmulOptions options_of(const ir::Node& matmul) {
  return {.transpose_a = matmul.attrs.flag("transpose_a"), .transpose_b = matmul.attrs.flag("transpose_b")};
}

Values product(const ir::Node& node) {
  if (!is_product_of_matrices(node)) return {};
  const std::optional<Embedded> rows = embedded(node.inputs[0]);
  const MatmulOptions options = options_of(node);
  if (!rows || !worth(*rows)) return {};
  const Tensor other(node.inputs[1]);
  if (!options.transpose_a) return {embedding(matmul(rows->table, other, options), rows->ids).value()};
  if (options.transpose_b) return {};
  const Tensor sums = embedding_grad(other, rows->ids, rows->table.dim(0));
  return {matmul(rows->table, sums, {.transpose_a = true}).value()};
}

// A number for each feature, added to all rows.
Values bias(const ir::Node& node) {
  if (!node.is("add") || !node.inputs[0].node->is("embedding") || node.inputs[1].type().shape.rank() > 1 ||
      node.inputs[0].type() != node.types[0])
    return {};
  const Embedded rows = *embedded(node.inputs[0]);
  if (!worth(rows)) return {};
  return {embedding(rows.table + Tensor(node.inputs[1]), rows.ids).value()};
}

// Of a sum's terms or of the sum: to whole numbers that would not be the same.
bool casts_floats(const ir::Node& node) {
  return node.is("cast") && is_floating(node.types[0].dtype) && is_floating(node.inputs[0].type().dtype);
}

Values gradient(const ir::Node& node) {
  if (!node.is("embedding_grad")) return {};
  Tensor ids(node.inputs[1]);
  Value d = node.inputs[0];
  while (casts_floats(*d.node) || ((d.node->is("reshape") || d.node->is("transpose")) && keeps_rows(*d.node))) {
    if (!d.node->is("cast")) ids = moved_back(ids, *d.node);
    d = d.node->inputs[0];
  }
  const ir::Node& inner = *d.node;
  const std::int64_t rows = node.attrs.integer("rows");
  if (!is_product_of_matrices(inner) || options_of(inner).transpose_a) return {};
  if (!worth(ids, rows, d.type().shape.back(), d.type().dtype)) return {};
  const Tensor sums = embedding_grad(Tensor(inner.inputs[0]), ids, rows);
  return {cast(matmul(sums, Tensor(inner.inputs[1]), options_of(inner)), node.types[0].dtype).value()};
}

}  // namespace

ir::Graph multiply_tables(const ir::Graph& graph) {
  if (!lever("tables")) return graph;
  return ir::rewrite(graph, [](const NodePtr& node, const NodePtr&) {
    const ir::OriginScope origin(node->origin);
    for (auto rule : {product, bias, gradient}) {
      Values values = rule(*node);
      if (!values.empty()) return values;
    }
    return Values();
  });
}

}  // namespace varve::compiler
