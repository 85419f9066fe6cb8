#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>

#include "base/text.h"
#include "base/threads.h"
#include "ir/lineage.h"
#include "runtime/compiled.h"
#include "runtime/devices.h"
#include "runtime/engine.h"
#include "runtime/residence.h"

namespace varve::runtime {

std::shared_ptr<const ir::Array> array_of(const Tensor& tensor) {
  return tensor.node()->slots[static_cast<std::size_t>(tensor.index())].value();
}

bool exclusive(const Tensor& held) {
  if (held.node().use_count() > 1) return false;
  const std::shared_ptr<const ir::Array> array = array_of(held);
  if (array.use_count() != 2 || array->storage.use_count() != 1 || array->storage->release) return false;
  if (array->storage->remote() && array->storage->remote()->foreign) return false;
  std::atomic_thread_fence(std::memory_order_acquire);  // counts are read without one
  return true;
}

namespace {

Tensor copied(const Tensor& value, backend::Device* device) {
  const std::shared_ptr<const ir::Array> from = array_of(value);
  auto to = new_array(from->type, device);
  if (device)
    device->copy(address(*to, device), address(*from, device), from->type.bytes());
  else
    ir::read_elements(*from, to->storage->data(), from->type.dtype);
  return Tensor(ir::Value{ir::constant_node(to), 0});
}

// Computed, in row-major order; throws what went wrong when it was.
bool is_at_hand(const Tensor& tensor) {
  const std::shared_ptr<const ir::Array> array = array_of(tensor);
  if (!array || !array->contiguous()) return false;
  if (array->storage->error) throw Error(*array->storage->error);
  return true;
}

// The value at hand, in row-major order, wherever it lies.
std::shared_ptr<const ir::Array> contiguous_array(const Tensor& tensor) {
  tensor.eval();
  if (!array_of(tensor)->contiguous()) static_cast<void>(tensor.data());
  return array_of(tensor);
}

}  // namespace

Program::Program(Traced traced, std::vector<TensorType> args, std::string device, backend::Choices choices)
    : traced_(std::move(traced)),
      args_(std::move(args)),
      device_(std::move(device)),
      threads_(threads()),
      deterministic_(deterministic()) {
  std::vector<bool> parameters(traced_.graph.inputs.size(), false);
  for (std::size_t v = 0; v < traced_.variables.size(); ++v) parameters[args_.size() + v] = true;
  tiny_ = is_tiny(ir::topological(traced_.graph));
  const Alone alone(tiny_);
  plan_ = compiler::compile(traced_.graph, backend_named(device_), parameters, choices);
  where_ = plan_->device;
  repacked_.resize(traced_.variables.size());
  checked_.resize(traced_.variables.size());
  if (!plan_->updates.empty()) checks_ = PositionChecks(traced_.graph, args_.size(), traced_.variables.size());
  if (!plan_->updates.empty()) choose_saved();
  is_updated_.resize(traced_.variables.size());
  for (const auto& [input, output] : plan_->updates) is_updated_[static_cast<std::size_t>(input) - args_.size()] = true;
  for (std::size_t v = 0; v < traced_.variables.size(); ++v) lock_order_.push_back(v);
  std::sort(lock_order_.begin(), lock_order_.end(), [&](std::size_t a, std::size_t b) {
    return std::less<>()(traced_.variables[a].get(), traced_.variables[b].get());
  });
  traced_.graph.outputs.clear();  // the recorded nodes have done their work
  recycled_.resize(traced_.results);
}

bool Program::matches(const Tensor* const* args, std::size_t count, const std::string& device) const {
  if (count != args_.size() || device != device_ || threads() != threads_ || deterministic() != deterministic_)
    return false;
  for (std::size_t i = 0; i < count; ++i)
    if (args[i]->type() != args_[i]) return false;
  return true;
}

std::int64_t Program::peak_bytes(const Tensor* const* args) const {
  std::size_t bytes = plan_->arena_bytes;
  if (where_)  // what is not there yet goes to one of two places, so that the next batch is copied during this one
    for (std::size_t i = 0; i < args_.size(); ++i) {
      const std::shared_ptr<const ir::Array> at_hand = args[i]->node() ? array_of(*args[i]) : nullptr;
      if (!at_hand || !resides(*at_hand->storage, where_)) bytes += args_[i].bytes();
    }
  for (const backend::Port& input : plan_->inputs)
    bytes += input.type.bytes() + (input.packed ? input.packed->bytes() : 0);
  for (std::size_t o = 0; o < plan_->outputs.size(); ++o)
    if (plan_->returned[o]) bytes += plan_->outputs[o].bytes();
  return static_cast<std::int64_t>(bytes);
}

void Program::bind_args(const Tensor* const* args) {
  for (std::size_t i = 0; i < args_.size(); ++i) {
    // Evaluates, makes contiguous.
    void* const data = where_ ? argument_on_device(i, *args[i]) : const_cast<void*>(args[i]->data());
    execution_->bind_input(static_cast<int>(i), data);
    bound_.push_back(data);
  }
}

void Program::check_args(const Tensor* const* args) const {
  for (const PositionCheck& check : checks_.list()) {
    if (check.input >= args_.size()) continue;
    const std::shared_ptr<const ir::Array> array = array_of(*args[check.input]);
    if (!array->storage->is_far()) check(*array);  // what a device alone has is checked by its kernels
  }
}

void Program::bind_variable(std::size_t variable) {
  Variable::State& state = *traced_.variables[variable];
  const std::size_t input = args_.size() + variable;
  const void* data = address(*array_of(state.held), where_);
  if (plan_->inputs[input].packed) data = repacked(variable, data);
  if (plan_->written[input]) {
    if (!exclusive(state.held)) {
      state.held = copied(state.held, where_);
      data = address(*array_of(state.held), where_);
    }
    mark_written(*array_of(state.held)->storage, where_);
  } else {
    for (const PositionCheck& check : checks_.list())
      if (check.input == input && checked_[variable] != state.version + 1) check(*array_of(state.held));
    checked_[variable] = state.version + 1;
  }
  execution_->bind_input(static_cast<int>(input), const_cast<void*>(data));
  bound_[input] = const_cast<void*>(data);
}

std::shared_ptr<Variable::State> Program::try_to_bind_variables() {
  for (const std::size_t v : lock_order_) {
    Variable::State& state = *traced_.variables[v];
    std::unique_lock lock(state.mutex);
    const Tensor& value = plain_value(state);
    if (state.type != traced_.graph.inputs[args_.size() + v]->types[0])
      throw Error(cat("variable '", state.name, "' changed its type since the program was made."));
    if (!is_at_hand(value)) return traced_.variables[v];
    bind_variable(v);
    if (is_updated_[v])
      locks_.push_back(std::move(lock));
    else
      read_.push_back(state.held);
  }
  return nullptr;
}

// Variables are locked while their addresses are taken, those that the run updates until it ends. What somebody else
// must do first (compute a value that was only recorded) is done without locks.
void Program::bind_variables() {
  bound_.resize(args_.size() + traced_.variables.size());
  while (const std::shared_ptr<Variable::State> pending = try_to_bind_variables()) {
    let_go();
    Tensor value;
    {
      const std::lock_guard lock(pending->mutex);
      value = plain_value(*pending);
    }
    contiguous_array(value);
  }
}

void Program::let_go() {
  locks_.clear();
  read_.clear();
}

// The parameter in the layout that the program reads, packed anew when the variable was assigned since.
const void* Program::repacked(std::size_t variable, const void* data) {
  const ir::PackedLayout& layout = *plan_->inputs[args_.size() + variable].packed;
  Repacked& copy = repacked_[variable];
  const std::uint64_t version = traced_.variables[variable]->version;
  if (!copy.storage)
    copy.storage = ir::new_storage(layout.bytes());
  else if (copy.version == version)
    return copy.storage->data();
  layout.pack(data, copy.storage->data());
  copy.version = version;
  return copy.storage->data();
}

// A tensor of this result's type that nobody holds any more, or a new one.
Tensor& Program::fresh_result(std::size_t output) {
  constexpr std::size_t kMostKept = 4;
  std::vector<Tensor>& kept = recycled_[output];
  for (Tensor& tensor : kept)
    if (exclusive(tensor)) return tensor;
  if (kept.size() == kMostKept) kept.erase(kept.begin());
  kept.emplace_back(ir::Value{ir::constant_node(ir::new_array(plan_->outputs[output])), 0});
  return kept.back();
}

void Program::bind_results(std::vector<Tensor>& results) {
  if (where_) return bind_results_on_device(results);
  results.resize(traced_.results);
  for (std::size_t o = 0; o < traced_.results; ++o) {
    Tensor& result = fresh_result(o);
    const std::shared_ptr<const ir::Array> array = array_of(result);
    array->storage->error = nullptr;
    execution_->bind_output(static_cast<int>(o), array->storage->data());
    results[o] = result;
  }
}

void Program::choose_saved() {
  constexpr std::size_t kSmall = 64 << 10;  // counters and statistics
  if (where_ || checks_.whole()) return;
  for (const auto& [input, output] : plan_->updates)
    if (const std::size_t bytes = plan_->inputs[static_cast<std::size_t>(input)].type.bytes(); bytes <= kSmall)
      saved_.push_back({static_cast<std::size_t>(input) - args_.size(), std::vector<std::byte>(bytes)});
}

void Program::save() {
  for (Saved& saved : saved_)
    std::memcpy(saved.bytes.data(), array_of(traced_.variables[saved.variable]->held)->data(), saved.bytes.size());
}

bool Program::bring_back(std::size_t variable) {
  for (const Saved& saved : saved_)
    if (saved.variable == variable) {
      std::memcpy(array_of(traced_.variables[variable]->held)->storage->data(), saved.bytes.data(), saved.bytes.size());
      return true;
    }
  return false;
}

void Program::spoil(const std::string& why, std::size_t steps) {
  for (const auto& [input, output] : plan_->updates) {
    const std::size_t variable = static_cast<std::size_t>(input) - args_.size();
    if (execution_->writes(input, steps) && !bring_back(variable)) varve::spoil(*traced_.variables[variable], why);
  }
}

void Program::finish(std::vector<Tensor>& results) {
  for (const auto& [input, output] : plan_->updates)
    ++traced_.variables[static_cast<std::size_t>(input) - args_.size()]->version;
  if (where_ || !execution_->errors().set()) return;  // a device is still at work: readers will hear
  const auto error = std::make_shared<const std::string>(execution_->errors().text());
  for (Tensor& result : results) array_of(result)->storage->error = error;
  spoil(*error, execution_->steps_run());
}

// A gradient cannot flow through results into what they were computed from: who asks for it is told, not given zeros.
void Program::note_lineage(const Tensor* const* args, std::vector<Tensor>& results) {
  if (std::none_of(results.begin(), results.end(), [](const Tensor& r) { return is_floating(r.dtype()); })) return;
  for (std::size_t i = 0; i < args_.size(); ++i) lineages_.add(args[i]->node());
  for (std::size_t v = 0; v < traced_.variables.size(); ++v)
    if (is_updated_[v]) lineages_.add(traced_.variables[v]->held.node());
  for (const Tensor& variable : read_) lineages_.add(variable.node());
  const std::shared_ptr<const ir::Lineage> lineage = lineages_.take();
  for (Tensor& result : results) result.node()->set_lineage(lineage);
}

void Program::make_execution() {
  auto execution = std::make_shared<Execution>(plan_, false);  // kept once it is whole: memory may run out on the way
  for (std::size_t c = 0; c < traced_.constants.size(); ++c) {
    if (!traced_.constants[c]->contiguous()) {
      auto copy = ir::new_array(traced_.constants[c]->type);
      ir::read_elements(*traced_.constants[c], copy->storage->data(), copy->type.dtype);
      traced_.constants[c] = copy;
    }
    execution->bind_input(static_cast<int>(args_.size() + traced_.variables.size() + c),
                          address(*traced_.constants[c], where_));
  }
  execution_ = std::move(execution);
}

void Program::start(std::vector<double>* seconds) {
  if (seconds)
    execution_->run_timed(*seconds);
  else if (where_)
    replay();
  else
    execution_->run();
}

void Program::run(const Tensor* const* args, const std::shared_ptr<ir::Storage>& arena, std::vector<Tensor>& results,
                  std::vector<double>* seconds) {
  if (!plan_->executes)
    throw Error(cat("device '", device_, "' compiles but does not compute. Use set_device(\"cpu\")."));
  const Alone alone(tiny_);
  if (!execution_) make_execution();
  if (void* const base = arena ? address(*arena, where_) : nullptr; base != bound_arena_) {
    execution_->bind_arena(base);
    bound_arena_ = base;
    recorded_.clear();
  }
  note_earlier_failure();
  bound_.clear();
  bind_args(args);
  check_args(args);
  struct LetGo {
    Program& program;
    ~LetGo() { program.let_go(); }
  } const at_the_end{*this};
  bind_variables();
  bind_results(results);
  save();
  try {
    start(seconds);
  } catch (const std::exception& error) {
    spoil(error.what(), plan_->steps.size() + 1);
    execution_->tell_ranks(error.what());
    throw;
  }
  finish(results);
  note_lineage(args, results);
}

}  // namespace varve::runtime
