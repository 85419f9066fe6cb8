// The GPU of this process: its memory, its streams, and the order of work on it.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/device.h"

namespace varve::cuda {

// What kernels are made for. Without a GPU (compiling only) a stand-in, with the figures of an H200.
struct Gpu {
  int ordinal = 0;
  std::string name = "none";
  int major = 9, minor = 0;
  int multiprocessors = 132;
  int multiprocessor_threads = 2048;      // that one multiprocessor runs at once
  std::size_t shared_bytes = 227 * 1024;  // the most that one block may have
  std::size_t memory = 0;                 // bytes; 0 when there is no GPU
  bool present() const { return memory != 0; }
  std::int64_t threads() const { return std::int64_t{multiprocessors} * multiprocessor_threads; }  // that run at once
};

class Context final : public backend::Device {
 public:
  explicit Context(Gpu gpu);  // of a GPU that is there
  ~Context() override;

  const Gpu& gpu() const { return gpu_; }
  CUstream stream() const { return stream_; }  // all kernels run here, in order, or are recorded here

  // What a kernel reports when it meets a value it must not use: the number to write into the error word (errors.h).
  int note(const std::string& text);

  std::shared_ptr<ir::Remote> allocate(std::size_t bytes) override;
  std::shared_ptr<ir::Remote> allocate_shared(std::size_t bytes) override;
  void upload(void* to, const void* from, std::size_t bytes, const backend::Mark* after) override;
  std::shared_ptr<backend::Mark> mark() override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  std::unique_ptr<backend::Recording> record(const std::vector<Piece>& pieces) override;
  std::string decision_refusal() const override;
  void refuse_decisions(const std::string& why) override { decisions_refused_ = why; }
  void choose(const void* predicate, const std::function<void()>& then,
              const std::function<void()>& otherwise) override;
  void repeat(const Repeat& how, const std::function<void()>& decide, const std::function<void()>& work) override;
  void copy_row(void* rows, const void* from, std::size_t bytes, const void* number) override;
  void release_unused() override;
  void wait() override;
  void share(backend::ErrorWord& errors) override;
  std::vector<double> time(const std::vector<std::function<void()>>& pieces) override;
  std::shared_ptr<ir::Remote> adopt(void* address, std::size_t bytes, std::function<void()> release) override;
  std::intptr_t stream_number() const override { return reinterpret_cast<std::intptr_t>(stream_); }
  void let_follow(std::intptr_t stream) override;
  void follow(std::intptr_t stream) override;
  void join(const backend::DeviceRanks& ranks) override;  // nccl/
  std::string engine() const override { return joined_ ? "nccl" : ""; }
  backend::DeviceMemory memory() const override;
  backend::DevicePeaks peaks() override;
  backend::DeviceFacts about() const override;

  void make_current() const;  // for this thread's calls of the libraries

  // While a step is recorded: the kernel launched next may begin before those it follows have ended, and waits for them
  // itself (kernels/prelude.cuh). Otherwise nothing. While it waits it takes room from kernels that run beside those.
  enum class Overlap { anywhere, where_alone };
  void let_next_overlap(Overlap overlap) const;
  // While a step is recorded: what follows the last work on this other stream waits until it has ended.
  void do_not_overlap(CUstream stream);
  // Throws Error when another rank is gone: what was waited for has ended, but was not computed.
  void check_ranks() const;

 private:
  friend class Allocation;
  std::string rank_failure() const;  // nccl/
  void free_blocks();                // those given back; the caller has the lock
  std::unique_ptr<backend::Recording> recorded(const std::vector<Piece>& pieces, bool overlap);
  bool is_true(const void* predicate);  // waits for it
  struct Condition {
    CUgraphConditionalHandle handle;
    std::vector<CUgraph> bodies;
  };
  Condition record_condition(CUgraphConditionalNodeType type, unsigned bodies, const void* predicate);
  void record_into(CUgraph graph, const std::function<void()>& work);
  void set_condition(CUgraphConditionalHandle condition, const void* predicate) const;

  Gpu gpu_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  bool overlapping_ = false;  // a step is being recorded whose kernels overlap
  bool alone_ = false;        // nothing runs beside what is being recorded
  bool overlap_refused_ = false;
  bool recording_ = false;
  std::string decisions_refused_;
  std::vector<CUstream> side_streams_;  // on which bodies of conditions are recorded, by depth
  std::size_t depth_ = 0;
  std::vector<CUgraphNode> not_overlapped_;
  std::mutex joining_;
  std::atomic<bool> joined_{false};  // those of the other ranks
  class Ring;
  std::unique_ptr<Ring> ring_;  // pinned memory through which uploads go
  struct Words;
  std::unique_ptr<Words> words_;
  std::mutex mutex_;
  std::int64_t held_ = 0, peak_ = 0;
  std::unordered_map<std::size_t, std::vector<CUdeviceptr>> free_;  // blocks given back, by size: taken again in order
};

// The one GPU of this process, opened at first use. Throws Error that says what is missing: driver, GPU, version.
Context& context();
// The GPU's facts; a stand-in when none can be opened. Never throws.
const Gpu& gpu();
std::string nccl_version();  // "2.28.3", or why there is none; nccl/
int count_gpus();            // of this machine; 0 where none can be used
// Chooses the GPU before its first use: "cuda" or "cuda:1".
void choose(int ordinal);

}  // namespace varve::cuda
