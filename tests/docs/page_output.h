// What the snippets of a page print, held back so that the page's own claim can be checked; and an empty folder for
// what they write.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <sstream>
#include <string>

namespace varve::test {

class PageOutput {
 public:
  PageOutput() : saved_(std::cout.rdbuf(text_.rdbuf())) {
    std::filesystem::create_directories(folder_);
    std::filesystem::current_path(folder_);
  }
  ~PageOutput() {
    std::cout.rdbuf(saved_);
    std::cout << std::noboolalpha;
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(folder_);
  }
  PageOutput(const PageOutput&) = delete;
  PageOutput& operator=(const PageOutput&) = delete;

  // Everything since the last call.
  std::string take() {
    std::string printed = text_.str();
    text_.str("");
    return printed;
  }

 private:
  std::ostringstream text_;
  std::streambuf* saved_;
  std::filesystem::path before_ = std::filesystem::current_path();
  std::filesystem::path folder_ = std::filesystem::temp_directory_path() / ("varve_docs_" + std::to_string(::getpid()));
};

inline void expect_printed(PageOutput& page, const std::string& expected, int line) {
  EXPECT_EQ(page.take(), expected) << "line " << line << " of the page";
}

}  // namespace varve::test
