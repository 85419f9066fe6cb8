#include "bench/scratch.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/text.h"

namespace varve::bench {

Scratch::Scratch() {
  folder_ = (std::filesystem::temp_directory_path() / "varve-bench-XXXXXX").string();
  if (!mkdtemp(folder_.data())) throw Error(cat("cannot make a folder like ", folder_, ": ", std::strerror(errno)));
}

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace varve::bench
