#include <algorithm>
#include "batching/agenda.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve {
namespace {

constexpr int kLeastTerms = 4;  // of a sum that is computed at once

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
    for (const ir::Value& value : asked)
      graph_.asked.emplace(value.node.get(), visit_.met(*value.node) ? value.node->place : -1);
    find_sums();
    return std::move(graph_);
  }

 private:
  // What stays as it is: known values, literals, and the marks that gradients are taken of.
  bool is_there(const ir::Node& node) const {
    return node.inputs.empty() || node.slots[0].value() || node.op == &identity_record() || apart_.count(&node);
  }

  void visit(const ir::NodePtr& root) {
    if (visit_.met(*root) || is_there(*root)) return;
    std::vector<std::pair<ir::Node*, std::size_t>> stack;
    const auto open = [&](ir::Node* node) {
      visit_.meet(*node, -1);
      stack.push_back({node, 0});
    };
    open(root.get());
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next < node->inputs.size()) {
        ir::Node* const input = node->inputs[next++].node.get();
        if (!visit_.met(*input) && !is_there(*input)) open(input);
        continue;
      }
      close(node);
      stack.pop_back();
    }
  }

  void close(ir::Node* node) {
    // Collectives keep the order in which they were recorded: ranks agree on it. And what is empty has no rows to take.
    const bool empty = std::any_of(node->types.begin(), node->types.end(),
                                   [](const TensorType& type) { return type.shape.numel() == 0; });
    if (node->extension || !node->op->never_batched.empty() || empty) graph_.can_be_joined = false;
    visit_.meet(*node, static_cast<int>(graph_.nodes.size()));
    graph_.first_input.push_back(graph_.inputs.size());
    for (const ir::Value& input : node->inputs)
      graph_.inputs.push_back(visit_.met(*input.node) ? input.node->place : -1);
    graph_.nodes.push_back(node);
    graph_.moves.push_back(is_row_or_reshape(*node));
  }

  static bool is_plain_sum(const ir::Node& node) {
    return node.op == &primitive_op(expr::Prim::add) && node.inputs[0].type() == node.types[0] &&
           node.inputs[1].type() == node.types[0];
  }

  // A chain a + b + c + …, each sum read by the next alone, is one sum of many terms.
  void find_sums() {
    std::vector<int> readers(graph_.nodes.size(), 0), terms(graph_.nodes.size(), 0);
    for (const int input : graph_.inputs)
      if (input >= 0) ++readers[static_cast<std::size_t>(input)];
    for (const auto& [node, number] : graph_.asked)
      if (number >= 0) readers[static_cast<std::size_t>(number)] += 2;
    const auto is_inner = [&](int input) {
      const auto from = static_cast<std::size_t>(input);
      return input >= 0 && readers[from] == 1 && terms[from] > 0;
    };
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!is_plain_sum(*graph_.nodes[n])) continue;
      for (std::size_t i = 0; i < 2; ++i) {
        const int input = graph_.inputs[graph_.first_input[n] + i];
        terms[n] += is_inner(input) ? terms[static_cast<std::size_t>(input)] : 1;
      }
    }
    std::vector<bool> is_read(graph_.nodes.size(), false);  // by a sum that it is part of
    for (std::size_t n = graph_.nodes.size(); n-- > 0;) {
      if (!terms[n]) continue;
      for (std::size_t i = 0; i < 2; ++i)
        if (const int input = graph_.inputs[graph_.first_input[n] + i]; is_inner(input))
          is_read[static_cast<std::size_t>(input)] = true;
      if (!is_read[n] && terms[n] >= kLeastTerms) add_terms(n, is_inner);
    }
  }

  template <class IsInner>
  void add_terms(std::size_t end, const IsInner& is_inner) {
    std::vector<Recorded::Term>& terms = graph_.sums[static_cast<int>(end)];
    std::vector<Recorded::Term> open;
    const auto open_inputs = [&](std::size_t n) {
      for (const std::size_t i : {1, 0})  // the first is looked at first
        open.push_back({graph_.inputs[graph_.first_input[n] + i], graph_.nodes[n]->inputs[i]});
    };
    open_inputs(end);
    while (!open.empty()) {
      const Recorded::Term term = std::move(open.back());
      open.pop_back();
      if (is_inner(term.node)) {
        graph_.inside[static_cast<std::size_t>(term.node)] = true;
        open_inputs(static_cast<std::size_t>(term.node));
      } else {
        terms.push_back(term);
      }
    }
  }

  const std::unordered_set<const ir::Node*>& apart_;
  Recorded graph_;
  ir::Visit visit_;
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

int Recorded::number(const ir::Value& value) const { return asked.at(value.node.get()); }

bool is_literal(const ir::Value& value) {
  const ir::Node& node = *value.node;
  return node.inputs.empty() && !node.slots[0].value() && node.op != &ir::input_op() && node.op->pure;
}

Recorded recorded(const std::vector<ir::Value>& asked, const std::unordered_set<const ir::Node*>& apart) {
  return Recorder(apart).all(asked);
}

}  // namespace varve
