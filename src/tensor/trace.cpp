#include "tensor/trace.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/text.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve {
namespace {
thread_local Trace* current_trace = nullptr;
thread_local GradientScope* current_gradient = nullptr;
thread_local VariableLog* current_log = nullptr;
thread_local VariableReplay* current_replay = nullptr;
thread_local std::vector<ir::NodePtr> kept;  // evaluated inside a gradient scope
}  // namespace

Trace::Trace() : outer_(std::exchange(current_trace, this)) {}
Trace::~Trace() { current_trace = outer_; }
Trace* Trace::current() { return current_trace; }

bool tracing() { return current_trace != nullptr; }

Scope::Scope(const std::string& name) {
  ir::Origin origin = ir::OriginScope::current();
  if (!name.empty()) origin.path += (origin.path.empty() ? "" : ".") + name;
  held_ = std::make_shared<ir::OriginScope>(std::move(origin));
}
Scope::~Scope() = default;
const std::string& Scope::path() { return ir::OriginScope::current().path; }

Trace::Use& Trace::use(const std::shared_ptr<Variable::State>& variable) {
  for (Use& use : uses_)
    if (use.variable == variable) return use;
  ir::NodePtr input = ir::input_node(variable->type, variable->name);
  uses_.push_back({variable, input, Tensor(ir::Value{input, 0})});
  return uses_.back();
}

GradientScope::GradientScope(std::vector<Variable> wrt) : wrt_(std::move(wrt)), outer_(current_gradient) {
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
  for (const ir::NodePtr& node : kept)
    if (!node->kept) node->inputs.clear();
  kept.clear();
}

GradientScope* GradientScope::current() { return current_gradient; }

Tensor* GradientScope::find(const std::shared_ptr<Variable::State>& variable) {
  for (std::size_t i = 0; i < wrt_.size(); ++i)
    if (wrt_[i].state() == variable) return &now_[i];
  return nullptr;
}

VariableLog::VariableLog() : outer_(std::exchange(current_log, this)) {}
VariableLog::~VariableLog() { current_log = outer_; }

VariableReplay::VariableReplay(std::vector<Seen> seen)
    : now_(std::move(seen)), gradient_(current_gradient), outer_(std::exchange(current_replay, this)) {}
VariableReplay::~VariableReplay() { current_replay = outer_; }

Tensor* VariableReplay::find(const std::shared_ptr<Variable::State>& variable) {
  for (Seen& seen : now_)
    if (seen.variable == variable) return &seen.value;
  return nullptr;
}

// What stands between a variable and its slot on this thread, innermost first.
struct VariableScopes {
  static const Tensor* find(const std::shared_ptr<Variable::State>& variable) {
    GradientScope* scope = current_gradient;
    for (VariableReplay* replay = current_replay;; replay = replay->outer_) {
      for (; scope != (replay ? replay->gradient_ : nullptr); scope = scope->outer_)
        if (const Tensor* now = scope->find(variable)) return now;
      if (!replay) return nullptr;
      if (const Tensor* now = replay->find(variable)) return now;
    }
  }

  // True when the assignment ends here.
  static bool assign(const std::shared_ptr<Variable::State>& variable, const Tensor& value) {
    for (GradientScope* scope = current_gradient; scope != (current_replay ? current_replay->gradient_ : nullptr);
         scope = scope->outer_)
      if (Tensor* now = scope->find(variable)) *now = value;
    if (!current_replay) return false;
    if (Tensor* now = current_replay->find(variable))
      *now = value;
    else
      current_replay->now_.push_back({variable, value});
    return true;
  }

  static bool logs() { return current_log != nullptr; }
  static void note(const std::shared_ptr<Variable::State>& variable, const Tensor& value) {
    for (VariableLog* notes = current_log; notes; notes = notes->outer_) {
      const auto same = [&](const Seen& seen) { return seen.variable == variable; };
      if (std::none_of(notes->seen_.begin(), notes->seen_.end(), same)) notes->seen_.push_back({variable, value});
    }
  }
};

void keep_for_gradient(const ir::NodePtr& node) { kept.push_back(node); }

void unpack(Variable::State& state) {
  if (!state.packed) return;
  auto array = ir::new_array(state.type);
  state.layout->unpack(state.packed->data(), array->storage->data());
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

namespace {
const Tensor& held(Variable::State& state) {
  if (!state.spoilt.empty())
    throw Error(cat("variable '", state.name, "' holds no trustworthy value: ", state.spoilt,
                    " Assign it anew (restore a checkpoint)."));
  unpack(state);
  return state.held;
}
}  // namespace

Tensor Variable::value() const {
  if (!state_) throw Error("an empty Variable was read. Give it a name and a first value.");
  const Tensor* now = VariableScopes::find(state_);
  if (!now && Trace::current()) now = &Trace::current()->use(state_).current;
  if (!now) now = &held(*state_);
  VariableScopes::note(state_, *now);
  return *now;
}

void Variable::assign(const Tensor& value) {
  if (!state_) throw Error("an empty Variable was assigned. Give it a name and a first value.");
  if (value.type() != state_->type)
    throw Error(cat("variable '", state_->name, "': expected ", state_->type.str(), ", got ", value.type().str(), "."));
  if (VariableScopes::logs()) this->value();  // what it held before
  if (VariableScopes::assign(state_, value)) return;
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
