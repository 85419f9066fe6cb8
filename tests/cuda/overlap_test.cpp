// Which kernels of a recorded step begin before those they follow have ended: the emulated GPU refuses one that does
// and does not wait.
#include <gtest/gtest.h>

#include "backends/cuda/device/context.h"
#include "backends/cuda/device/function.h"
#include "cuda/gpu_here.h"

namespace varve::cuda {
namespace {

class Overlap : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << no_gpu();
    if (!is_emulated()) GTEST_SKIP() << "this GPU is a real one, which does not tell";
    forgetful_ = Function("forgetful",
                          generated_kernel("extern \"C\" __global__ void forgetful(int* x) { x[threadIdx.x] += 1; }"));
    memory_ = context().allocate(32 * sizeof(int));
  }

  // A kernel that does not wait, after these pieces.
  Context::Piece piece(std::vector<int> after, const Launch& launch = {.grid = 1, .block = 32}) const {
    return {[this, launch] { forgetful_(launch, memory_->address); }, std::move(after)};
  }

  static bool overlaps(const std::vector<Context::Piece>& pieces) {
    const auto recording = context().record(pieces);
    try {
      recording->replay();
      context().wait();
      return false;
    } catch (const Error&) {
      return true;
    }
  }

  static constexpr Launch kEarly{.grid = 1, .block = 32, .early = true};

 private:
  Function forgetful_;
  std::shared_ptr<ir::Remote> memory_;
};

TEST_F(Overlap, ASmallKernelWithNothingBesideIt) {
  EXPECT_FALSE(overlaps({piece({})}));
  EXPECT_TRUE(overlaps({piece({}), piece({0})}));
  EXPECT_TRUE(overlaps({piece({}), piece({0}), piece({0}), piece({1, 2})}));
  EXPECT_FALSE(overlaps({piece({}), piece({0}, {.grid = 1000, .block = 32})}));
}

TEST_F(Overlap, NotBesideOthers) {
  EXPECT_FALSE(overlaps({piece({}), piece({0}), piece({0})}));
  EXPECT_FALSE(overlaps({piece({}), piece({}), piece({0}), piece({1})}));
  EXPECT_FALSE(overlaps({piece({}), piece({}), piece({0}), piece({2})}));
}

TEST_F(Overlap, AnywhereWithWorkToDoBeforeItWaits) {
  EXPECT_TRUE(overlaps({piece({}), piece({0}, kEarly), piece({0})}));
  EXPECT_TRUE(overlaps({piece({}), piece({}), piece({0}, kEarly)}));
}

}  // namespace
}  // namespace varve::cuda
