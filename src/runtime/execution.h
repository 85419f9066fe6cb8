// A plan being run: kernels, arena and pointers of one thread at a time.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "backend/communicator.h"
#include "backend/device.h"
#include "backend/kernel.h"
#include "compiler/plan.h"
#include "ir/array.h"

namespace varve::runtime {

// The device joins those of the other ranks, unless it has: all ranks at one place.
void join_on(backend::Device& device);

class Execution {
 public:
  // Prepares its own kernels. The arena may be given (bodies of loops and branches lie in the scratch of their step) or
  // is allocated.
  explicit Execution(std::shared_ptr<const compiler::Plan> plan, bool own_arena = true, bool own_errors = true);
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  void bind_arena(void* arena);
  void bind_input(int index, void* data);
  void bind_output(int index, void* data);
  // No allocation, no look-up, no lock; a device goes on after it. On the processor it ends before the first step that
  // would write to its inputs after something was noted: what was wrong with a label is known before weights change.
  void run();
  std::size_t steps_run() const { return steps_run_; }  // of the last run
  bool writes(int input, std::size_t steps) const;      // whether the first steps write to an input's buffer
  std::unique_ptr<backend::Recording> record();         // the run as it is bound now, for its device to repeat
  void replay(backend::Recording& recording);
  void tell_ranks(const std::string& error) const;  // where it exchanges values with others: they end as well
  void run_timed(std::vector<double>& seconds);     // adds the time of each step

  backend::ErrorWord& errors() { return *errors_; }
  void share_errors(backend::ErrorWord* errors) { errors_ = errors; }
  const compiler::Plan& plan() const { return *plan_; }
  std::size_t arena_bytes() const { return arena_ ? arena_->bytes : 0; }

 private:
  struct Patch {
    void** slot;
    std::int64_t offset;
  };
  struct Prepared;
  void run_steps();
  void run_among_ranks();
  backend::Communication::Ticket announce();
  void run_step(std::size_t step);
  void run_loop(std::size_t step);
  void run_choice(std::size_t step);
  void run_repeat(std::size_t step);
  void repeat_here(std::size_t step);
  void repeat_on_device(std::size_t step);
  Execution& body(std::size_t step, std::size_t which, std::int64_t arena_at);
  std::vector<backend::Device::Piece> pieces();
  std::unique_ptr<backend::Recording> record_cut();
  void run_copies();
  void copy(void* to, const void* from, std::size_t bytes);
  void time_on_device(std::vector<double>& seconds);
  void patch(const std::vector<Patch>& patches, void* base);

  std::shared_ptr<const compiler::Plan> plan_;
  std::vector<std::unique_ptr<backend::Kernel>> kernels_;
  std::vector<std::vector<std::unique_ptr<Execution>>> bodies_;  // of loops and branches
  std::vector<std::vector<void*>> in_, out_;                     // pointers of each step
  std::vector<void*> scratch_;
  std::vector<Patch> arena_patches_;
  std::vector<std::vector<Patch>> input_patches_, output_patches_;
  std::vector<void*> copy_from_, copy_to_;
  std::vector<bool> writes_input_;  // of each step
  std::size_t steps_run_ = 0;
  std::shared_ptr<ir::Storage> arena_;
  backend::ErrorWord own_errors_;
  backend::ErrorWord* errors_ = &own_errors_;
};

}  // namespace varve::runtime
