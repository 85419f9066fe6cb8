// `varve info`: the build and the machine.
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "base/text.h"
#include "commands.h"
#include "gpu.h"
#include "runtime/devices.h"
#include "text.h"
#include "varve/compile.h"
#include "varve/ops.h"
#ifdef VARVE_HAS_ONEDNN
#include "backends/cpu/onednn/onednn.h"
#endif

namespace varve::cli {
namespace {

std::string onednn() {
#ifdef VARVE_HAS_ONEDNN
  return cpu::dnn::version();
#else
  return "without oneDNN";
#endif
}

}  // namespace

int info(const InfoOptions& options) {
  const CacheSizes& caches = cache_sizes();
  if (options.json) {
    std::cout << nlohmann::ordered_json{{"version", VARVE_VERSION},
                                        {"cpu", cpu_name()},
                                        {"isa", isa_name()},
                                        {"physical_cores", physical_cores()},
                                        {"logical_cpus", logical_cpus()},
                                        {"threads", threads()},
                                        {"l1d", caches.l1d},
                                        {"l2", caches.l2},
                                        {"l3", caches.l3},
                                        {"onednn", onednn()},
                                        {"cuda", find_gpu().json()},
                                        {"backends", runtime::backend_names()},
                                        {"operators", operators().size()}}
                     .dump(2)
              << '\n';
    return kOk;
  }
  const auto size = [](std::int64_t bytes) { return human_bytes(static_cast<std::uint64_t>(bytes)); };
  std::cout << aligned({{"varve", VARVE_VERSION},
                        {"cpu", cpu_name()},
                        {"isa", isa_name()},
                        {"cores", cat(physical_cores(), " (", logical_cpus(), " logical)")},
                        {"threads", cat(threads())},
                        {"caches", cat(size(caches.l1d), ", ", size(caches.l2), ", ", size(caches.l3))},
                        {"oneDNN", onednn()},
                        {"cuda", find_gpu().str()},
                        {"backends", joined(runtime::backend_names(), ", ")},
                        {"operators", cat(operators().size())}});
  return kOk;
}

void use_device(const std::string& device, int thread_count) {
  if (!runtime::is_device_name(device)) {
    const std::vector<std::string> known = runtime::device_names();
    const std::string meant = nearest(device, known);
    throw UsageError(cat("unknown device '", device, "'.", meant.empty() ? "" : cat(" Did you mean '", meant, "'?"),
                         " Known: ", quoted_list(known), "."));
  }
  set_device(device);
  if (thread_count > 0) set_threads(thread_count);
}

}  // namespace varve::cli
