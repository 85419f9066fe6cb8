#include "runtime/pending.h"

#include <algorithm>

#include "base/text.h"
#include "base/threads.h"
#include "tensor/trace.h"

namespace varve::runtime {

bool has_value(const ir::Value& value) {
  return value.node->slots[static_cast<std::size_t>(value.index)].value() != nullptr;
}

ir::Value computed_as(ir::Value value) {
  while (!has_value(value) && !value.node->stand_ins().empty())
    value = ir::Value(value.node->stand_ins()[static_cast<std::size_t>(value.index)]);
  return value;
}

namespace {

// A literal is read when the program runs, so that a changing rate is the same program. 0, ±1 stay: they simplify.
bool is_lifted(const ir::Node& node) {
  if (!node.inputs.empty() || !node.is("fill") || node.types[0].shape.rank() != 0) return false;
  const double value = node.attrs.number("value");
  return value != 0 && value != 1 && value != -1;
}

void check(const ir::Node& node) {
  if (node.op == &ir::input_op())
    throw Error(cat("a tensor of a traced function was kept (", node.attrs.text("name"), ", ", node.types[0].str(),
                    ") and read after the trace ended, or while the function was mapped by vmap. Return it from the "
                    "function instead."));
}

class Collector {
 public:
  explicit Collector(const std::vector<ir::Value>& values) {
    std::vector<ir::Value> asked;
    for (const ir::Value& value : values)
      if (ir::Value one = computed_as(value); !has_value(one)) asked.push_back(std::move(one));
    for (const ir::Value& value : asked) visit(value.node);
    while (!companions_.empty()) {
      const ir::NodePtr next = std::move(companions_.back());
      companions_.pop_back();
      if (!has_value({next, 0})) visit(next);
    }
    pending_.first_input.push_back(pending_.inputs.size());
    give_outputs(asked, values);
  }
  Pending take() { return std::move(pending_); }

 private:
  struct Open {
    ir::NodePtr node;
    std::size_t next = 0;
  };

  void visit(const ir::NodePtr& root) {
    if (visit_.met(*root)) return;
    open(root);
    while (!stack_.empty()) {
      Open& top = stack_.back();
      if (top.next == top.node->inputs.size()) {
        close();
        continue;
      }
      const ir::Value input = computed_as(top.node->inputs[top.next++]);
      if (!has_value(input) && !visit_.met(*input.node)) open(input.node);
    }
  }

  void open(const ir::NodePtr& node) {
    check(*node);
    visit_.meet(*node, 0);
    stack_.push_back({node});
  }

  void close() {
    const ir::NodePtr node = std::move(stack_.back().node);
    stack_.pop_back();
    if (is_lifted(*node)) {
      visit_.meet(*node, -1 - static_cast<int>(pending_.scalars.size()));
      pending_.scalars.push_back(node);
      return;
    }
    visit_.meet(*node, static_cast<int>(pending_.nodes.size()));
    pending_.joined = pending_.joined || node->joined;
    if (ir::NodePtr companion = node->companion.lock(); companion && companion->slots[0].handles.load() > 0)
      companions_.push_back(std::move(companion));
    pending_.first_input.push_back(pending_.inputs.size());
    for (const ir::Value& input : node->inputs) pending_.inputs.push_back(place(computed_as(input)));
    pending_.nodes.push_back(node);
  }

  PendingInput place(const ir::Value& value) {
    if (!has_value(value)) return made(*value.node, value.index);
    const auto [known, fresh] = leaf_index_.emplace(value, static_cast<int>(pending_.leaves.size()));
    if (fresh) pending_.leaves.push_back(value);
    return {PendingInput::Kind::leaf, known->second};
  }

  static PendingInput made(const ir::Node& node, int output) {
    if (node.place < 0) return {PendingInput::Kind::scalar, -1 - node.place};
    return {PendingInput::Kind::node, node.place, output};
  }

  // What was asked for, and every other handle that is still held somewhere; a node's outputs all or none, except where
  // nobody can ask for the others any more. `values` hold nodes too.
  void give_outputs(const std::vector<ir::Value>& asked, const std::vector<ir::Value>& values) {
    std::vector<bool> wanted(pending_.nodes.size(), false), wanted_scalars(pending_.scalars.size(), false);
    for (const ir::Value& value : asked) {
      const PendingInput where = made(*value.node, value.index);
      (where.kind == PendingInput::Kind::scalar ? wanted_scalars : wanted)[static_cast<std::size_t>(where.at)] = true;
    }
    const auto consider = [&](const ir::NodePtr& node, bool held) {
      long handles = 0;
      for (std::size_t i = 0; i < node->types.size(); ++i) handles += handles_of({node, static_cast<int>(i)});
      held = held || handles > 0;
      const bool known = held && !node->regions.empty() && is_known(node, handles, asked, values);
      for (int i = 0; held && i < static_cast<int>(node->types.size()); ++i) {
        const ir::Value output{node, i};
        if (known && handles_of(output) == 0 && std::find(asked.begin(), asked.end(), output) == asked.end()) continue;
        pending_.outputs.push_back({node, i});
        pending_.output_places.push_back(made(*node, i));
      }
    };
    for (std::size_t i = 0; i < wanted.size(); ++i) consider(pending_.nodes[i], wanted[i]);
    for (std::size_t i = 0; i < wanted_scalars.size(); ++i) consider(pending_.scalars[i], wanted_scalars[i]);
  }

