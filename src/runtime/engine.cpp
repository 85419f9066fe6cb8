// Evaluation of lazy tensors: the pending graph becomes a program, kept by its structure.
#include <list>
#include <unordered_map>
#include <unordered_set>

#include "backend/device.h"
#include "base/text.h"
#include "base/threads.h"
#include "compiler/pipeline.h"
#include "ir/lineage.h"
#include "runtime/devices.h"
#include "runtime/engine.h"
#include "runtime/execution.h"
#include "runtime/residence.h"
#include "tensor/evaluator.h"
#include "tensor/trace.h"

namespace varve {
namespace runtime {
namespace {

bool has_value(const ir::Value& value) {
  return value.node->slots[static_cast<std::size_t>(value.index)].value() != nullptr;
}

// A pending graph as it was recorded: nodes to compute, values to read, values to give.
struct Pending {
  std::vector<ir::NodePtr> nodes;    // inputs before users
  std::vector<ir::Value> leaves;     // values at hand, in the order of first use
  std::vector<ir::NodePtr> scalars;  // literals, given when the program runs
  std::vector<ir::Value> outputs;
  std::unordered_map<ir::Value, int, ir::ValueHash> leaf_index;
};

// A literal is read when the program runs, so that a changing rate is the same program. 0, ±1 stay: they simplify.
bool is_lifted(const ir::Node& node) {
  if (!node.is("fill") || node.types[0].shape.rank() != 0) return false;
  const double value = node.attrs.number("value");
  return value != 0 && value != 1 && value != -1;
}

class Collector {
 public:
  explicit Collector(const std::vector<ir::Value>& values) {
    for (const ir::Value& value : values)
      if (!has_value(value)) visit(value.node);
    give_outputs(values);
  }
  Pending take() { return std::move(pending_); }

 private:
  void visit(const ir::NodePtr& root) {
    if (!seen_.insert(root.get()).second) return;
    std::vector<std::pair<ir::NodePtr, std::size_t>> stack{{root, 0}};
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next == 0) check(*node);
      if (next < node->inputs.size()) {
        const ir::Value& input = node->inputs[next++];
        if (has_value(input))
          add_leaf(input);
        else if (seen_.insert(input.node.get()).second)
          stack.push_back({input.node, 0});
      } else {
        const ir::NodePtr done = node;
        stack.pop_back();
        (is_lifted(*done) ? pending_.scalars : pending_.nodes).push_back(done);
      }
    }
  }

  static void check(const ir::Node& node) {
    if (node.op == &ir::input_op())
      throw Error(cat("a tensor of a traced function was kept (", node.attrs.text("name"), ", ", node.types[0].str(),
                      ") and read after the trace ended, or while the function was mapped by vmap. Return it from the "
                      "function instead."));
  }

  void add_leaf(const ir::Value& value) {
    if (pending_.leaf_index.emplace(value, static_cast<int>(pending_.leaves.size())).second)
      pending_.leaves.push_back(value);
  }

  // What was asked for, and every other handle that is still held somewhere; a node's outputs all or none.
  void give_outputs(const std::vector<ir::Value>& values) {
    std::unordered_set<const ir::Node*> wanted;
    for (const ir::Value& value : values) wanted.insert(value.node.get());
    auto consider = [&](const ir::NodePtr& node) {
      bool held = wanted.count(node.get()) > 0;
      for (std::size_t i = 0; i < node->types.size(); ++i)
        held = held || node->slots[i].handles.load(std::memory_order_relaxed) > 0;
      if (!held) return;
      for (int i = 0; i < static_cast<int>(node->types.size()); ++i) pending_.outputs.push_back({node, i});
    };
    for (const ir::NodePtr& node : pending_.nodes) consider(node);
    for (const ir::NodePtr& node : pending_.scalars) consider(node);
  }

