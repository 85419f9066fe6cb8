#include "tensor/trace.h"

#include <utility>

#include "base/text.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve {
namespace {
thread_local Trace* current_trace = nullptr;
thread_local GradientScope* current_gradient = nullptr;
thread_local std::vector<ir::NodePtr> kept;   // evaluated inside a gradient scope
}  // namespace

Trace::Trace() : outer_(std::exchange(current_trace, this)) {}
Trace::~Trace() { current_trace = outer_; }
Trace* Trace::current() { return current_trace; }

Trace::Use& Trace::use(const std::shared_ptr<Variable::State>& variable) {
  for (Use& use : uses_)
    if (use.variable == variable) return use;
  ir::NodePtr input = ir::input_node(variable->type, variable->name);
  uses_.push_back({variable, input, Tensor(ir::Value{input, 0})});
  return uses_.back();
}

GradientScope::GradientScope(std::vector<Variable> wrt) : wrt_(std::move(wrt)), outer_(current_gradient) {
  for (const Variable& variable : wrt_) aliases_.push_back(identity(variable.value()));
  now_ = aliases_;
  current_gradient = this;
}

GradientScope::~GradientScope() {
  current_gradient = outer_;
  if (outer_) return;
  const std::lock_guard lock(ir::graph_mutex());
  for (const ir::NodePtr& node : kept) node->inputs.clear();
  kept.clear();
}

GradientScope* GradientScope::current() { return current_gradient; }

Tensor* GradientScope::find(const std::shared_ptr<Variable::State>& variable) {
  for (GradientScope* scope = this; scope; scope = scope->outer_)
    for (std::size_t i = 0; i < scope->wrt_.size(); ++i)
      if (scope->wrt_[i].state() == variable) return &scope->now_[i];
  return nullptr;
}

void keep_for_gradient(const ir::NodePtr& node) { kept.push_back(node); }

void unpack(Variable::State& state) {
  if (!state.packed) return;
  auto array = ir::new_array(state.type);
  state.layout->unpack(state.packed->data, array->storage->data);
  state.held = Tensor(ir::Value{ir::constant_node(array), 0});
  state.packed = nullptr;
  state.layout = nullptr;
}

Variable::Variable(std::string name, const Tensor& initial, bool trainable) : state_(std::make_shared<State>()) {
  if (!initial.defined()) throw Error(cat("variable '", name, "': the initial value is undefined."));
  state_->name = std::move(name);
  state_->trainable = trainable;
  state_->type = initial.type();
  state_->held = initial;
}

const std::string& Variable::name() const { return state_->name; }
void Variable::rename(const std::string& name) { state_->name = name; }
bool Variable::trainable() const { return state_->trainable; }
void Variable::set_trainable(bool trainable) { state_->trainable = trainable; }
TensorType Variable::type() const { return state_->type; }
const Shape& Variable::shape() const { return state_->type.shape; }

Tensor Variable::value() const {
  if (!state_) throw Error("an empty Variable was read. Give it a name and a first value.");
  if (GradientScope* scope = GradientScope::current())
    if (const Tensor* now = scope->find(state_)) return *now;
  if (Trace* trace = Trace::current()) return trace->use(state_).current;
  if (!state_->spoilt.empty())
    throw Error(cat("variable '", state_->name, "' holds no trustworthy value: ", state_->spoilt, " Assign it anew (restore a checkpoint)."));
  unpack(*state_);
  return state_->held;
}

void Variable::assign(const Tensor& value) {
  if (!state_) throw Error("an empty Variable was assigned. Give it a name and a first value.");
  if (value.type() != state_->type)
    throw Error(cat("variable '", state_->name, "': expected ", state_->type.str(), ", got ", value.type().str(), "."));
  if (GradientScope* scope = GradientScope::current())
    if (Tensor* now = scope->find(state_)) *now = value;
  if (Trace* trace = Trace::current()) {
    Trace::Use& use = trace->use(state_);
    use.current = value;
    use.assigned = true;
    return;
  }
  state_->held = value;
  state_->packed = nullptr;
  state_->layout = nullptr;
  state_->spoilt.clear();
  ++state_->version;
}

}  // namespace varve
