#include "runtime/devices.h"

#include <map>
#include <mutex>
#include <optional>

#include "backend/device.h"
#include "base/ranks.h"
#include "base/text.h"
#include "runtime/plugin.h"
#include "varve/tensor.h"

namespace varve {
namespace runtime {
namespace {

// What was built in, and what was loaded since. Never destroyed: programs may outlive static objects.
struct Backends {
  std::mutex mutex;
  std::vector<std::unique_ptr<backend::Backend>> built_in = built_in_backends();
  std::map<int, std::unique_ptr<backend::Backend>> cuda;
};
Backends& backends() {
  static auto& all = *new Backends;
  return all;
}

// "gpu" is another word for "cuda".
std::string device_word(const std::string& name) {
  return name == "gpu" || name.rfind("gpu:", 0) == 0 ? "cuda" + name.substr(3) : name;
}

// The number in "cuda" (0) or "cuda:1"; none for other names.
std::optional<int> cuda_ordinal(const std::string& word) {
  const std::string name = device_word(word);
  if (name == "cuda") return 0;
  if (name.size() < 6 || name.size() > 8 || name.rfind("cuda:", 0) != 0) return std::nullopt;
  if (name.find_first_not_of("0123456789", 5) != std::string::npos) return std::nullopt;
  return std::stoi(name.substr(5));
}

// Among the ranks of a machine, "cuda" is the GPU of the rank's number there; more ranks than GPUs share them.
std::string own_device(const std::string& name) {
  const std::string word = device_word(name);
  if (word != "cuda" || rank_place().local_rank == 0) return word;
  const int gpus = count_gpus(), own = gpus > 0 ? rank_place().local_rank % gpus : 0;
  return own == 0 ? word : cat("cuda:", own);
}

}  // namespace

const backend::Backend& backend_named(const std::string& name) {
  Backends& all = backends();
  for (const auto& backend : all.built_in)
    if (backend->name() == name) return *backend;
  if (const std::optional<int> ordinal = cuda_ordinal(own_device(name))) {
    const std::lock_guard lock(all.mutex);
    auto& loaded = all.cuda[*ordinal];
    if (!loaded) loaded = load_cuda_backend(*ordinal);
    return *loaded;
  }
  std::string known;
  for (const std::string& other : device_names()) known += (known.empty() ? "" : ", ") + other;
  throw Error(cat("device '", name, "' is unknown. Known devices: ", known, "."));
}

bool is_device_name(const std::string& name) {
  if (cuda_ordinal(name)) return true;
  for (const auto& backend : backends().built_in)
    if (backend->name() == name) return true;
  return false;
}

std::string loaded_device(const void* device) {
  Backends& all = backends();
  const std::lock_guard lock(all.mutex);
  for (const auto& [ordinal, backend] : all.cuda)
    if (backend && backend->device() == device) return backend->name();
  return all.built_in.front()->name();
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const auto& backend : backends().built_in) names.push_back(backend->name());
  return names;
}

std::vector<std::string> device_names() {
  std::vector<std::string> names = backend_names();
  names.insert(names.begin() + 1, "cuda");
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
  current_device() = runtime::own_device(name);
}

std::string device() {
  const std::lock_guard lock(device_mutex);
  return current_device();
}

namespace {
backend::Device* device_named(const std::string& name) {
  return runtime::backend_named(name.empty() ? device() : name).device();
}
}  // namespace

bool has_own_memory(const std::string& name) { return device_named(name) != nullptr; }

void synchronize(const std::string& name) {
  if (backend::Device* device = device_named(name)) device->wait();
}

}  // namespace varve