  Pending pending_;
  std::unordered_set<const ir::Node*> seen_;
};

// Equal for pending graphs that the same program computes.
std::string key_of(const Pending& pending, const std::string& device) {
  std::string key = cat(device, threads(), deterministic());  // kernels are prepared for a number of threads
  std::unordered_map<const ir::Node*, std::size_t> names;
  auto append_type = [&](const TensorType& type) { key += cat(static_cast<int>(type.dtype), type.shape.str()); };
  for (const ir::Value& leaf : pending.leaves) {
    const auto array = leaf.node->slots[static_cast<std::size_t>(leaf.index)].value();
    append_type(array->type);
    if (!array->contiguous()) key += cat("s", Shape(array->layout.strides).str());
  }
  for (const ir::NodePtr& scalar : pending.scalars) {
    names.emplace(scalar.get(), names.size());
    key += cat("c", static_cast<int>(scalar->types[0].dtype));
  }
  for (const ir::NodePtr& node : pending.nodes) {
    names.emplace(node.get(), names.size());
    key += cat(";", reinterpret_cast<std::uintptr_t>(node->op), "{", node->attrs.str(), "}");
    for (const ir::Value& input : node->inputs) {
      const auto leaf = pending.leaf_index.find(input);
      if (leaf != pending.leaf_index.end())
        key += cat("l", leaf->second);
      else
        key += cat("n", names.at(input.node.get()), ".", input.index);
    }
    for (const auto& region : node->regions) key += cat("[", ir::structure(*region), "]");
  }
  for (const ir::Value& output : pending.outputs) key += cat(">", names.at(output.node.get()), ".", output.index);
  return key;
}

// The pending graph with its leaves and literals as inputs.
ir::Graph graph_of(const Pending& pending) {
  ir::Graph graph;
  ir::ValueMap map;
  for (std::size_t i = 0; i < pending.leaves.size(); ++i) {
    graph.inputs.push_back(ir::input_node(pending.leaves[i].type(), cat("leaf", i)));
    map[pending.leaves[i]] = {graph.inputs.back(), 0};
  }
  for (const ir::NodePtr& scalar : pending.scalars) {
    graph.inputs.push_back(ir::input_node(scalar->types[0], "literal"));
    map[{scalar, 0}] = {graph.inputs.back(), 0};
  }
  for (const ir::NodePtr& node : pending.nodes) {
    std::vector<ir::Value> inputs;
    for (const ir::Value& input : node->inputs) inputs.push_back(map.at(input));
    const ir::NodePtr copy = ir::with_inputs(*node, std::move(inputs));
    for (int i = 0; i < static_cast<int>(node->types.size()); ++i) map[{node, i}] = {copy, i};
  }
  for (const ir::Value& output : pending.outputs) graph.outputs.push_back(map.at(output));
  return graph;
}

struct CachedProgram {
  std::string key;
  std::shared_ptr<const compiler::Plan> plan;
  std::unique_ptr<Execution> execution;
  bool tiny = false;
};

// Least recently used goes first. Arenas are counted: a changing batch size must not pile them up.
class ProgramCache {
 public:
  CachedProgram& get(const std::string& key, const Pending& pending, const backend::Backend& backend) {
    const auto known = index_.find(key);
    if (known != index_.end()) {
      order_.splice(order_.begin(), order_, known->second);
      return order_.front();
    }
    std::vector<Layout> layouts;
    for (const ir::Value& leaf : pending.leaves) {
      layouts.push_back(leaf.node->slots[static_cast<std::size_t>(leaf.index)].value()->layout);
      layouts.back().offset = 0;
    }
    layouts.resize(pending.leaves.size() + pending.scalars.size());
    const bool tiny = is_tiny(pending.nodes);
    const Alone alone(tiny);
    auto plan = compiler::compile(graph_of(pending), backend, std::move(layouts));
    if (explains()) print_explanation("lazy", *plan);
    auto execution = std::make_unique<Execution>(plan);
    order_.push_front({key, std::move(plan), std::move(execution), tiny});
    index_[key] = order_.begin();
    while (order_.size() > kMostPrograms || (order_.size() > 1 && arena_total() > kMostArenaBytes)) {
      index_.erase(order_.back().key);
      order_.pop_back();
    }
    return order_.front();
  }
  std::size_t size() const { return order_.size(); }
  void clear() {
    index_.clear();
    order_.clear();
  }

