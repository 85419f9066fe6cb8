// Texts that NVRTC compiles for GPUs that need not be here.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>
#include <utility>

#include "backends/cuda/device/function.h"

namespace varve::cuda {

// The text compiles for this kind of GPU. Each is compiled once in a process, and hardly optimised, which takes a third
// of the time; VARVE_TEST_FULL=1 (`make test-slow`) has it compiled as for a GPU.
inline void expect_text_compiles(const KernelText& text, const std::string& arch) {
  static std::set<std::pair<KernelText, std::string>> tried;
  static const Optimize optimize = std::getenv("VARVE_TEST_FULL") ? Optimize::fully : Optimize::hardly;
  if (!tried.insert({text, arch}).second) return;
  EXPECT_FALSE(compile(text, arch, optimize).empty()) << text.file << " for " << arch;
}

// For the oldest and the newest kind of GPU that we know.
inline void expect_text_compiles(const KernelText& text) {
  for (const char* arch : {"sm_80", "sm_90a"}) expect_text_compiles(text, arch);
}

}  // namespace varve::cuda
