#include "batching/agenda.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve {
namespace {

constexpr std::size_t kLeastTerms = 4;  // of a sum that is computed at once

const OpRecord& identity_record() {
  static const OpRecord& record = *[] {
    const Tensor any = identity(zeros({}));
    return any.node()->op;
  }();
  return record;
}

class Recorder {
 public:
  explicit Recorder(const std::unordered_set<const ir::Node*>& apart) : apart_(apart) {}

  Recorded all(const std::vector<ir::Value>& asked) {
    for (const ir::Value& value : asked) visit(value.node);
    graph_.first_input.push_back(graph_.inputs.size());
    graph_.inside.assign(graph_.nodes.size(), false);
    graph_.sums.resize(graph_.nodes.size());
    find_sums(asked);
    return std::move(graph_);
  }

 private:
  // What stays as it is: known values, literals, and the marks that gradients are taken of.
  bool is_there(const ir::Node& node) const {
    return node.inputs.empty() || node.slots[0].value() || node.op == &identity_record() || apart_.count(&node);
  }

  void visit(const ir::NodePtr& root) {
    if (visit_.met(*root) || is_there(*root)) return;
    std::vector<std::pair<ir::NodePtr, std::size_t>> stack;
    const auto open = [&](const ir::NodePtr& node) {
      visit_.meet(*node, -1);
      stack.push_back({node, 0});
    };
    open(root);
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next < node->inputs.size()) {
        const ir::NodePtr& input = node->inputs[next++].node;
        if (!visit_.met(*input) && !is_there(*input)) open(input);
        continue;
      }
      close(node);
      stack.pop_back();
    }
  }

  void close(const ir::NodePtr& node) {
    if (node->extension) graph_.can_be_joined = false;
    visit_.meet(*node, static_cast<int>(graph_.nodes.size()));
    graph_.first_input.push_back(graph_.inputs.size());
    for (const ir::Value& input : node->inputs)
      graph_.inputs.push_back(visit_.met(*input.node) ? input.node->place : -1);
    graph_.nodes.push_back(node);
  }

  static bool is_plain_sum(const ir::Node& node) {
    return node.op == &primitive_op(expr::Prim::add) && node.inputs[0].type() == node.types[0] &&
           node.inputs[1].type() == node.types[0];
  }

  // A chain a + b + c + …, each sum read by the next alone, is one sum of many terms.
  void find_sums(const std::vector<ir::Value>& asked) {
    std::vector<int> readers(graph_.nodes.size(), 0);
    for (const int input : graph_.inputs)
      if (input >= 0) ++readers[static_cast<std::size_t>(input)];
    for (const ir::Value& value : asked)
      if (visit_.met(*value.node)) readers[static_cast<std::size_t>(value.node->place)] += 2;
    std::vector<std::vector<ir::Value>> terms(graph_.nodes.size());
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const ir::Node& node = *graph_.nodes[n];
      if (!is_plain_sum(node)) continue;
      for (std::size_t i = 0; i < 2; ++i) {
        const int input = graph_.inputs[graph_.first_input[n] + i];
        const auto from = static_cast<std::size_t>(input);
        if (input >= 0 && readers[from] == 1 && !terms[from].empty()) {
          terms[n].insert(terms[n].end(), terms[from].begin(), terms[from].end());
          terms[from].clear();
          chains_.push_back({from, n});
        } else {
          terms[n].push_back(node.inputs[i]);
        }
      }
    }
    for (std::size_t n = 0; n < terms.size(); ++n)
      if (terms[n].size() >= kLeastTerms) graph_.sums[n] = std::move(terms[n]);
    for (auto link = chains_.rbegin(); link != chains_.rend(); ++link)
      graph_.inside[link->first] = !graph_.sums[link->second].empty() || graph_.inside[link->second];
  }

  const std::unordered_set<const ir::Node*>& apart_;
  Recorded graph_;
  ir::Visit visit_;
  std::vector<std::pair<std::size_t, std::size_t>> chains_;  // a sum inside, and the one that reads it
};

}  // namespace

bool is_row_or_reshape(const ir::Node& node) {
  if (node.is("reshape")) return true;
  if (!node.is("slice") || node.types[0].shape.rank() == 0 || node.types[0].shape[0] != 1) return false;
  const Ints &begin = node.attrs.ints("begin"), &step = node.attrs.ints("step");
  const Shape& from = node.inputs[0].type().shape;
  for (int a = 0; a < from.rank(); ++a)
    if (step[static_cast<std::size_t>(a)] != 1 ||
        (a > 0 && (begin[static_cast<std::size_t>(a)] != 0 || node.types[0].shape[a] != from[a])))
      return false;
  return true;
}

bool is_literal(const ir::Value& value) {
  const ir::Node& node = *value.node;
  return node.inputs.empty() && !node.slots[0].value() && node.op != &ir::input_op() && node.op->pure;
}

Recorded recorded(const std::vector<ir::Value>& asked, const std::unordered_set<const ir::Node*>& apart) {
  return Recorder(apart).all(asked);
}

}  // namespace varve
