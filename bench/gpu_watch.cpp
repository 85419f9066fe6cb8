#include "bench/gpu_watch.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>

#include "base/text.h"

namespace varve::bench {
namespace {

using nlohmann::ordered_json;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The few functions that are needed, declared here so that nothing of NVIDIA's is needed to build. All return 0 when
// they could.
class Nvml {
 public:
  // Opened once; null when there is no library, no GPU, or no permission.
  static const Nvml* get() {
    static const Nvml* const one = [] {
      auto opened = new Nvml;
      return opened->open() ? opened : nullptr;
    }();
    return one;
  }

  ordered_json facts() const {
    char name[128] = "", driver[128] = "";
    int cuda = 0;
    Memory memory{};
    unsigned sm = 0, ram = 0, milliwatts = 0;
    if (name_) name_(device_, name, sizeof name);
    if (driver_) driver_(driver, sizeof driver);
    if (cuda_) cuda_(&cuda);
    if (memory_) memory_(device_, &memory);
    if (most_clock_) most_clock_(device_, kSmClock, &sm), most_clock_(device_, kMemoryClock, &ram);
    if (power_) power_(device_, &milliwatts);
    return {{"name", name},
            {"driver", driver},
            {"cuda", cat(cuda / 1000, ".", cuda % 1000 / 10)},
            {"memory_bytes", memory.total},
            {"sm_mhz_max", sm},
            {"memory_mhz_max", ram},
            {"watts_max", milliwatts / 1e3}};
  }

  std::optional<GpuSample> sample() const {
    GpuSample s{.at = now()};
    Utilisation busy{};
    Memory memory{};
    unsigned long long millijoules = 0;
    unsigned sm = 0, ram = 0;
    if (!utilisation_ || utilisation_(device_, &busy) != 0) return std::nullopt;
    if (memory_ && memory_(device_, &memory) == 0) s.used_bytes = static_cast<std::int64_t>(memory.used);
    if (energy_ && energy_(device_, &millijoules) == 0) s.joules = 1e-3 * static_cast<double>(millijoules);
    if (clock_ && clock_(device_, kSmClock, &sm) == 0) s.sm_mhz = sm;
    if (clock_ && clock_(device_, kMemoryClock, &ram) == 0) s.memory_mhz = ram;
    s.utilisation = busy.gpu / 100.0;
    return s;
  }

 private:
  using Device = void*;
  struct Utilisation {
    unsigned gpu, memory;  // per cent
  };
  struct Memory {
    unsigned long long total, free, used;
  };
  static constexpr int kSmClock = 1, kMemoryClock = 2;

  bool open() {
    library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library_) return false;
    int (*init)() = nullptr;
    int (*handle)(unsigned, Device*) = nullptr;
    if (!find(init, "nvmlInit_v2") || !find(handle, "nvmlDeviceGetHandleByIndex_v2") || init() != 0) return false;
    find(name_, "nvmlDeviceGetName"), find(driver_, "nvmlSystemGetDriverVersion");
    find(cuda_, "nvmlSystemGetCudaDriverVersion_v2"), find(memory_, "nvmlDeviceGetMemoryInfo");
    find(utilisation_, "nvmlDeviceGetUtilizationRates"), find(energy_, "nvmlDeviceGetTotalEnergyConsumption");
    find(clock_, "nvmlDeviceGetClockInfo"), find(most_clock_, "nvmlDeviceGetMaxClockInfo");
    find(power_, "nvmlDeviceGetEnforcedPowerLimit");
    return handle(first_visible(), &device_) == 0;
  }

  // CUDA_VISIBLE_DEVICES may put another GPU first; NVML counts all of them.
  static unsigned first_visible() {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return visible && *visible >= '0' && *visible <= '9' ? static_cast<unsigned>(std::atoi(visible)) : 0;
  }

  template <class Function>
  bool find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(library_, name));
    return function != nullptr;
  }

  void* library_ = nullptr;
  Device device_ = nullptr;
  int (*name_)(Device, char*, unsigned) = nullptr;
  int (*driver_)(char*, unsigned) = nullptr;
  int (*cuda_)(int*) = nullptr;
  int (*memory_)(Device, Memory*) = nullptr;
  int (*utilisation_)(Device, Utilisation*) = nullptr;
  int (*energy_)(Device, unsigned long long*) = nullptr;
  int (*clock_)(Device, int, unsigned*) = nullptr;
  int (*most_clock_)(Device, int, unsigned*) = nullptr;
  int (*power_)(Device, unsigned*) = nullptr;
};

// The counter at a point of time, on the line between its neighbours.
double joules_at(const std::vector<GpuSample>& samples, double at) {
  const auto after = std::find_if(samples.begin(), samples.end(), [at](const GpuSample& s) { return s.at >= at; });
  if (after == samples.begin()) return samples.front().joules;
  if (after == samples.end()) return samples.back().joules;
  const auto before = std::prev(after);
  const double share = (at - before->at) / (after->at - before->at);
  return before->joules + share * (after->joules - before->joules);
}

}  // namespace

ordered_json gpu_facts() {
  const Nvml* nvml = Nvml::get();
  return nvml ? nvml->facts() : ordered_json(nullptr);
}

ordered_json between(const std::vector<GpuSample>& samples, double begin, double end, std::int64_t used_before) {
  double busy = 0, sm = 0, ram = 0, count = 0;
  std::int64_t used = 0;
  for (const GpuSample& s : samples) {
    used = std::max(used, s.used_bytes - used_before);  // at any time: memory is held before and after the clock runs
    if (s.at < begin || s.at > end) continue;
    busy += s.utilisation, sm += s.sm_mhz, ram += s.memory_mhz, ++count;
  }
  if (count == 0) return nullptr;
  ordered_json seen{
      {"utilisation", busy / count}, {"used_bytes", used}, {"sm_mhz", sm / count}, {"memory_mhz", ram / count}};
  const double joules = joules_at(samples, end) - joules_at(samples, begin);
  if (joules > 0) seen["joules"] = joules, seen["watts"] = joules / (end - begin);
  return seen;
}

GpuWatch::GpuWatch(const std::string& device) {
  if (!device.starts_with("cuda") || !Nvml::get()) return;
  on_ = true;
  if (const auto before = Nvml::get()->sample()) used_before_ = before->used_bytes;
}

void GpuWatch::look() {
  if (!on_ || (!samples_.empty() && now() < samples_.back().at + 0.1)) return;
  if (const auto sample = Nvml::get()->sample()) samples_.push_back(*sample);
}

ordered_json GpuWatch::between(double begin, double end) const {
  return bench::between(samples_, begin, end, used_before_);
}

}  // namespace varve::bench
