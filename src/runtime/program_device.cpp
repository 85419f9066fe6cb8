// A program on a device: arguments and results in places of their own, so that the whole step is recorded once and
// started again by one call, and the processor never waits unless somebody reads.
#include <algorithm>

#include "base/text.h"
#include "runtime/compiled.h"
#include "runtime/residence.h"

namespace varve::runtime {
namespace {

// A result as its readers see it: they learn what the run that made it has noted.
class ResultMemory final : public ir::Remote {
 public:
  ResultMemory(std::shared_ptr<ir::Remote> memory, std::shared_ptr<Execution> execution,
               std::function<void(const std::string&)> failed)
      : memory_(std::move(memory)), execution_(std::move(execution)), failed_(std::move(failed)) {
    device = memory_->device;
    address = memory_->address;
    bytes = memory_->bytes;
  }
  void fetch(void* to) override {
    memory_->fetch(to);
    if (!execution_->errors().set()) return;
    const std::string text = execution_->errors().text();
    failed_(text);
    throw Error(text);
  }

 private:
  std::shared_ptr<ir::Remote> memory_;
  std::shared_ptr<Execution> execution_;
  std::function<void(const std::string&)> failed_;
};

}  // namespace

// What was noted since the last run began. What is still running is heard of later, by whoever reads.
void Program::note_earlier_failure() {
  if (!execution_->errors().set()) return;
  if (where_) spoil(execution_->errors().text());
  execution_->errors().clear();
}

// Where an argument lies on the device. One that comes from the processor goes to one of two places in turn: its copy
// runs while the run before still reads the other. One that is given again is kept there.
void* Program::argument_on_device(std::size_t index, const Tensor& arg) {
  arg.eval();
  if (index == 0) {
    last_args_.resize(args_.size(), nullptr);
    slot_used_ = false;
  }
  std::shared_ptr<const ir::Array> array = array_of(arg);
  if (array->contiguous()) {
    const bool given_again = !array->storage->release && array->storage.get() == last_args_[index];
    last_args_[index] = array->storage.get();
    if (given_again || resides(*array->storage, where_)) return address(*array, where_);
  }
  if (!slot_used_) slot_ = 1 - slot_;
  slot_used_ = true;
  Slot& slot = slots_[slot_];
  slot.memory.resize(args_.size());
  if (!slot.memory[index]) slot.memory[index] = where_->allocate(args_[index].bytes());
  where_->upload(slot.memory[index]->address, arg.data(), args_[index].bytes(), slot.used.get());
  return slot.memory[index]->address;
}

// Results lie in fixed places. What the last run left there, and somebody still holds unread, moves out first.
void Program::bind_results_on_device(std::vector<Tensor>& results) {
  fixed_.resize(traced_.results);
  results.assign(traced_.results, Tensor());
  for (std::size_t o = 0; o < traced_.results; ++o) {
    Result& fixed = fixed_[o];
    if (!fixed.memory) fixed.memory = where_->allocate(plan_->outputs[o].bytes());
    if (fixed.handed.node() && !exclusive(fixed.handed)) {
      ir::Storage& storage = *array_of(fixed.handed)->storage;
      if (storage.is_far()) {
        std::shared_ptr<ir::Remote> own = where_->allocate(storage.bytes);
        where_->copy(own->address, fixed.memory->address, storage.bytes);
        storage.set_remote(std::move(own));
      } else {
        storage.set_remote(nullptr);
      }
    }
    auto array = std::make_shared<ir::Array>();
    array->type = plan_->outputs[o];
    array->layout = contiguous(array->type.shape);
    array->storage = std::make_shared<ir::Storage>(std::make_shared<ResultMemory>(
        fixed.memory, execution_, [variables = updated_variables()](const std::string& why) {
          for (const auto& variable : variables) variable->spoilt = why;
        }));
    fixed.handed = Tensor(ir::Value{ir::constant_node(array), 0});
    execution_->bind_output(static_cast<int>(o), fixed.memory->address);
    bound_.push_back(fixed.memory->address);
    results[o] = fixed.handed;
  }
}

std::vector<std::shared_ptr<Variable::State>> Program::updated_variables() const {
  std::vector<std::shared_ptr<Variable::State>> variables;
  for (const auto& [input, output] : plan_->updates)
    variables.push_back(traced_.variables[static_cast<std::size_t>(input) - args_.size()]);
  return variables;
}

// The first run starts kernel after kernel, while libraries set themselves up; from the second on it is one recording,
// as long as everything lies where it lay.
void Program::replay() {
  constexpr std::size_t kMostRecordings = 8;
  if (runs_++ == 0) {
    execution_->run();
  } else {
    auto known = std::find_if(recorded_.begin(), recorded_.end(), [&](const Recorded& r) { return r.bound == bound_; });
    if (known == recorded_.end()) {
      if (recorded_.size() == kMostRecordings) recorded_.erase(recorded_.begin());
      recorded_.push_back({bound_, where_->record([&] { execution_->run(); })});
      known = std::prev(recorded_.end());
    } else if (std::next(known) != recorded_.end()) {
      std::rotate(known, std::next(known), recorded_.end());
      known = std::prev(recorded_.end());
    }
    known->recording->replay();
  }
  if (slot_used_) slots_[slot_].used = where_->mark();
}

}  // namespace varve::runtime
