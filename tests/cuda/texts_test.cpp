// Kernel texts compile for every kind of GPU, without one.
#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/compiles.h"
#include "varve/error.h"

namespace varve::cuda {
namespace {

TEST(KernelTexts, SharedHeadersCompileAlone) {
  for (const auto& [name, text] : kernel_files()) {
    if (!name.starts_with("kernels/") || text.find("generated.cuh") != std::string::npos) continue;
    const KernelText alone = generated_kernel("#include \"" + name + "\"\n");
    expect_text_compiles(alone, "sm_90a");
    if (name == "kernels/tma.cuh") continue;  // for compute capability 9.0 alone
    expect_text_compiles(alone, "sm_80");
  }
}

TEST(KernelTexts, AFileReachesWhatItsHeadersInclude) {
  std::vector<std::string> names;
  for (const NamedText& part : reached_texts({"pool/max_pool.cu", "#include \"kernels/formula.cuh\"\n"}))
    names.push_back(part.name);
  for (const char* name : {"kernels/prelude.cuh", "kernels/pack.cuh", "kernels/formula.cuh", "pool/window_max.cuh"})
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  EXPECT_EQ(names[0], "pool/max_pool.cu");
  EXPECT_THROW(reached_texts({"pool/none.cu", ""}), Error);
}

TEST(KernelTexts, TheHashHearsOfHeaders) {
  const std::string none = hash_of({"pool/max_pool.cu", ""});
  EXPECT_EQ(none, hash_of({"pool/max_pool.cu", ""}));
  EXPECT_NE(none, hash_of({"pool/max_pool.cu", "\n"}));
  EXPECT_NE(none, hash_of({"pool/max_pool_grad.cu", ""}));
  EXPECT_NE(hash_of(generated_kernel("#include \"kernels/pack.cuh\"\n")),
            hash_of(generated_kernel("#include \"kernels/convert.cuh\"\n")));
}

// A kernel that forgets to would read what earlier ones of its step are still to write.
TEST(KernelTexts, EveryKernelWaitsForEarlierOnes) {
  int kernels = 0;
  for (const auto& [name, text] : kernel_files())
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
    compile(generated_kernel("extern \"C\" __global__ void k() { undeclared = 1; }"), "sm_90");
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("undeclared"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace varve::cuda
