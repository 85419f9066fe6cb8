// The GPU seen from outside the process that uses it, by NVIDIA's management library (NVML): what it is, how busy it
// is, and what it uses. Everything is null or nothing where there is no such library or no GPU.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace varve::bench {

// Of the GPU that programs call cuda: name, driver, cuda, memory_bytes, sm_mhz_max, memory_mhz_max, watts_max.
nlohmann::ordered_json gpu_facts();

struct GpuSample {
  double at = 0;           // seconds of the steady clock, which all processes of the machine share
  double utilisation = 0;  // share of the moment before in which a kernel ran
  std::int64_t used_bytes = 0;
  double joules = 0;  // since the driver was loaded; 0: not told
  double sm_mhz = 0, memory_mhz = 0;
};

// What happened between two points of time: utilisation, used_bytes (above `used_before`), watts, joules, sm_mhz,
// memory_mhz; null when nobody looked meanwhile.
nlohmann::ordered_json between(const std::vector<GpuSample>& samples, double begin, double end,
                               std::int64_t used_before);

// Looks at the GPU while a worker runs there.
class GpuWatch {
 public:
  explicit GpuWatch(const std::string& device);  // watches nothing unless the device is a GPU
  void look();                                   // as often as one likes: ten times a second are enough
  nlohmann::ordered_json between(double begin, double end) const;

 private:
  bool on_ = false;
  std::int64_t used_before_ = 0;
  std::vector<GpuSample> samples_;
};

}  // namespace varve::bench
