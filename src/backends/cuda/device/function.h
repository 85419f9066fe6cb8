// A kernel from CUDA C++ text, compiled by NVRTC for the GPU at hand and kept on disk.
#pragma once

#include <cuda.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/device/kernel_texts.h"
#include "varve/dtype.h"

namespace varve::cuda {

struct Launch {
  std::int64_t grid = 1;
  int block = 256;
  int grid_y = 1, grid_z = 1, block_y = 1;
  std::size_t shared = 0;    // dynamic shared memory, in bytes; above 48 KiB the limit is raised
  bool cooperative = false;  // all blocks run at once and may wait for each other
  bool early = false;        // has work before it waits for those it follows: may begin while they run
};

// When a kernel is compiled: what is hardly ever needed, when it is first started.
enum class Begin : std::uint8_t { now, when_started };

// A handle; copies are the same kernel. Compilation begins with the first handle, on a thread of its own, so that the
// kernels of a program compile side by side; the first launch waits for it. Equal texts are compiled once.
class Function {
 public:
  Function() = default;
  // The text holds `extern "C" __global__ void name(…)`.
  Function(const std::string& name, const KernelText& text, Begin begin = Begin::now);

  // The arguments' types must be exactly those the kernel declares: std::int64_t for long long, float for float.
  template <class... Args>
  void operator()(const Launch& launch, Args... args) const {
    void* pointers[] = {static_cast<void*>(&args)..., nullptr};
    start(launch, pointers);
  }
  // How many blocks of this size fit on the whole GPU at once: the most that a cooperative launch may have.
  int resident_blocks(int block, std::size_t shared) const;
  explicit operator bool() const { return state_ != nullptr; }

 private:
  void start(const Launch& launch, void** arguments) const;
  struct State;
  std::shared_ptr<State> state_;
};

// The type's name in kernel texts: float, double, bf16, f16, signed char, …, bool_t.
const char* type_name(DType dtype);

// Runs it on a thread of its own, in turn with compilations; nobody hears of its failure. The process ends after it.
void beside(std::function<void()> work);

// Without a GPU nothing is compiled: texts are collected, for tests that compile them for GPUs of their choice.
std::vector<KernelText> collected_texts();

// Where compiled kernels and what was measured of this GPU are kept: VARVE_CUDA_CACHE, else beside other caches of this
// user, or nowhere (empty).
std::filesystem::path cache_folder();

// What runs is optimised fully; hardly is for tests that only ask whether a text compiles.
enum class Optimize : std::uint8_t { fully, hardly };

// To machine code; throws Error with the compiler's log.
std::string compile(const KernelText& text, const std::string& arch, Optimize optimize = Optimize::fully);

}  // namespace varve::cuda