 private:
  static constexpr std::size_t kMostPrograms = 128;
  static constexpr std::size_t kMostArenaBytes = std::size_t{1} << 30;
  std::size_t arena_total() const {
    std::size_t bytes = 0;
    for (const CachedProgram& program : order_) bytes += program.execution->arena_bytes();
    return bytes;
  }
  std::list<CachedProgram> order_;
  std::unordered_map<std::string, std::list<CachedProgram>::iterator> index_;
};

// Never destroyed: at the end of a process the libraries that kernels belong to may be gone before it.
ProgramCache& cache() {
  static auto& programs = *new ProgramCache;
  return programs;
}

// A view of a value at hand is that value with other strides.
bool publish_view(const ir::NodePtr& node) {
  if (!node->op->view || !has_value(node->inputs[0])) return false;
  const auto from = node->inputs[0].node->slots[static_cast<std::size_t>(node->inputs[0].index)].value();
  const std::vector<TensorType> in = ir::input_types(*node);
  const std::optional<Layout> layout = node->op->view({*node->op, in, node->attrs}, from->layout, node->types[0]);
  if (!layout) return false;
  node->slots[0].publish(std::make_shared<ir::Array>(ir::Array{node->types[0], *layout, from->storage}));
  return true;
}

// What was computed needs its inputs no more, unless a gradient is on its way to them.
void detach(const std::vector<ir::NodePtr>& nodes) {
  std::vector<ir::NodePtr> done;
  for (const ir::NodePtr& node : nodes) {
    if (node->kept) continue;
    if (GradientScope::current())
      keep_for_gradient(node);
    else
      done.push_back(node);
  }
  ir::forget_inputs(done);
}

void run(const Pending& pending, CachedProgram& program) {
  Execution& execution = *program.execution;
  backend::Device* const device = program.plan->device;
  std::vector<std::shared_ptr<const ir::Array>> held;  // what is read stays alive during the run
  std::shared_ptr<const std::string> error;
  for (std::size_t i = 0; i < pending.leaves.size(); ++i) {
    const ir::Value& leaf = pending.leaves[i];
    held.push_back(leaf.node->slots[static_cast<std::size_t>(leaf.index)].value());
    if (held.back()->storage->error) error = held.back()->storage->error;
    execution.bind_input(static_cast<int>(i), address(*held.back(), device));
  }
  for (std::size_t i = 0; i < pending.scalars.size(); ++i) {
    held.push_back(scalar_array(*pending.scalars[i]));
    execution.bind_input(static_cast<int>(pending.leaves.size() + i), address(*held.back(), device));
  }
  std::vector<std::shared_ptr<ir::Array>> results;
  for (std::size_t i = 0; i < pending.outputs.size(); ++i) {
    results.push_back(new_array(pending.outputs[i].type(), device));
    execution.bind_output(static_cast<int>(i), address(*results.back(), device));
  }
  execution.errors().clear();
  const Alone alone(program.tiny);
  execution.run();
  if (device) {
    device->wait();
    for (const auto& array : held)  // a user's own memory may change behind our back: no copy of it is kept
      if (array->storage->release) array->storage->written_here();
  }
  // Nothing is published: what does not need the value that failed can still be read on its own.
  if (execution.errors().set()) throw Error(execution.errors().text());
  for (std::size_t i = 0; i < pending.outputs.size(); ++i) {
    results[i]->storage->error = error;
    const ir::Value& output = pending.outputs[i];
    output.node->slots[static_cast<std::size_t>(output.index)].publish(results[i]);
  }
}

}  // namespace

std::size_t cached_programs() {
  const std::lock_guard lock(ir::graph_mutex());
  return cache().size();
}

void clear_cache() {
  const std::lock_guard lock(ir::graph_mutex());
  cache().clear();
}

std::shared_ptr<ir::Array> scalar_array(const ir::Node& fill) {
  auto array = ir::new_array(fill.types[0]);
  fill_scalar(fill, array->storage->data());
  return array;
}

}  // namespace runtime

void evaluate(const std::vector<ir::Value>& values) {
  const std::lock_guard lock(ir::graph_mutex());
  runtime::Pending pending = runtime::Collector(values).take();
  // Views first: what they make available is a leaf for the rest.
  std::vector<ir::NodePtr> done;
  for (const ir::NodePtr& node : pending.nodes)
    if (runtime::publish_view(node)) done.push_back(node);
  if (!done.empty()) {
    runtime::detach(done);
    done.clear();
    pending = runtime::Collector(values).take();
  }
  if (pending.outputs.empty()) return;
  if (pending.nodes.empty()) {  // literals alone are at hand
    for (const ir::NodePtr& scalar : pending.scalars) scalar->slots[0].publish(runtime::scalar_array(*scalar));
    return;
  }
  const std::string where = device();
  const backend::Backend& backend = runtime::backend_named(where);
  if (!backend.executes())
    throw Error(
        cat("device '", where, "' compiles but does not compute: nothing can be read on it. Use set_device(\"cpu\")."));
  runtime::run(pending, runtime::cache().get(runtime::key_of(pending, where), pending, backend));
  std::unordered_set<const ir::Node*> seen;
  for (const ir::Value& output : pending.outputs)
    if (seen.insert(output.node.get()).second) done.push_back(output.node);
  runtime::detach(done);
}

}  // namespace varve
