// What the snippets of a page print, held back so that the page's own claim can be checked; and an empty folder for
// what they write.
#pragma once

#include <gtest/gtest.h>

#include <iostream>
#include <sstream>
#include <string>

#include "temporary_folder.h"

namespace varve::test {

class PageOutput {
 public:
  PageOutput() : saved_(std::cout.rdbuf(text_.rdbuf())) {}
  ~PageOutput() {
    std::cout.rdbuf(saved_);
    std::cout << std::noboolalpha;
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
  WorkingFolder folder_;
};

inline void expect_printed(PageOutput& page, const std::string& expected, int line) {
  EXPECT_EQ(page.take(), expected) << "line " << line << " of the page";
}

}  // namespace varve::test
