// What a container allows: limits of the control groups that this process is in, versions 1 and 2.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace varve {

struct MemoryLimit {
  std::uint64_t bytes = 0;      // memory and swap space together
  std::uint64_t available = 0;  // of it, as far as others in the same container leave it; caches of files give way
};
// The tightest one; none when nothing limits this process. `root`: where /proc and /sys are, for tests.
std::optional<MemoryLimit> container_memory(const std::filesystem::path& root = "/");

// The most that this process can ever hold: the machine's memory and swap space, or what its container allows.
std::uint64_t most_memory();
// Of it, what is free now.
std::uint64_t free_memory();

}  // namespace varve
