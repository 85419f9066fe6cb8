// What the GPU is and what it can do at best, for people and for profiles.
#include <cublasLt.h>
#include <cudnn_graph.h>
#include <nvrtc.h>

#include <algorithm>

#include "backends/cuda/device/context.h"
#include "backends/cuda/device/status.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

// Floating-point operations that a multiprocessor does in a clock, a multiply-add being two: what NVIDIA's papers on
// each architecture give, dense. Tensor cores multiply tf32 and bf16.
struct Rates {
  int major, minor;
  double f32, tf32, bf16;
};
constexpr Rates kRates[] = {
    {8, 0, 128, 1024, 2048},   // A100
    {8, 6, 256, 256, 512},     // A10, GeForce 30
    {8, 9, 256, 512, 1024},    // L40, GeForce 40 (which has half of the tensor cores' rate)
    {9, 0, 256, 2048, 4096},   // H100, H200
    {10, 0, 256, 4096, 8192},  // B200
    {12, 0, 256, 256, 512},    // GeForce 50
};

// Of this architecture, else of the newest that is older.
Rates rates_of(const Gpu& gpu) {
  Rates best = kRates[0];
  for (const Rates& rates : kRates)
    if (std::pair(rates.major, rates.minor) <= std::pair(gpu.major, gpu.minor)) best = rates;
  return best;
}

double clock_hertz(const Gpu& gpu) {
  CUdevice device = 0;
  int kilohertz = 0;
  check(cuDeviceGet(&device, gpu.ordinal), "cuDeviceGet");
  check(cuDeviceGetAttribute(&kilohertz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device), "cuDeviceGetAttribute");
  return 1e3 * kilohertz;
}

// 13020 → "13.0.2" with 1000 and 10, as CUDA numbers itself.
std::string version(std::size_t number, std::size_t major, std::size_t minor) {
  const std::size_t rest = number % major;
  return cat(number / major, ".", rest / minor, rest % minor ? cat(".", rest % minor) : "");
}

}  // namespace

backend::DevicePeaks Context::peaks() {
  static const backend::DevicePeaks measured = [this] {
    const Rates rates = rates_of(gpu_);
    const double clocks = 1e-9 * clock_hertz(gpu_) * gpu_.multiprocessors;  // GFLOP/s for each operation in a clock
    backend::DevicePeaks peaks{.f32 = clocks * rates.f32, .tf32 = clocks * rates.tf32, .bf16 = clocks * rates.bf16};
    // Far more than the second-level cache holds, and little of the memory.
    const std::size_t bytes = std::min<std::size_t>(std::size_t{512} << 20, gpu_.memory / 32);
    const std::shared_ptr<ir::Remote> from = allocate(bytes), to = allocate(bytes);
    const std::vector<double> seconds =
        time(std::vector<std::function<void()>>(8, [&] { copy(to->address, from->address, bytes); }));
    peaks.gbps = 2e-9 * static_cast<double>(bytes) / *std::min_element(seconds.begin(), seconds.end());
    return peaks;
  }();
  return measured;
}

backend::DeviceFacts Context::about() const {
  int driver = 0, nvrtc_major = 0, nvrtc_minor = 0;
  check(cuDriverGetVersion(&driver), "cuDriverGetVersion");
  check(nvrtcVersion(&nvrtc_major, &nvrtc_minor), "nvrtcVersion");
  return {{"name", gpu_.name},
          {"compute capability", cat(gpu_.major, ".", gpu_.minor)},
          {"multiprocessors", cat(gpu_.multiprocessors)},
          {"clock", cat(static_cast<int>(1e-6 * clock_hertz(gpu_)), " MHz at most")},
          {"memory", human_bytes(gpu_.memory)},
          {"driver", "CUDA " + version(static_cast<std::size_t>(driver), 1000, 10)},
          {"NVRTC", cat(nvrtc_major, ".", nvrtc_minor)},
          {"cuBLASLt", version(cublasLtGetVersion(), 10000, 100)},
          {"cuDNN", version(cudnnGetVersion(), 10000, 100)},
          {"NCCL", nccl_version()}};
}

}  // namespace varve::cuda
