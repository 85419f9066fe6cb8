// Convolutions over few input channels against plain loops; and when the CPU backend takes them.
#include "backends/cpu/conv/direct/few_channels.h"

#include <gtest/gtest.h>

#include "backends/conv_cases.h"
#include "backends/instruction_sets.h"
#include "varve/compile.h"
#include "varve/ops.h"

namespace varve::cpu::plain {
namespace {

constexpr ConvPass kPasses[] = {ConvPass::forward, ConvPass::weight_grad};

void check_both_passes() {
  struct Row {
    Sizes sizes;
    std::int64_t kernel, before, after, stride;
  };
  const Row rows[] = {{{2, 11, 13, 1, 32}, 5, 0, 0, 1},
                      {{17, 9, 8, 3, 30}, 3, 1, 1, 1},
                      {{1, 31, 30, 3, 77}, 11, 2, 3, 4},
                      {{3, 12, 12, 7, 64}, 7, 3, 3, 2},
                      {{2, 5, 5, 2, 25}, 1, 0, 0, 3}};
  for (const Row& r : rows)
    for (const ConvPass pass : kPasses) {
      const ConvShape s = shape_of(r.sizes, r.kernel, r.before, r.after, r.stride);
      const Case c = make_case(pass, s);
      const Values got = run(*few_channels_convolution(pass, s, false, 2), c.first, c.second, c.want.size());
      EXPECT_LE(error_of(got, c.want), 1e-5) << r.kernel << " taps wide, pass " << static_cast<int>(pass);
    }
}

TEST(FewChannelsConv, BothPasses) { check_both_passes(); }

TEST(FewChannelsConv, OnAvx2) {
  const testing::Avx2Only older;
  check_both_passes();
}

TEST(FewChannelsConv, BiasAndReluAndNan) {
  const ConvShape s = shape_of({2, 9, 8, 3, 29}, 3, 1, 1);
  Case c = make_case(ConvPass::forward, s);
  const Values bias = values(29, 4);
  for (std::size_t i = 0; i < c.want.size(); ++i) c.want[i] = std::max(c.want[i] + bias[i % 29], 0.);
  const auto conv = few_channels_convolution(ConvPass::forward, s, true, 1);
  EXPECT_LE(error_of(run(*conv, c.first, c.second, c.want.size(), bias.data()), c.want), 1e-5);
  c.first[0] = NAN;
  EXPECT_TRUE(std::isnan(run(*conv, c.first, c.second, c.want.size(), bias.data())[0]));
}

TEST(FewChannelsConv, TheSameBitsForAnyNumberOfWorkers) {
  const ConvShape s = shape_of({5, 13, 12, 3, 40}, 5, 2, 2);
  for (const ConvPass pass : kPasses) {
    const Case c = make_case(pass, s);
    const Values one = run(*few_channels_convolution(pass, s, false, 1), c.first, c.second, c.want.size());
    for (const int workers : {2, 3, 7})
      EXPECT_EQ(run(*few_channels_convolution(pass, s, false, workers), c.first, c.second, c.want.size()), one);
  }
}

TEST(FewChannelsConv, IsChosenForPictures) {
  const auto text = [](const Shape& x, const Shape& w) {
    const auto program = detail::compile(
        [](const std::vector<Tensor>& in) {
          return std::vector<Tensor>{relu(conv2d(in[0], in[1], {.stride = {2, 2}}) + in[2])};
        },
        {.device = "cpu"});
    return detail::text(*program, {zeros(x), zeros(w), zeros({w[0]})});
  };
  EXPECT_NE(text({2, 16, 16, 3}, {32, 7, 7, 3}).find("few-channels conv2d+bias+relu  <-"), std::string::npos);
  for (const Shape& w : {Shape{32, 7, 7, 16}, Shape{9, 7, 7, 3}})
    EXPECT_EQ(text({2, 16, 16, w[3]}, w).find("few-channels conv2d+bias+relu  <-"), std::string::npos);
}

}  // namespace
}  // namespace varve::cpu::plain
