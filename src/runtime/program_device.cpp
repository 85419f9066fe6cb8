// A program on a device: arguments and results in places of their own, so that the whole step is recorded once and
// started again by one call, and the processor never waits unless somebody reads.
#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "runtime/compiled.h"
#include "runtime/residence.h"

namespace varve::runtime {
namespace {

constexpr std::size_t kSmall = 4096;  // bytes: losses and metrics

// A result as its readers see it: they wait for the run that makes it, no longer, and learn what it has noted.
class ResultMemory final : public ir::Remote {
 public:
  ResultMemory(std::shared_ptr<ir::Remote> memory, bool shared, std::shared_ptr<Execution> execution,
               std::vector<std::shared_ptr<Variable::State>> updated)
      : memory_(std::move(memory)), shared_(shared), execution_(std::move(execution)), updated_(std::move(updated)) {
    device = memory_->device;
    address = memory_->address;
    bytes = memory_->bytes;
    on_both_sides = memory_->on_both_sides;
  }
  void set_mark(std::shared_ptr<backend::Mark> made) { made_ = std::move(made); }
  bool ready() const override { return made_ && made_->passed(); }
  void fetch(void* to) override {
    if (shared_ && made_) {
      made_->wait();
      if (bytes) std::memcpy(to, memory_->address, bytes);
    } else {
      memory_->fetch(to);
    }
    if (!execution_->errors().set()) return;
    const std::string text = execution_->errors().text();
    for (const auto& variable : updated_) spoil(*variable, text);
    execution_->tell_ranks(text);
    throw Error(text);
  }

 private:
  std::shared_ptr<ir::Remote> memory_;
  bool shared_;
  std::shared_ptr<Execution> execution_;
  std::vector<std::shared_ptr<Variable::State>> updated_;
  std::shared_ptr<backend::Mark> made_;
};

}  // namespace

// What was noted since the last run began. What is still running is heard of later, by whoever reads.
void Program::note_earlier_failure() {
  if (!execution_->errors().set()) return;
  if (where_) {
    const std::string text = execution_->errors().text();
    for (const auto& variable : updated_variables()) varve::spoil(*variable, text);
  }
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

// What an earlier run left in this place, and somebody still holds unread, moves out first. Where another library reads
// it in place, the place is left to it and a new one taken.
void Program::make_room(Result& result, bool shared) {
  if (!result.handed.node() || exclusive(result.handed)) return;
  ir::Storage& storage = *array_of(result.handed)->storage;
  if (storage.is_far() && !shared) {
    std::shared_ptr<ir::Remote> own = where_->allocate(storage.bytes);
    where_->copy(own->address, result.memory->address, storage.bytes);
    if (!storage.move_remote(std::move(own))) result.memory = nullptr;
    return;
  }
  try {
    static_cast<void>(storage.data());  // of a run some turns ago: nothing to wait for, as a rule
  } catch (const Error& error) {
    storage.error = std::make_shared<const std::string>(error.what());
  }
  if (!storage.move_remote(nullptr)) result.memory = nullptr;
}

// Results lie in fixed places, so that the recording fits: small ones in one of a ring that the processor can read,
// large ones on the device.
void Program::bind_results_on_device(std::vector<Tensor>& results) {
  results.assign(traced_.results, Tensor());
  unmarked_.clear();
  for (std::size_t o = 0; o < traced_.results; ++o) {
    const bool shared = plan_->outputs[o].bytes() <= kSmall;
    std::vector<Result>& turn = ring_[shared ? runs_ % kRing : 0];
    turn.resize(traced_.results);
    Result& result = turn[o];
    make_room(result, shared);
    if (!result.memory)
      result.memory =
          shared ? where_->allocate_shared(plan_->outputs[o].bytes()) : where_->allocate(plan_->outputs[o].bytes());
    auto array = std::make_shared<ir::Array>();
    array->type = plan_->outputs[o];
    array->layout = contiguous(array->type.shape);
    auto memory = std::make_shared<ResultMemory>(result.memory, shared, execution_, updated_variables());
    unmarked_.push_back(memory);
    array->storage = std::make_shared<ir::Storage>(std::move(memory));
    result.handed = Tensor(ir::Value{ir::constant_node(array), 0});
    execution_->bind_output(static_cast<int>(o), result.memory->address);
    bound_.push_back(result.memory->address);
    results[o] = result.handed;
  }
}

// The point up to which arguments in a slot, and results, are in use.
void Program::mark_run() {
  if (!slot_used_ && unmarked_.empty()) return;
  const std::shared_ptr<backend::Mark> mark = where_->mark();
  if (slot_used_) slots_[slot_].used = mark;
  for (const auto& result : unmarked_)
    if (const auto memory = result.lock()) static_cast<ResultMemory&>(*memory).set_mark(mark);
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
      recorded_.push_back({bound_, execution_->record()});
      if (runs_ == 2) where_->release_unused();  // what the first run measured algorithms and set libraries up in
      known = std::prev(recorded_.end());
    } else if (std::next(known) != recorded_.end()) {
      std::rotate(known, std::next(known), recorded_.end());
      known = std::prev(recorded_.end());
    }
    execution_->replay(*known->recording);
  }
  mark_run();
}

}  // namespace varve::runtime
