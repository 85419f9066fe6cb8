// The plain Winograd kernels, every tile size and pass, against plain loops; and when the CPU backend takes it.
#include "backends/cpu/conv/winograd/winograd.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <tuple>

#include "backends/conv_cases.h"
#include "backends/instruction_sets.h"
#include "base/half.h"
#include "varve/compile.h"
#include "varve/ops.h"

namespace varve::cpu::plain {
namespace {

template <class T>
std::vector<T> run(ConvPass pass, const ConvShape& s, const WinogradOptions& options, const std::vector<T>& first,
                   const std::vector<T>& second, std::size_t size, const float* bias = nullptr) {
  return run(*winograd(pass, s, options), first, second, size, bias);
}

constexpr WinogradSize kTileSizes[] = {{4, 2}, {6, 4}, {8, 6}, {6, 2}, {8, 4}, {8, 2}};
constexpr ConvPass kWinogradPasses[] = {ConvPass::forward, ConvPass::input_grad, ConvPass::weight_grad};

void check_every_pass() {
  const Sizes shapes[] = {{2, 11, 13, 19, 37}, {17, 7, 8, 3, 5}, {1, 16, 9, 32, 70}};
  for (const WinogradSize size : kTileSizes)
    for (const ConvPass pass : kWinogradPasses)
      for (const Sizes& sizes : shapes)
        for (const auto& [before, after] : {std::pair{0, 0}, {size.kernel() / 2, size.kernel() / 2}, {1, 3}}) {
          const ConvShape s = shape_of(sizes, size.kernel(), before, after);
          const Case c = make_case(pass, s);
          const Values got = run(pass, s, {.size = size, .workers = 2}, c.first, c.second, c.want.size());
          EXPECT_LE(error_of(got, c.want), 2e-4)
              << "F(" << size.out << "," << size.kernel() << ") pass " << static_cast<int>(pass) << " channels "
              << sizes.in << " to " << sizes.out << " padding " << before << "," << after;
        }
}

TEST(Winograd, EveryPassEverySize) { check_every_pass(); }

TEST(Winograd, OnAvx2) {
  const testing::Avx2Only older;
  check_every_pass();
}

TEST(Winograd, BiasAndReluAndNan) {
  const ConvShape s = shape_of({2, 9, 8, 5, 35}, 3, 1, 1);
  Case c = make_case(ConvPass::forward, s);
  const Values bias = values(35, 4);
  for (std::size_t i = 0; i < c.want.size(); ++i) c.want[i] = std::max(c.want[i] + bias[i % 35], 0.);
  const WinogradOptions options{.size = {6, 4}, .relu = true};
  EXPECT_LE(error_of(run(ConvPass::forward, s, options, c.first, c.second, c.want.size(), bias.data()), c.want), 1e-4);
  c.first[0] = NAN;
  EXPECT_TRUE(std::isnan(run(ConvPass::forward, s, options, c.first, c.second, c.want.size(), bias.data())[0]));
}

TEST(Winograd, Bf16ImagesAreSummedInF32) {
  const ConvShape s = shape_of({3, 9, 8, 21, 35}, 5, 2, 2);
  for (const ConvPass pass : kWinogradPasses) {
    const auto narrowed = [](const Values& from) {
      std::vector<bfloat16> to;
      for (const float x : from) to.push_back(narrow<bfloat16>(x));
      return to;
    };
    const auto widened = [](const std::vector<bfloat16>& from) {
      Values to;
      for (const bfloat16 x : from) to.push_back(widen(x));
      return to;
    };
    const Case c = make_case(pass, s);
    const auto first = narrowed(c.first), second = narrowed(c.second);
    const Values full = run(pass, s, {.size = {8, 4}}, widened(first), widened(second), c.want.size());
    const auto got = run(pass, s, {.size = {8, 4}, .dtype = bf16, .workers = 2}, first, second, c.want.size());
    EXPECT_EQ(widened(got), widened(narrowed(full)));
  }
}

TEST(Winograd, TheSameBitsForAnyNumberOfWorkers) {
  const ConvShape s = shape_of({17, 13, 12, 20, 40}, 5, 0, 0);
  for (const ConvPass pass : kWinogradPasses) {
    const Case c = make_case(pass, s);
    const Values one = run(pass, s, {.size = {8, 4}, .workers = 1}, c.first, c.second, c.want.size());
    for (const int workers : {2, 3, 7})
      EXPECT_EQ(run(pass, s, {.size = {8, 4}, .workers = workers}, c.first, c.second, c.want.size()), one);
  }
}

TEST(Winograd, RefusesWhatItCannotDo) {
  const ConvShape plain = shape_of({2, 9, 8, 16, 16}, 3, 1, 1);
  EXPECT_EQ(winograd_refusal(plain, {6, 4}, f32), "");
  EXPECT_NE(winograd_refusal(plain, {6, 4}, f64), "");
  EXPECT_NE(winograd_refusal(plain, {8, 4}, f32), "");
  ConvShape strided = plain, dilated = plain, grouped = plain;
  strided.stride_width = 2;
  dilated.dilation_height = 2;
  grouped.groups = 2;
  for (const ConvShape& s : {strided, dilated, grouped}) EXPECT_NE(winograd_refusal(s, {6, 4}, f32), "");
}

// ---- when it is chosen

std::string kernels_of(const Shape& x, const Shape& w) {
  const auto program = detail::compile(
      [](const std::vector<Tensor>& in) { return std::vector<Tensor>{relu(conv2d(in[0], in[1]) + in[2])}; },
      {.device = "cpu"});
  return detail::text(*program, {zeros(x), zeros(w), zeros({w[0]})});
}

// An environment variable for a while.
struct Environment {
  Environment(const char* variable, const char* value) : name(variable) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name); }
  const char* name;
};

TEST(WinogradChoice, WhereItIsCheaperAndTheWorkspaceIsThere) {
  const Shape x{4, 16, 16, 32}, w{64, 5, 5, 32};
  EXPECT_NE(kernels_of(x, w).find("winograd F(4×4,5×5) conv2d+bias+relu  <-"), std::string::npos) << kernels_of(x, w);
  EXPECT_EQ(kernels_of({4, 3, 3, 32}, {64, 3, 3, 32}).find("winograd F(4×4,3×3) conv2d+"), std::string::npos);
  {
    const Environment limit("VARVE_WORKSPACE_MB", "0");
    EXPECT_NE(kernels_of(x, w).find("MB of workspace"), std::string::npos);
  }
  const Environment without("VARVE_WITHOUT", "layouts,winograd");
  EXPECT_NE(kernels_of(x, w).find("left out by VARVE_WITHOUT"), std::string::npos);
}

}  // namespace
}  // namespace varve::cpu::plain
