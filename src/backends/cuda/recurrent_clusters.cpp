#include "backends/cuda/recurrent_clusters.h"

#include <dlfcn.h>

#include <string>

#include "backends/cuda/context.h"
#include "backends/cuda/function.h"
#include "backends/cuda/status.h"
#include "base/levers.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

constexpr std::size_t kAlone = 160 << 10;  // bytes of shared memory: no two blocks of that fit a multiprocessor

bool has_clusters() {
  int value = 0;
  CUdevice device = 0;
  return gpu().present() && lever("clusters") && cuDeviceGet(&device, gpu().ordinal) == CUDA_SUCCESS &&
         cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, device) == CUDA_SUCCESS && value != 0;
}

int count(CUfunction function, unsigned blocks) {
  // Drivers that know no clusters do not have it.
  using Query = CUresult (*)(int*, CUfunction, const CUlaunchConfig*);
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const auto query = driver ? reinterpret_cast<Query>(dlsym(driver, "cuOccupancyMaxActiveClusters")) : nullptr;
  if (!query) return 0;
  CUlaunchAttribute cluster{};
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.clusterDim = {blocks, 1, 1};
  CUlaunchConfig config{};
  config.gridDimX = blocks;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 128;
  config.sharedMemBytes = kAlone;
  config.attrs = &cluster;
  config.numAttrs = 1;
  int clusters = 0;
  return query(&clusters, function, &config) == CUDA_SUCCESS ? clusters : 0;
}

// The GPU's parts differ in size, and with them how many clusters they hold: it is asked with a kernel that does
// nothing.
Clusters ask() {
  if (!has_clusters() || gpu().shared_bytes < kAlone) return {};
  context().make_current();
  const std::string code = compile("extern \"C\" __global__ void nothing() {}", cat("sm_", gpu().major, gpu().minor));
  CUmodule module = nullptr;
  CUfunction nothing = nullptr;
  check(cuModuleLoadData(&module, code.data()), "cuModuleLoadData");
  check(cuModuleGetFunction(&nothing, module, "nothing"), "cuModuleGetFunction");
  check(cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(kAlone)),
        "cuFuncSetAttribute");
  return {count(nothing, 2), count(nothing, 4), count(nothing, 8)};
}

}  // namespace

const Clusters& clusters_of_gpu() {
  static const Clusters known = ask();
  return known;
}

}  // namespace varve::cuda
