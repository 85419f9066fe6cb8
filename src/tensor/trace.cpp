#include "tensor/trace.h"

#include <algorithm>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "base/text.h"
#include "ir/lineage.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve {
namespace {
thread_local Trace* current_trace = nullptr;
thread_local GradientScope* current_gradient = nullptr;
thread_local MapScope* current_map = nullptr;
thread_local const char* current_region = nullptr;
thread_local std::vector<ir::NodePtr> kept;  // evaluated inside a gradient scope
}  // namespace

Trace::Trace() : outer_(std::exchange(current_trace, this)) {}
Trace::~Trace() { current_trace = outer_; }
Trace* Trace::current() { return current_trace; }

RegionScope::RegionScope(const char* op) : outer_(std::exchange(current_region, op)) {}
RegionScope::~RegionScope() { current_region = outer_; }
const char* RegionScope::current() { return current_region; }

bool tracing() { return current_trace != nullptr || current_region != nullptr; }

Scope::Scope(const std::string& name, int rank) {
  ir::Origin origin = ir::OriginScope::current();
  if (!name.empty()) origin.path += (origin.path.empty() ? "" : ".") + name;
  if (rank != -1) origin.rank = rank == kEveryRank ? -1 : rank;
  held_ = std::make_shared<ir::OriginScope>(std::move(origin));
}
Scope::~Scope() = default;
const std::string& Scope::path() { return ir::OriginScope::current().path; }
int Scope::rank() { return ir::OriginScope::current().rank; }

Trace::Use& Trace::use(const std::shared_ptr<Variable::State>& variable) {
  for (Use& use : uses_)
    if (use.variable == variable) return use;
  ir::NodePtr input = ir::input_node(variable->type, variable->name);
  uses_.push_back({variable, input, Tensor(ir::Value{input, 0})});
  return uses_.back();
}

Tensor Trace::whole(const std::shared_ptr<Variable::State>& variable) {
  const Tensor part = variable->form->kept.value();
  for (const Whole& known : wholes_)
    if (known.variable == variable && known.kept.value() == part.value()) return known.made;
  wholes_.push_back({variable, part, variable->form->whole(part)});
  return wholes_.back().made;
}

GradientScope::GradientScope(std::vector<Variable> wrt) : wrt_(std::move(wrt)), outer_(current_gradient) {
  for (Variable& variable : wrt_)
    if (variable.state() && variable.state()->form && variable.state()->form->axis >= 0)
      variable = Variable(variable.state()->form->kept);
  for (std::size_t i = 0; i < wrt_.size(); ++i) {
    std::size_t first = 0;  // a variable listed twice is one
    while (first < i && !wrt_[first].same(wrt_[i])) ++first;
    aliases_.push_back(first < i ? aliases_[first] : identity(wrt_[i].value()));
  }
  now_ = aliases_;
  current_gradient = this;
}

GradientScope::~GradientScope() {
  current_gradient = outer_;
  if (outer_) return;
  const std::lock_guard lock(ir::graph_mutex());
  std::erase_if(kept, [](const ir::NodePtr& node) { return node->kept; });
  ir::forget_inputs(kept);
  kept.clear();
}

GradientScope* GradientScope::current() { return current_gradient; }

Tensor* GradientScope::find(const std::shared_ptr<Variable::State>& variable) {
  for (std::size_t i = 0; i < wrt_.size(); ++i)
    if (wrt_[i].state() == variable) return &now_[i];
  return nullptr;
}

// What stands between a variable and its slot on this thread, innermost first.
struct VariableScopes {
  static const Tensor* find(const std::shared_ptr<Variable::State>& variable) {
    for (GradientScope* scope = current_gradient; scope; scope = scope->outer_)
      if (const Tensor* now = scope->find(variable)) return now;
    return nullptr;
  }
  static void assign(const std::shared_ptr<Variable::State>& variable, const Tensor& value) {
    for (GradientScope* scope = current_gradient; scope; scope = scope->outer_)
      if (Tensor* now = scope->find(variable)) *now = value;
  }
};

MapScope::MapScope(std::vector<ir::NodePtr> examples)
    : examples_(std::move(examples)), outer_(std::exchange(current_map, this)) {}
MapScope::~MapScope() { current_map = outer_; }
bool MapScope::active() { return current_map != nullptr; }

