// Convolutions by Fourier transforms, every pass, against plain loops; and when the CPU backend takes them.
#include "backends/cpu/conv/fft/fft_convolution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "backends/conv_cases.h"
#include "varve/compile.h"
#include "varve/ops.h"

namespace varve::cpu::plain {
namespace {

constexpr ConvPass kFftPasses[] = {ConvPass::forward, ConvPass::input_grad, ConvPass::weight_grad};

TEST(FftConvolution, EveryPass) {
  const Sizes shapes[] = {{2, 11, 13, 19, 37}, {5, 7, 8, 3, 5}, {1, 16, 9, 32, 17}};
  for (const ConvPass pass : kFftPasses)
    for (const Sizes& sizes : shapes)
      for (const std::int64_t kernel : {1, 4, 7})
        for (const auto& [before, after] : {std::pair{0, 0}, {3, 3}, {1, 4}, {5, 2}}) {
          const ConvShape s = shape_of(sizes, kernel, before, after);
          const Case c = make_case(pass, s);
          const Values got = run(*fft_convolution(pass, s, {.workers = 2}), c.first, c.second, c.want.size());
          EXPECT_LE(error_of(got, c.want), 1e-5)
              << "pass " << static_cast<int>(pass) << " kernel " << kernel << " channels " << sizes.in << " to "
              << sizes.out << " padding " << before << "," << after;
        }
}

TEST(FftConvolution, BiasAndRelu) {
  const ConvShape s = shape_of({2, 9, 8, 5, 35}, 5, 2, 2);
  Case c = make_case(ConvPass::forward, s);
  const Values bias = values(35, 4);
  for (std::size_t i = 0; i < c.want.size(); ++i) c.want[i] = std::max(c.want[i] + bias[i % 35], 0.);
  const Values got =
      run(*fft_convolution(ConvPass::forward, s, {.relu = true}), c.first, c.second, c.want.size(), bias.data());
  EXPECT_LE(error_of(got, c.want), 1e-5);
}

TEST(FftConvolution, IsTakenForLargeKernelsAndLeftOut) {
  const auto kernels = [](std::int64_t kernel) {
    auto program = compile([&](Tensor x, Tensor w) { return conv2d(x, w); });
    return program.text(zeros({8, 40, 40, 64}), zeros({64, kernel, kernel, 64}));
  };
  EXPECT_NE(kernels(15).find("fft conv2d  <-  "), std::string::npos) << kernels(15);
  EXPECT_EQ(kernels(3).find("fft conv2d  <-  "), std::string::npos);
  setenv("VARVE_WITHOUT", "fft", 1);
  EXPECT_EQ(kernels(15).find("fft conv2d  <-  "), std::string::npos);
  unsetenv("VARVE_WITHOUT");
}

}  // namespace
}  // namespace varve::cpu::plain
