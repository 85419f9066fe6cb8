#include "cli/gpu.h"

#include <cctype>

#include "base/text.h"
#include "bench/gpu_watch.h"
#include "runtime/devices.h"

namespace varve::cli {

std::string Gpu::str() const {
  if (!usable()) return why_not;
  std::string text;
  for (const auto& [name, value] : facts) {
    const bool plain = name == "name" || name == "clock", count = name == "multiprocessors";
    text += cat(text.empty() ? "" : ", ", plain || count ? "" : name + " ", value, count ? " " + name : "");
  }
  return text;
}

nlohmann::ordered_json Gpu::json() const {
  nlohmann::ordered_json json{{"usable", usable()}};
  if (!usable()) json["reason"] = why_not;
  for (const auto& [name, value] : facts) {
    std::string key = name;  // "compute capability" is compute_capability there
    for (char& c : key) c = c == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    json[key] = value;
  }
  return json;
}

Gpu find_gpu() {
  Gpu gpu;
  try {
    gpu.facts = runtime::backend_named("cuda").device()->about();
  } catch (const Error& e) {
    gpu.why_not = e.what();
    for (const std::string prefix : {"device 'cuda': ", "device 'cuda' "})
      if (gpu.why_not.starts_with(prefix)) gpu.why_not.erase(0, prefix.size());
    return gpu;
  }
  // The driver knows itself by the CUDA it supports; its own number is what people install.
  if (const nlohmann::ordered_json seen = bench::gpu_facts(); seen.is_object())
    for (auto& [name, value] : gpu.facts)
      if (name == "driver") value = cat(seen.value("driver", ""), " (", value, ")");
  return gpu;
}

}  // namespace varve::cli
