// `varve info`: the build and the machine.
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "base/text.h"
#include "cli/gpu.h"
#include "cli/menu.h"
#include "cli/text.h"
#include "runtime/devices.h"
#include "varve/compile.h"
#include "varve/ops.h"
#include "varve/version.h"
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

int run_info(bool json) {
  const CacheSizes& caches = cache_sizes();
  if (json) {
    std::cout << nlohmann::ordered_json{{"version", version()},
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
  std::cout << aligned({{"varve", version()},
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

}  // namespace

void add_info(Menu& menu) {
  auto json = std::make_shared<bool>(false);
  menu.command({.name = "info",
                .what = "Say what this build and this machine offer",
                .examples = "Example: varve info --json"},
               [json] { return run_info(*json); })
      .flag("--json", *json, "one JSON object");
}

}  // namespace varve::cli
