// Ways to compute one convolution agree.
#include <gtest/gtest.h>

#include "backends/cuda/context.h"
#include "backends/cuda/conv_way.h"
#include "varve/error.h"

namespace varve::cuda {
namespace {

bool has_gpu() {
  static const bool found = [] {
    try {
      context();
      return true;
    } catch (const Error&) {
      return false;
    }
  }();
  return found;
}

using Floats = std::vector<float>;

std::shared_ptr<ir::Remote> on_gpu(const Floats& x) {
  auto memory = context().allocate(x.size() * sizeof(float));
  context().upload(memory->address, x.data(), x.size() * sizeof(float), nullptr);
  return memory;
}

Floats numbers(std::int64_t count, unsigned seed) {
  Floats all(static_cast<std::size_t>(count));
  for (float& x : all) {
    seed = seed * 1664525u + 1013904223u;
    x = static_cast<float>(seed >> 8) / 8388608.f - 1.f;
  }
  return all;
}

// In the operator's order: two operands, what it gives.
struct Sizes {
  std::int64_t first, second, out;
};
Sizes sizes_of(const ConvCall& call) {
  const ConvShape& s = call.shape;
  const std::int64_t x = s.in_pixels() * s.in_channels, w = s.weights(), y = s.out_pixels() * s.out_channels;
  switch (call.pass) {
    case ConvPass::forward:
      return {x, w, y};
    case ConvPass::input_grad:
      return {y, w, x};
    case ConvPass::weight_grad:
      break;
  }
  return {x, y, w};
}

Floats result_of(const ConvWay& way, const Sizes& sizes, const Floats* bias) {
  const auto first = on_gpu(numbers(sizes.first, 1)), second = on_gpu(numbers(sizes.second, 2));
  const auto added = bias ? on_gpu(*bias) : nullptr;
  const auto out = context().allocate(static_cast<std::size_t>(sizes.out) * sizeof(float));
  const auto scratch = context().allocate(way.scratch_bytes);
  way.run({first->address, second->address, added ? added->address : nullptr, out->address}, scratch->address);
  Floats result(static_cast<std::size_t>(sizes.out));
  out->fetch(result.data());
  return result;
}

ConvShape pixels(std::int64_t batch, std::int64_t side, std::int64_t in, std::int64_t out) {
  return {.batch = batch,
          .groups = 1,
          .in_height = side,
          .in_width = side,
          .in_channels = in,
          .out_height = side,
          .out_width = side,
          .out_channels = out,
          .kernel_height = 1,
          .kernel_width = 1,
          .stride_height = 1,
          .stride_width = 1,
          .dilation_height = 1,
          .dilation_width = 1};
}

TEST(ConvWays, AProductOfPixelsIsTheConvolution) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  const Floats bias = numbers(21, 3);
  for (const ConvPass pass : {ConvPass::forward, ConvPass::input_grad, ConvPass::weight_grad})
    for (const bool follows : {false, true}) {
      if (follows && pass != ConvPass::forward) continue;
      const ConvSpec spec{{pass, pixels(3, 5, 12, 21), false}, f32, {follows, follows}, false};
      const std::optional<ConvWay> product = product_way(spec);
      ASSERT_TRUE(product);
      const Floats got = result_of(*product, sizes_of(spec.call), follows ? &bias : nullptr);
      const Floats want = result_of(own_way(spec), sizes_of(spec.call), follows ? &bias : nullptr);
      for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-4) << spec.key() << " at " << i;
    }
}

TEST(ConvWays, OnlyPixelsAreAProduct) {
  ConvShape strided = pixels(3, 5, 12, 21), padded = strided, grouped = strided, wide = strided;
  strided.stride_width = 2;
  padded.pad_left = 1;
  grouped.groups = 3;
  wide.kernel_width = 3;
  for (const ConvShape& shape : {strided, padded, grouped, wide})
    EXPECT_FALSE(product_way({{ConvPass::forward, shape, false}, f32, {}, false}));
}

}  // namespace
}  // namespace varve::cuda
