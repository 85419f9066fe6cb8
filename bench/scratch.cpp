#include "bench/scratch.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/text.h"

namespace varve::bench {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "varve-bench-";

// "varve-bench-123-Ab3xYz" of a process 123 that is no more: it was killed, or stopped with Ctrl-C. Weights of hundreds
// of megabytes would stay behind.
bool is_left_over(const fs::path& folder) {
  const std::string name = folder.filename().string();
  int process = 0;
  const char* const end = name.data() + name.size();
  if (!name.starts_with(kPrefix)) return false;
  const auto [rest, failed] = std::from_chars(name.data() + kPrefix.size(), end, process);
  return failed == std::errc() && rest != end && *rest == '-' && process > 0 && kill(process, 0) != 0 && errno == ESRCH;
}

}  // namespace

Scratch::Scratch() {
  const fs::path place = fs::temp_directory_path();
  std::error_code ignored;  // another's folder cannot be removed, and need not be
  for (const fs::directory_entry& entry : fs::directory_iterator(place, ignored))
    if (is_left_over(entry.path())) fs::remove_all(entry.path(), ignored);
  folder_ = (place / cat(kPrefix, getpid(), "-XXXXXX")).string();
  if (!mkdtemp(folder_.data())) throw Error(cat("cannot make a folder like ", folder_, ": ", std::strerror(errno)));
}

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace varve::bench
