// Evaluation of lazy tensors: the pending graph becomes a program, kept by its structure.
#include <iostream>
#include <list>
#include <optional>
#include <unordered_map>

#include "backend/device.h"
#include "base/levers.h"
#include "base/text.h"
#include "base/threads.h"
#include "batching/join.h"
#include "compiler/pipeline.h"
#include "ir/lineage.h"
#include "runtime/devices.h"
#include "runtime/engine.h"
#include "runtime/execution.h"
#include "runtime/pending.h"
#include "runtime/piecewise.h"
#include "runtime/residence.h"
#include "tensor/evaluator.h"
#include "tensor/trace.h"

namespace varve {
namespace runtime {
namespace {

struct CachedProgram {
  ir::Fingerprint key;
  std::shared_ptr<const compiler::Plan> plan;
  std::unique_ptr<Execution> execution;
  bool tiny = false;
};

// Least recently used goes first. Arenas are counted: a changing batch size must not pile them up.
class ProgramCache {
 public:
  CachedProgram* find(const ir::Fingerprint& key) {
    const auto known = index_.find(key);
    if (known == index_.end()) return nullptr;
    order_.splice(order_.begin(), order_, known->second);
    return &order_.front();
  }

  CachedProgram& make(const ir::Fingerprint& key, const Pending& pending, const backend::Backend& backend) {
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
  std::unordered_map<ir::Fingerprint, std::list<CachedProgram>::iterator, ir::FingerprintHash> index_;
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

void publish(const Pending& pending, const std::vector<std::shared_ptr<const ir::Array>>& arrays) {
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const ir::Value& output = pending.outputs[i];
    output.node->slots[static_cast<std::size_t>(output.index)].publish(arrays[i]);
  }
}

Piecewise& pieces() {
  static auto& all = *new Piecewise;  // never destroyed, as the programs
  return all;
}

// Whether a structure came so often that it is worth a program of its own. Which may round differently: not where bits
// must not depend on what was met before.
bool is_worth_a_program(const ir::Fingerprint& key) {
  constexpr std::size_t kMostKept = 1 << 14;
  constexpr int kOften = 8;
  if (deterministic()) return false;
  static auto& meetings = *new std::unordered_map<ir::Fingerprint, int, ir::FingerprintHash>;
  if (meetings.size() >= kMostKept) meetings.clear();
  return ++meetings[key] >= kOften;
}

void run_piecewise(const Pending& pending, const backend::Backend& backend, const std::string& where) {
  publish(pending, pieces().run(pending, backend, where));
  if (!explains()) return;
  const Piecewise::Report& report = pieces().report();
  std::cerr << cat("-- lazy, call by call, since ",
                   deterministic() ? "bits must not depend on what was met before" : "the structure was not met often",
                   ": ", report.calls, " calls, ", report.moves, " that only moved, ", report.compiled,
                   " small programs made, ", pieces().size(), " kept\n")
            << std::flush;
}

// Computes what is pending, by a program that is kept or piece by piece.
void run(const Pending& pending, const std::string& where) {
  const backend::Backend& backend = backend_named(where);
  if (!backend.executes())
    throw Error(
        cat("device '", where, "' compiles but does not compute: nothing can be read on it. Use set_device(\"cpu\")."));
  const ir::Fingerprint key = fingerprint(pending, where);
  CachedProgram* program = cache().find(key);
  if (!program && pending.joined && !is_worth_a_program(key)) return run_piecewise(pending, backend, where);
  run(pending, program ? *program : cache().make(key, pending, backend));
}

void compute(const std::vector<ir::Value>& values);

// Equal calls that were recorded side by side and are read without a gradient. Not where results are large: each would
// keep the memory of all.
bool compute_joined(const Pending& pending) {
  constexpr std::size_t kLeastNodes = 64, kMostBytes = 16 << 10;
  if (pending.joined || pending.nodes.size() < kLeastNodes || !lever("joining")) return false;
  for (const ir::Value& output : pending.outputs)
    if (output.type().bytes() > kMostBytes) return false;
  const std::optional<Joined> joined = join_equal_calls(pending.outputs, {});
  if (!joined || joined->calls * 3 > joined->nodes) return false;
  compute(joined->values);
  for (std::size_t i = 0; i < joined->values.size(); ++i) {
    const ir::Value &value = joined->values[i], &output = pending.outputs[i];
    output.node->slots[static_cast<std::size_t>(output.index)].publish(
        value.node->slots[static_cast<std::size_t>(value.index)].value());
  }
  return true;
}

// The values, and all that is held and computed with them.
void compute(const std::vector<ir::Value>& values) {
  Pending pending = pending_graph(values);
  // Views first: what they make available is a leaf for the rest.
  std::vector<ir::NodePtr> done;
  for (const ir::NodePtr& node : pending.nodes)
    if (publish_view(node)) done.push_back(node);
  if (!done.empty()) {
    detach(done);
    done.clear();
    pending = pending_graph(values);
  }
  if (pending.outputs.empty()) return;
  if (pending.nodes.empty()) {  // literals alone are at hand
    for (const ir::NodePtr& scalar : pending.scalars) scalar->slots[0].publish(scalar_array(*scalar));
    return;
  }
  if (!compute_joined(pending)) run(pending, device());
  const ir::Visit visit;
  for (const ir::Value& output : pending.outputs)
    if (!visit.met(*output.node)) {
      visit.meet(*output.node, 0);
      done.push_back(output.node);
    }
  detach(done);
}

void publish_stand_ins(const ir::NodePtr& node) {
  for (std::size_t i = 0; i < node->types.size(); ++i) {
    const ir::Value& stand_in = node->stand_ins()[i];
    if (!has_value(stand_in)) compute({stand_in});
    node->slots[i].publish(stand_in.node->slots[static_cast<std::size_t>(stand_in.index)].value());
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
  pieces().clear();
}

std::shared_ptr<ir::Array> scalar_array(const ir::Node& fill) {
  auto array = ir::new_array(fill.types[0]);
  fill_scalar(fill, array->storage->data());
  return array;
}

}  // namespace runtime

void evaluate(const std::vector<ir::Value>& values) {
  const std::lock_guard lock(ir::graph_mutex());
  std::vector<ir::Value> asked;
  for (const ir::Value& value : values) asked.push_back(runtime::computed_as(value));
  runtime::compute(asked);
  std::vector<ir::NodePtr> done;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == asked[i] || runtime::has_value(values[i])) continue;
    runtime::publish_stand_ins(values[i].node);
    done.push_back(values[i].node);
  }
  runtime::detach(done);
}

}  // namespace varve
