// A data folder of its own for each test, and files that are cut, changed or made of noise.
#pragma once

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "io/files_for_tests.h"
#include "varve/data.h"

namespace varve::data {

using io::expect_error;
using io::message_of;

// An environment variable, put back in the end.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
  ~Setting() {
    if (before_) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

class SourceTest : public io::FilesTest {
 protected:
  std::string write(const std::string& name, std::string_view bytes) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    return FilesTest::write(name, bytes);
  }

 private:
  Setting data_{"VARVE_DATA", path("")};
};

inline const FetchOptions kOffline = {.download = false, .quiet = true};

// Reads everything a data set holds: files that lie are found out at the latest here.
inline void read_all(const Dataset& dataset) {
  std::vector<std::byte> x(dataset.x().bytes()), y(dataset.y().bytes());
  std::vector<float> scratch;
  for (std::int64_t i = 0; i < dataset.size(); ++i) dataset.read(i, 0, 0, x.data(), y.data(), scratch);
}

// Pseudo-random bytes, the same in every run.
inline std::string noise_bytes(std::size_t count, std::uint32_t seed) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    bytes += static_cast<char>(seed >> 24);
  }
  return bytes;
}

// Any bytes are read, or refused with an Error; nothing else may happen.
inline void survives(const std::function<void(const std::string& bytes)>& reads, const std::string& good) {
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    std::string bytes = noise_bytes(1 + seed * 7, seed);
    message_of([&] { reads(bytes); });
    if (good.empty()) continue;
    const std::string chosen = noise_bytes(8, seed);  // a good file with one byte changed, near its beginning or not
    bytes = good;
    const std::size_t range = seed % 2 == 0 ? good.size() : std::min<std::size_t>(good.size(), 16);
    bytes[static_cast<unsigned char>(chosen[0]) * std::size_t{131} % range] = chosen[1];
    message_of([&] { reads(bytes); });
  }
}

}  // namespace varve::data
