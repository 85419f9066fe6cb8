#include "base/container.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>

namespace varve {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
// Version 1 says "none" as the largest multiple of a page; nobody has that much memory.
constexpr std::uint64_t kTooMuch = std::uint64_t{1} << 60;

// A file with one number, or "max"; `otherwise` when it is not there.
std::uint64_t number_in(const fs::path& file, std::uint64_t otherwise) {
  std::ifstream in(file);
  std::string word;
  if (!(in >> word)) return otherwise;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size() && value < kTooMuch ? value : kNone;
}

// "inactive_file 4096": one of many lines.
std::uint64_t field_in(const fs::path& file, std::string_view name) {
  std::ifstream in(file);
  std::string key;
  for (std::uint64_t value = 0; in >> key >> value;)
    if (key == name) return value;
  return 0;
}

// A line of /proc/meminfo, in bytes.
std::uint64_t machine_memory(const fs::path& root, std::string_view name) {
  std::ifstream in(root / "proc/meminfo");
  std::string key, rest;
  for (std::uint64_t kilobytes = 0; in >> key >> kilobytes; std::getline(in, rest))
    if (key == name) return kilobytes * 1024;
  return 0;
}

std::uint64_t sum(std::uint64_t a, std::uint64_t b) { return a > kNone - b ? kNone : a + b; }

// Names of the files in which a version keeps its numbers.
struct Names {
  const char *limit, *used, *cache;
};

MemoryLimit tighter(MemoryLimit a, MemoryLimit b) {
  return {std::min(a.bytes, b.bytes), std::min(a.available, b.available)};
}

// The group at `folder`. Swap space counts as far as it may be used.
MemoryLimit limit_of(const fs::path& folder, const Names& names, std::uint64_t swap) {
  const std::uint64_t limit = number_in(folder / names.limit, kNone);
  if (limit == kNone) return {kNone, kNone};
  const std::uint64_t used = number_in(folder / names.used, 0), cache = field_in(folder / "memory.stat", names.cache);
  const std::uint64_t held = used == kNone ? 0 : used - std::min(used, cache);
  return {sum(limit, swap), sum(limit - std::min(limit, held), swap)};
}

// All groups from `path` up to the mount: each of them may have a limit. A container that sees only its own group
// under the mount is told the host's path, which does not exist there.
MemoryLimit limit_up(const fs::path& mount, fs::path path, const Names& names, bool second, std::uint64_t swap) {
  MemoryLimit limit{kNone, kNone};
  for (;; path = path.parent_path()) {
    const fs::path folder = mount / path.relative_path();
    std::uint64_t here = swap;
    if (second) {
      here = std::min(swap, number_in(folder / "memory.swap.max", kNone));
    } else if (const std::uint64_t both = number_in(folder / "memory.memsw.limit_in_bytes", kNone); both != kNone) {
      here = std::min(swap, both - std::min(both, number_in(folder / names.limit, kNone)));
    }
    limit = tighter(limit, limit_of(folder, names, here));
    if (path.empty() || path == path.root_path()) return limit;
  }
}

}  // namespace

std::optional<MemoryLimit> container_memory(const fs::path& root) {
  const std::uint64_t swap = machine_memory(root, "SwapTotal:");
  MemoryLimit limit{kNone, kNone};
  std::ifstream groups(root / "proc/self/cgroup");  // "0::/path" or "9:memory:/path"
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), last = line.find(':', first + 1);
    if (first == std::string::npos || last == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, last - first - 1) + ",";
    const std::string path = line.substr(last + 1);
    if (controllers == ",,")
      limit = tighter(
          limit, limit_up(root / "sys/fs/cgroup", path, {"memory.max", "memory.current", "inactive_file"}, true, swap));
    else if (controllers.find(",memory,") != std::string::npos)
      limit = tighter(limit,
                      limit_up(root / "sys/fs/cgroup/memory", path,
                               {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}, false, swap));
  }
  if (limit.bytes == kNone) return std::nullopt;
  return limit;
}

std::uint64_t most_memory() {
  const std::uint64_t machine = sum(machine_memory("/", "MemTotal:"), machine_memory("/", "SwapTotal:"));
  const std::optional<MemoryLimit> limit = container_memory();
  const std::uint64_t all = machine > 0 ? machine : kNone;
  return limit ? std::min(all, limit->bytes) : all;
}

std::uint64_t free_memory() {
  const std::uint64_t machine = machine_memory("/", "MemAvailable:");
  const std::optional<MemoryLimit> limit = container_memory();
  return limit ? std::min(machine, limit->available) : machine;
}

}  // namespace varve
