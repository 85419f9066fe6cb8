// Where a backend gains nothing from bf16, what is bf16 within a program is computed and kept in f32: only what comes
// in and goes out has the type it says. Roundings in between fall away, except where a program asks for just that:
// x.to(bf16).to(f32).
#include <algorithm>
#include <unordered_set>

#include "compiler/pipeline.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve::compiler {
namespace {

using ir::NodePtr;
using ir::Value;

bool is_half(const Value& value) { return value.type().dtype == bf16; }

class Widening {
 public:
  explicit Widening(const ir::Graph& graph) : graph_(graph) {}

  ir::Graph run() {
    for (const NodePtr& node : ir::topological(graph_)) {
      const ir::OriginScope origin(node->origin);
      take(node);
    }
    ir::Graph result{graph_.inputs, {}, graph_.updates};
    for (const Value& output : graph_.outputs) result.outputs.push_back(same(output));
    return result;
  }

 private:
  // The value in its own type, and in f32; each is made when somebody asks for it.
  Value same(const Value& value) {
    const auto found = same_.find(value);
    if (found != same_.end()) return found->second;
    return same_[value] = cast(Tensor(wide_.at(value)), bf16).value();
  }
  Value wide(const Value& value) {
    const auto found = wide_.find(value);
    if (found != wide_.end()) return found->second;
    return wide_[value] = cast(Tensor(same_.at(value)), f32).value();
  }
  Tensor operand(const Value& value) { return Tensor(is_half(value) ? wide(value) : same(value)); }

  static bool reads_halves(const ir::Node& node) {
    return std::any_of(node.inputs.begin(), node.inputs.end(), is_half);
  }
  // Kernels of users are for the types that they were written for; so are bodies of loops.
  static bool is_ours(const ir::Node& node) { return node.op->family != "user" && node.regions.empty(); }

  void take(const NodePtr& node) {
    const Value first{node, 0};
    if (!is_ours(*node)) return keep(node);
    if (node->is("cast") && is_half(first) && !is_half(node->inputs[0])) {
      wide_[first] = cast(Tensor(same(node->inputs[0])), f32).value();
    } else if (node->is("fill") && is_half(first)) {
      const auto rounded = static_cast<float>(bfloat16(static_cast<float>(node->attrs.number("value"))));
      wide_[first] = full(node->types[0].shape, static_cast<double>(rounded), f32).value();
    } else if (!reads_halves(*node)) {
      keep(node);
    } else if (!node->is("cast")) {
      compute(node);
    } else if (computed_.count(node->inputs[0])) {
      same_[first] = cast(Tensor(wide(node->inputs[0])), node->types[0].dtype).value();
    } else {
      keep(node);
    }
  }

  void keep(const NodePtr& node) {
    std::vector<Value> inputs;
    for (const Value& input : node->inputs) inputs.push_back(same(input));
    const NodePtr kept = inputs == node->inputs ? node : ir::with_inputs(*node, std::move(inputs));
    for (int i = 0; i < static_cast<int>(node->types.size()); ++i) same_[{node, i}] = {kept, i};
  }

  void compute(const NodePtr& node) {
    std::vector<Tensor> inputs;
    for (const Value& input : node->inputs) inputs.push_back(operand(input));
    Attrs attrs = node->attrs;
    if (attrs.has("dtype") && attrs.dtype("dtype") == bf16) attrs.set("dtype", f32);
    const std::vector<Tensor> results = record(*node->op, inputs, std::move(attrs));
    const bool moved = node->op->view && !computed_.count(node->inputs[0]);
    for (int i = 0; i < static_cast<int>(node->types.size()); ++i) {
      const Value value{node, i};
      const Tensor& result = results[static_cast<std::size_t>(i)];
      const DType dtype = value.type().dtype;
      (dtype == bf16 ? wide_ : same_)[value] = cast(result, dtype == bf16 ? f32 : dtype).value();
      if (!moved) computed_.insert(value);
    }
  }

  const ir::Graph& graph_;
  ir::ValueMap same_, wide_;
  std::unordered_set<Value, ir::ValueHash> computed_;  // not merely rounded
};

}  // namespace

ir::Graph widen(const ir::Graph& graph) { return Widening(graph).run(); }

}  // namespace varve::compiler
