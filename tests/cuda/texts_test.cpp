// Kernel texts compile for every kind of GPU, without one.
#include <gtest/gtest.h>

#include "backends/cuda/function.h"
#include "backends/cuda/kernel_texts.h"
#include "varve/error.h"

namespace varve::cuda {
namespace {

TEST(KernelTexts, ThePreludeCompiles) {
  for (const char* arch : {"sm_80", "sm_90a"}) EXPECT_FALSE(compile(prelude(), arch).empty()) << arch;
}

// A kernel that forgets to would read what earlier ones of its step are still to write.
TEST(KernelTexts, EveryKernelWaitsForEarlierOnes) {
  int kernels = 0;
  for (const auto& [name, text] : kernel_texts())
    for (std::size_t at = text.find("__global__"); at != std::string::npos; at = text.find("__global__", at + 1)) {
      const std::size_t body = text.find('{', at) + 1;
      const std::string first = text.substr(text.find_first_not_of(" \n", body), 20);
      const bool begins = first.starts_with("begin_kernel();") || first.starts_with("let_next_begin();");
      EXPECT_TRUE(begins) << name << ": " << first;
      kernels += begins ? 1 : 0;
    }
  EXPECT_GT(kernels, 60);
}

TEST(KernelTexts, AnErrorShowsTheLog) {
  try {
    compile("extern \"C\" __global__ void k() { undeclared = 1; }", "sm_90");
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("undeclared"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace varve::cuda
