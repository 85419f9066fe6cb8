// Launches: the blocks one after another, or all at once on OS threads of their own when the launch is cooperative.
#include <cuda.h>
#include <xmmintrin.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "block.h"
#include "module.h"
#include "settings.h"
#include "stream.h"

namespace varve::emulator {
namespace {

struct Launch {
  CUfunction function;
  EmuIndex blocks, threads;
  unsigned dynamic_shared;
  bool cooperative;
  bool overlaps = false;  // may begin before what it follows has ended, and must wait for that itself
};

// The values of a launch's parameters, kept for when the launch runs.
class Arguments {
 public:
  Arguments(const EmuKernel& kernel, void** values) {
    std::size_t bytes = 0;
    for (unsigned i = 0; i < kernel.count; ++i) bytes += slot(kernel.parameters[i]);
    storage_.resize(bytes / sizeof(Unit));
    auto* at = reinterpret_cast<std::byte*>(storage_.data());
    for (unsigned i = 0; i < kernel.count; ++i) {
      std::memcpy(at, values[i], kernel.parameters[i].size);
      pointers_.push_back(at);
      at += slot(kernel.parameters[i]);
    }
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  void* const* pointers() const { return pointers_.data(); }

 private:
  struct alignas(16) Unit {
    std::byte bytes[16];
  };
  static std::size_t slot(const EmuParameter& parameter) {
    return (parameter.size + sizeof(Unit) - 1) / sizeof(Unit) * sizeof(Unit);
  }

  std::vector<Unit> storage_;
  std::vector<void*> pointers_;
};

// Dynamic shared memory of a block, poisoned anew for each and guarded at its end.
class DynamicShared {
 public:
  explicit DynamicShared(std::size_t bytes)
      : bytes_(bytes),
        memory_(static_cast<std::byte*>(std::aligned_alloc(1024, (bytes + kGuard + 1023) / 1024 * 1024))) {}

  void* prepare() {
    std::memset(memory_.get(), 0xFF, bytes_);
    std::memset(memory_.get() + bytes_, kGuardByte, kGuard);
    return memory_.get();
  }
  bool overrun() const {
    for (std::size_t i = 0; i < kGuard; ++i)
      if (memory_[bytes_ + i] != std::byte{kGuardByte}) return true;
    return false;
  }

 private:
  static constexpr std::size_t kGuard = 256;
  static constexpr unsigned char kGuardByte = 0xFD;
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte[], Free> memory_;
};

// The caller may have set its thread to flush subnormals; the device keeps them.
class PlainArithmetic {
 public:
  PlainArithmetic() { _mm_setcsr(0x1F80); }
  ~PlainArithmetic() { _mm_setcsr(saved_); }
  PlainArithmetic(const PlainArithmetic&) = delete;
  PlainArithmetic& operator=(const PlainArithmetic&) = delete;