  static long handles_of(const ir::Value& value) {
    return value.node->slots[static_cast<std::size_t>(value.index)].handles.load(std::memory_order_relaxed);
  }

  // Whether all that refers to it is handles and nodes that are computed now, and no gradient is on its way: of a loop,
  // the carries of all steps are then kept for nobody.
  bool is_known(const ir::NodePtr& node, long handles, const std::vector<ir::Value>& asked,
                const std::vector<ir::Value>& values) const {
    if (node->kept || GradientScope::current()) return false;
    const auto is_it = [&](const ir::Value& value) { return value.node == node; };
    long references = handles + 1;  // the list of nodes
    references += std::count_if(values.begin(), values.end(), is_it) + std::count_if(asked.begin(), asked.end(), is_it);
    for (const ir::NodePtr& user : pending_.nodes)
      references += std::count_if(user->inputs.begin(), user->inputs.end(), is_it);
    return node.use_count() == references;
  }

  Pending pending_;
  ir::Visit visit_;
  std::vector<Open> stack_;
  std::vector<ir::NodePtr> companions_;
  std::unordered_map<ir::Value, int, ir::ValueHash> leaf_index_;
};

}  // namespace

Pending pending_graph(const std::vector<ir::Value>& values) { return Collector(values).take(); }

ir::Fingerprint fingerprint(const Pending& pending, const std::string& device) {
  ir::Fingerprint print;
  print.add(device);
  print.add(static_cast<std::uint64_t>(threads()) * 2 + deterministic());  // kernels are prepared for them
  print.add(pending.leaves.size());
  for (const ir::Value& leaf : pending.leaves) {
    const auto array = leaf.node->slots[static_cast<std::size_t>(leaf.index)].value();
    print.add(array->type);
    print.add(array->contiguous() ? Ints{} : array->layout.strides);
  }
  print.add(pending.scalars.size());
  for (const ir::NodePtr& scalar : pending.scalars) print.add(static_cast<std::uint64_t>(scalar->types[0].dtype));
  const auto add_place = [&](const PendingInput& at) {
    print.add((static_cast<std::uint64_t>(at.at) << 20 | static_cast<std::uint64_t>(at.output)) * 4 +
              static_cast<std::uint64_t>(at.kind));
  };
  for (std::size_t n = 0; n < pending.nodes.size(); ++n) {
    print.add_call(*pending.nodes[n]);
    print.add(pending.input_count(n));
    for (std::size_t i = 0; i < pending.input_count(n); ++i) add_place(pending.inputs_of(n)[i]);
  }
  print.add(pending.outputs.size());
  for (const PendingInput& output : pending.output_places) add_place(output);
  return print;
}

ir::Graph graph_of(const Pending& pending) {
  ir::Graph graph;
  for (std::size_t i = 0; i < pending.leaves.size(); ++i)
    graph.inputs.push_back(ir::input_node(pending.leaves[i].type(), cat("leaf", i)));
  for (const ir::NodePtr& scalar : pending.scalars) graph.inputs.push_back(ir::input_node(scalar->types[0], "literal"));
  std::vector<ir::NodePtr> copies;
  const auto value = [&](const PendingInput& at) -> ir::Value {
    const auto index = static_cast<std::size_t>(at.at);
    if (at.kind == PendingInput::Kind::leaf) return {graph.inputs[index], 0};
    if (at.kind == PendingInput::Kind::scalar) return {graph.inputs[pending.leaves.size() + index], 0};
    return {copies[index], at.output};
  };
  for (std::size_t n = 0; n < pending.nodes.size(); ++n) {
    std::vector<ir::Value> inputs;
    for (std::size_t i = 0; i < pending.input_count(n); ++i) inputs.push_back(value(pending.inputs_of(n)[i]));
    copies.push_back(ir::with_inputs(*pending.nodes[n], std::move(inputs)));
  }
  for (const PendingInput& output : pending.output_places) graph.outputs.push_back(value(output));
  return graph;
}

}  // namespace varve::runtime
