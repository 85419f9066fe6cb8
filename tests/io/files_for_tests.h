// A folder of its own for each test, files of given bytes, and the texts of errors.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>

#include "temporary_folder.h"
#include "varve/error.h"

namespace varve::io {

class FilesTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
  std::string write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path(name), std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path(name);
  }

 private:
  test::TemporaryFolder folder_;
};

inline std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return bytes;
}

// What Error says; anything else that is thrown passes on, and fails the test.
inline std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

inline void expect_error(const std::function<void()>& f, const std::string& part) {
  const std::string message = message_of(f);
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

}  // namespace varve::io
