#include "runtime/devices.h"

#include <cstdlib>
#include <mutex>

#include "base/text.h"
#include "varve/tensor.h"

namespace varve {
namespace runtime {
namespace {

const std::vector<std::unique_ptr<backend::Backend>>& backends() {
  static const std::vector<std::unique_ptr<backend::Backend>> all = built_in_backends();
  return all;
}

}  // namespace

const backend::Backend& backend_named(const std::string& name) {
  for (const auto& backend : backends())
    if (backend->name() == name) return *backend;
  std::string known;
  for (const std::string& other : backend_names()) known += (known.empty() ? "" : ", ") + other;
  throw Error(cat("device '", name, "' is unknown. Known devices: ", known, "."));
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const auto& backend : backends()) names.push_back(backend->name());
  return names;
}

}  // namespace runtime

namespace {
std::mutex device_mutex;
std::string& current_device() {
  static std::string name = runtime::backend_names().front();
  return name;
}
}  // namespace

void set_device(const std::string& name) {
  runtime::backend_named(name);
  const std::lock_guard lock(device_mutex);
  current_device() = name;
}

std::string device() {
  const std::lock_guard lock(device_mutex);
  return current_device();
}

}  // namespace varve