bool MapScope::is_example(const ir::Node& node) const {
  for (const MapScope* scope = this; scope; scope = scope->outer_)
    for (const ir::NodePtr& example : scope->examples_)
      if (example.get() == &node) return true;
  return false;
}

void MapScope::check_assignment(const std::string& variable, const Tensor& value) {
  if (!current_map) return;
  std::vector<const ir::Node*> stack{value.node().get()};
  std::unordered_set<const ir::Node*> seen;
  while (!stack.empty()) {
    const ir::Node* node = stack.back();
    stack.pop_back();
    if (!seen.insert(node).second) continue;
    if (current_map->is_example(*node))
      throw Error(cat("vmap: variable '", variable,
                      "' is assigned a value that differs from example to example. Return "
                      "it from the mapped function instead; layers that keep statistics: call them for inference."));
    for (const ir::Value& input : node->inputs) stack.push_back(input.node.get());
  }
}

void keep_for_gradient(const ir::NodePtr& node) { kept.push_back(node); }

void spoil(Variable::State& state, const std::string& why) {
  std::atomic_store(&state.spoilt, std::make_shared<const std::string>(why));
}

const Tensor& plain_value(Variable::State& state) {
  if (const std::shared_ptr<const std::string> why = std::atomic_load(&state.spoilt))
    throw Error(
        cat("variable '", state.name, "' was left half-way by a step that failed: ", *why,
            "\n  Assign it a value (load a checkpoint, or build the model anew), or call accept() on it to go on "
            "with what it holds."));
  if (state.packed) {
    auto array = ir::new_array(state.type);
    state.layout->unpack(state.packed->data(), array->storage->data());
    state.held = Tensor(ir::Value{ir::constant_node(array), 0});
    state.packed = nullptr;
    state.layout = nullptr;
  }
  return state.held;
}

Variable::Variable(std::string name, const Tensor& initial, bool trainable) : state_(std::make_shared<State>()) {
  if (!initial.defined()) throw Error(cat("variable '", name, "': the initial value is undefined."));
  state_->name = std::move(name);
  state_->trainable = trainable;
  state_->type = initial.type();
  state_->held = initial;
  state_->local = Trace::current() != nullptr;
}

const std::string& Variable::name() const { return state_->name; }
void Variable::rename(const std::string& name) { state_->name = name; }
bool Variable::trainable() const { return state_->trainable; }
void Variable::set_trainable(bool trainable) { state_->trainable = trainable; }
TensorType Variable::type() const { return state_->type; }
const Shape& Variable::shape() const { return state_->type.shape; }

Tensor Variable::value() const {
  if (!state_) throw Error("an empty Variable was read. Give it a name and a first value.");
  if (const Tensor* now = VariableScopes::find(state_)) return *now;
  if (state_->form) {
    Trace* trace = Trace::current();
    return trace ? trace->whole(state_) : state_->form->whole(state_->form->kept.value());
  }
  if (Trace* trace = Trace::current(); trace && !state_->local) return trace->use(state_).current;
  const std::lock_guard lock(state_->mutex);
  return plain_value(*state_);
}

void Variable::accept() {
  if (!state_) throw Error("an empty Variable was accepted. Give it a name and a first value.");
  std::atomic_store(&state_->spoilt, {});
  if (state_->form) Variable(state_->form->kept).accept();
}

void Variable::assign(const Tensor& value) {
  if (!state_) throw Error("an empty Variable was assigned. Give it a name and a first value.");
  if (value.type() != state_->type)
    throw Error(cat("variable '", state_->name, "': expected ", state_->type.str(), ", got ", value.type().str(), "."));
  MapScope::check_assignment(state_->name, value);
  if (RegionScope::current())
    throw Error(cat("variable '", state_->name, "' is assigned inside a function of ", RegionScope::current(),
                    ", which runs any number of times. Return the new value, and assign what ", RegionScope::current(),
                    " gives."));
  VariableScopes::assign(state_, value);
  if (state_->form) return Variable(state_->form->kept).assign(state_->form->part(value));
  if (Trace* trace = Trace::current(); trace && !state_->local) {
    Trace::Use& use = trace->use(state_);
    use.current = value;
    use.assigned = true;
    return;
  }
  Tensor before;  // given back after the mutex: the last handle may run a user's release function
  const std::lock_guard lock(state_->mutex);
  before = std::exchange(state_->held, value);
  state_->packed = nullptr;
  state_->layout = nullptr;
  std::atomic_store(&state_->spoilt, {});
  ++state_->version;
}

}  // namespace varve