 private:
  unsigned saved_ = _mm_getcsr();
};

// Runs the blocks first, first + step, ... on this OS thread.
void run_blocks(Grid& grid, const Launch& launch, unsigned long long first, unsigned long long step) {
  const CUmod_st& module = *launch.function->module;
  PlainArithmetic arithmetic;
  DynamicShared shared(launch.dynamic_shared);
  BlockRun run(grid);
  EmuBlock block{};
  EmuBlock** current = module.table->block();
  unsigned long long count = 1ull * grid.blocks.x * grid.blocks.y * grid.blocks.z;
  for (unsigned long long i = first; i < count && grid.outcome == Outcome::done; i += step) {
    std::memset(reinterpret_cast<std::byte*>(current) + module.shared_offset, 0xFF, module.shared_bytes);
    *current = &block;
    block.block = {static_cast<unsigned>(i % grid.blocks.x), static_cast<unsigned>(i / grid.blocks.x % grid.blocks.y),
                   static_cast<unsigned>(i / grid.blocks.x / grid.blocks.y)};
    block.dynamic_shared = shared.prepare();
    block.dynamic_shared_bytes = launch.dynamic_shared;
    block.waited_for_earlier = 0;
    run.run(block);
    if (launch.overlaps && !block.waited_for_earlier) {
      std::fprintf(stderr, "CUDA emulator: kernel %s may begin before earlier ones have ended, and does not wait\n",
                   grid.kernel_name);
      grid.outcome = Outcome::failed;
    }
    if (!shared.overrun()) continue;
    std::fprintf(stderr, "CUDA emulator: kernel %s wrote past the end of its dynamic shared memory (%u bytes)\n",
                 grid.kernel_name, launch.dynamic_shared);
    grid.outcome = Outcome::failed;
  }
}

CUresult run(const Launch& launch, void* const* arguments) {
  const EmuKernel& kernel = *launch.function->kernel;
  if (tracing())
    std::fprintf(stderr, "CUDA emulator: %s <<<(%u, %u, %u), (%u, %u, %u), %u>>>%s\n", kernel.name, launch.blocks.x,
                 launch.blocks.y, launch.blocks.z, launch.threads.x, launch.threads.y, launch.threads.z,
                 launch.dynamic_shared, launch.cooperative ? " cooperative" : "");
  Grid grid{.kernel_name = kernel.name,
            .kernel = &kernel,
            .arguments = arguments,
            .blocks = launch.blocks,
            .threads = launch.threads,
            .cooperative = launch.cooperative};
  if (launch.cooperative) {
    unsigned blocks = launch.blocks.x * launch.blocks.y * launch.blocks.z;
    std::vector<std::jthread> workers;
    for (unsigned i = 0; i < blocks; ++i) workers.emplace_back([&, i] { run_blocks(grid, launch, i, blocks); });
  } else {
    run_blocks(grid, launch, 0, 1);
  }
  switch (grid.outcome) {
    case Outcome::done:
      return CUDA_SUCCESS;
    case Outcome::assertion:
      return CUDA_ERROR_ASSERT;
    case Outcome::failed:
      break;
  }
  return CUDA_ERROR_LAUNCH_FAILED;
}

CUresult check(const Launch& launch) {
  const auto& [x, y, z] = launch.threads;
  const EmuIndex& blocks = launch.blocks;
  if (!launch.function) return CUDA_ERROR_INVALID_HANDLE;
  if (x == 0 || y == 0 || z == 0 || blocks.x == 0 || blocks.y == 0 || blocks.z == 0) return CUDA_ERROR_INVALID_VALUE;
  if (x > 1024 || y > 1024 || z > 64 || 1ull * x * y * z > kMaxThreadsPerBlock) return CUDA_ERROR_INVALID_VALUE;
  if (blocks.x > 0x7FFFFFFF || blocks.y > 65535 || blocks.z > 65535) return CUDA_ERROR_INVALID_VALUE;
  if (launch.dynamic_shared > launch.function->max_dynamic_shared) return CUDA_ERROR_INVALID_VALUE;
  int resident = 0;
  cuOccupancyMaxActiveBlocksPerMultiprocessor(&resident, launch.function, static_cast<int>(x * y * z),
                                              launch.dynamic_shared);
  if (resident == 0) return CUDA_ERROR_INVALID_VALUE;
  unsigned long long wanted = 1ull * blocks.x * blocks.y * blocks.z;
  if (launch.cooperative && wanted > 1ull * resident * multiprocessors())
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  return CUDA_SUCCESS;
}

// Parameters that came packed in one buffer, as separate pointers.
std::vector<void*> unpack(CUfunction function, void** extra) {
  std::byte* buffer = nullptr;
  for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2)
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = static_cast<std::byte*>(extra[1]);
  std::vector<void*> values;
  for (unsigned i = 0; buffer && i < function->kernel->count; ++i) {
    size_t offset = 0;
    cuFuncGetParamInfo(function, i, &offset, nullptr);
    values.push_back(buffer + offset);
  }
  return values;
}

CUresult launch_on(CUstream stream, Launch launch, void** values, void** extra) {
  if (CUresult refused = check(launch); refused != CUDA_SUCCESS) return refused;
  std::vector<void*> unpacked;
  if (!values) {
    unpacked = unpack(launch.function, extra);
    values = unpacked.data();
    if (unpacked.size() != launch.function->kernel->count) return CUDA_ERROR_INVALID_VALUE;
  }
  auto arguments = std::make_shared<const Arguments>(*launch.function->kernel, values);
  launch.overlaps = next_overlaps(stream);
  return submit(stream, CU_GRAPH_NODE_TYPE_KERNEL, [=] { return run(launch, arguments->pointers()); });
}

}  // namespace
}  // namespace varve::emulator

using namespace varve::emulator;

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void** parameters,
                        void** extra) {
  Launch launch{function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, false};
  return launch_on(stream, launch, parameters, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                   CUstream stream, void** parameters) {
  Launch launch{function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, true};
  return launch_on(stream, launch, parameters, nullptr);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  Launch launch{function,
                {config->gridDimX, config->gridDimY, config->gridDimZ},
                {config->blockDimX, config->blockDimY, config->blockDimZ},
                config->sharedMemBytes,
                false};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) launch.cooperative = attribute.value.cooperative != 0;
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) return CUDA_ERROR_NOT_SUPPORTED;
  }
  return launch_on(config->hStream, launch, parameters, extra);
}
