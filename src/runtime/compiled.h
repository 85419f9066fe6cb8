// A compiled function: one program for each set of argument types, sharing one arena.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/device.h"
#include "compiler/pipeline.h"
#include "ir/lineage.h"
#include "runtime/execution.h"
#include "runtime/positions.h"
#include "tensor/trace.h"
#include "varve/compile.h"

namespace varve::runtime {

// What tracing found: the graph, and what its inputs after the arguments are bound to.
struct Traced {
  ir::Graph graph;
  std::vector<std::shared_ptr<Variable::State>> variables;
  std::vector<std::shared_ptr<const ir::Array>> constants;
  std::size_t results = 0;  // the first outputs; the rest are updates
};
Traced trace(const detail::ProgramFn& fn, const std::vector<TensorType>& args);

class Program {
 public:
  Program(Traced traced, std::vector<TensorType> args, std::string device, backend::Choices choices);

  bool matches(const Tensor* const* args, std::size_t count, const std::string& device) const;
  std::size_t arena_bytes() const { return plan_->arena_bytes; }
  std::int64_t peak_bytes(const Tensor* const* args) const;
  const compiler::Plan& plan() const { return *plan_; }

  // Binds, runs, hands out results. With `seconds`, times every step.
  void run(const Tensor* const* args, const std::shared_ptr<ir::Storage>& arena, std::vector<Tensor>& results,
           std::vector<double>* seconds);

 private:
  void make_execution();
  void bind_args(const Tensor* const* args);
  void check_args(const Tensor* const* args) const;
  void bind_variables();
  std::shared_ptr<Variable::State> try_to_bind_variables();  // one that must be computed first, or null
  void bind_variable(std::size_t variable);
  void let_go();
  void bind_results(std::vector<Tensor>& results);
  void start(std::vector<double>* seconds);
  void finish(std::vector<Tensor>& results);
  void note_lineage(const Tensor* const* args, std::vector<Tensor>& results);
  void spoil(const std::string& why, std::size_t steps);  // what the first of its steps write
  Tensor& fresh_result(std::size_t output);
  const void* repacked(std::size_t variable, const void* data);

  struct Saved {
    std::size_t variable;
    std::vector<std::byte> bytes;
  };
  void choose_saved();
  void save();
  bool bring_back(std::size_t variable);

  struct Repacked {
    std::shared_ptr<ir::Storage> storage;
    std::uint64_t version = 0;
  };

  // On a device (program_device.cpp).
  struct Slot {  // arguments that came from the processor
    std::vector<std::shared_ptr<ir::Remote>> memory;
    std::shared_ptr<backend::Mark> used;  // the last run that read them
  };
  struct Recorded {
    std::vector<void*> bound;
    std::unique_ptr<backend::Recording> recording;
  };
  struct Result {
    std::shared_ptr<ir::Remote> memory;
    Tensor handed;
  };
  static constexpr std::size_t kRing = 4;
  void* argument_on_device(std::size_t index, const Tensor& arg);
  void bind_results_on_device(std::vector<Tensor>& results);
  void make_room(Result& result, bool shared);
  std::vector<std::shared_ptr<Variable::State>> updated_variables() const;
  void mark_run();
  void note_earlier_failure();
  void replay();

  Traced traced_;
  std::vector<TensorType> args_;
  std::string device_;
  int threads_;  // kernels are prepared for a number of threads
  bool deterministic_;
  bool tiny_;  // works on one thread
  std::shared_ptr<const compiler::Plan> plan_;
  std::shared_ptr<Execution> execution_;
  const void* bound_arena_ = nullptr;
  std::vector<Repacked> repacked_;       // of variables that the program reads in a private layout
  std::vector<std::size_t> lock_order_;  // of variables: the same in every program, so that two never wait for each
                                         // other
  std::vector<std::unique_lock<std::mutex>> locks_;  // of variables that this run updates
  std::vector<Tensor> read_;                         // of variables that it only reads
  std::vector<bool> is_updated_;
  ir::Lineages lineages_;  // of results
  PositionChecks checks_;
  std::vector<Saved> saved_;  // small ones among them, where kernels may still refuse a position: brought back then
  std::vector<std::uint64_t> checked_;         // versions of variables, plus one
  std::vector<std::vector<Tensor>> recycled_;  // results handed out before, taken again once nobody holds them

  backend::Device* where_ = nullptr;
  std::vector<void*> bound_;  // addresses of arguments, variables and results, in this order
  Slot slots_[2];
  std::size_t slot_ = 0;
  bool slot_used_ = false;
  std::vector<const ir::Storage*> last_args_;
  std::vector<Result> ring_[kRing];  // small results in turn, so that reading one does not wait for the next runs
  std::vector<std::weak_ptr<ir::Remote>> unmarked_;
  std::vector<Recorded> recorded_;  // the most recent last
  std::size_t runs_ = 0;
};

std::shared_ptr<const ir::Array> array_of(const Tensor& tensor);
// Nobody but this handle sees the memory, and it is ours to write. Who shared it before has read all he wanted.
bool exclusive(const Tensor& held);

}  // namespace varve::runtime

namespace varve::detail {

class CompiledFn {
 public:
  CompiledFn(ProgramFn fn, CompileOptions options) : fn_(std::move(fn)), options_(std::move(options)) {}

  // Programs, their arena and their results belong to whoever holds this.
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  std::vector<Tensor> record(const Tensor* const* args, std::size_t count);  // as part of something larger
  const std::vector<Tensor>& run(const Tensor* const* args, std::size_t count, std::vector<double>* seconds = nullptr);
  runtime::Program& program(const Tensor* const* args, std::size_t count);
  std::size_t programs() const { return programs_.size(); }

 private:
  static constexpr std::size_t kMostPrograms = 16;
  ProgramFn fn_;
  CompileOptions options_;
  std::mutex mutex_;
  std::list<runtime::Program> programs_;  // most recently used first
  std::shared_ptr<ir::Storage> arena_;
  backend::Device* arena_device_ = nullptr;
  std::vector<Tensor> results_;  // of the last call
};

}  // namespace varve::detail
