// Sums of columns on their way: gradients of biases and of layer norm, against the reference.
#include "cpu_programs.h"

namespace varve {
namespace {

TEST(CpuColumns, SumsOverLeadingAxes) {
  const auto sums = [](const TensorList& in) {
    const Axes axes = in[0].rank() == 2 ? Axes{0} : Axes{0, 1};
    return TensorList{sum(in[0], {.axes = axes}), sum(in[0], {.axes = axes, .keep = true})};
  };
  for (const Shape& shape : {Shape{64, 64}, Shape{67, 65}, Shape{3, 100, 130}, Shape{1000, 64}, Shape{40000, 70}})
    expect_kernel(checked(sums, {values(shape, 1)}), "columns sum");
  // Too few of them, other axes, an input that the sum is fused with.
  for (const Shape& shape : {Shape{63, 64}, Shape{64, 63}})
    expect_no_kernel(checked(sums, {values(shape, 1)}), "columns sum");
  expect_no_kernel(
      checked([](const TensorList& in) { return TensorList{sum(in[0], {.axes = Axes{1}})}; }, {values({80, 90}, 1)}),
      "columns sum");
  expect_no_kernel(checked([](const TensorList& in) { return TensorList{sum(square(in[0]), {.axes = Axes{0}})}; },
                           {values({80, 90}, 1)}),
                   "columns sum");
}

TensorList norm_with_gradients(const TensorList& in) {
  const Tensor y = layer_norm(in[0], in[1], in[2]);
  return gradients(sum(y * in[3]), {in[0], in[1], in[2]});
}

TEST(CpuColumns, LayerNormGradientInOnePass) {
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 7}, Shape{65, 33}, Shape{2, 130, 64}, Shape{20000, 5}}) {
    const Shape channels{shape.back()};
    const TensorList given{values(shape, 1), values(channels, 2), values(channels, 3), values(shape, 4)};
    expect_kernel(checked(norm_with_gradients, given), "rows layer_norm_grad");
    // The norm before a residual branch: what flows past it is added on the way.
    const auto residual = [](const TensorList& in) {
      const Tensor y = in[0] + tanh(layer_norm(in[0], in[1], in[2]));
      return gradients(sum(y * in[3]), {in[0], in[1], in[2]});
    };
    expect_kernel(checked(residual, given), "rows layer_norm_grad+add");
  }
}

TEST(CpuColumns, SameBitsForAnyNumberOfThreads) {
  const int before = threads();
  const TensorList given{values({1111, 70}, 1), values({70}, 2), values({70}, 3), values({1111, 70}, 4)};
  const Function all = [](const TensorList& in) {
    TensorList results = norm_with_gradients(in);
    results.push_back(sum(in[0], {.axes = Axes{0}}));
    return results;
  };
  std::vector<std::vector<float>> one;
  for (const int count : {1, 2, 3}) {
    set_threads(count);
    const Outcome outcome = run_on("cpu", all, given);
    if (count == 1) one = outcome.results;
    EXPECT_EQ(outcome.results, one) << count << " threads";
  }
  set_threads(before);
}

}  // namespace
}  // namespace varve
