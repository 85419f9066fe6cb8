// Ways to compute one convolution agree.
#include <cmath>

#include "backends/cuda/conv/conv_algorithm.h"
#include "backends/cuda/conv/conv_few_channels.h"
#include "backends/cuda/conv/conv_im2col.h"
#include "backends/cuda/conv/conv_small_images.h"
#include "backends/cuda/conv/conv_transposed.h"
#include "backends/cuda/conv/conv_weight_grad_3x3.h"
#include "base/convert.h"
#include "cuda/conv_shapes.h"
#include "cuda/gpu_here.h"

namespace varve::cuda {
namespace {

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
struct ConvSizes {
  std::int64_t first, second, out;
};
ConvSizes sizes_of(const ConvCall& call) {
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

Floats result_of(const ConvAlgorithm& algorithm, const ConvSizes& sizes, const Floats* bias) {
  const auto first = on_gpu(numbers(sizes.first, 1)), second = on_gpu(numbers(sizes.second, 2));
  const auto added = bias ? on_gpu(*bias) : nullptr;
  const auto out = context().allocate(static_cast<std::size_t>(sizes.out) * sizeof(float));
  const auto scratch = context().allocate(algorithm.scratch_bytes);
  algorithm.run({first->address, second->address, added ? added->address : nullptr, out->address}, scratch->address);
  Floats result(static_cast<std::size_t>(sizes.out));
  out->fetch(result.data());
  return result;
}

TEST(ConvAlgorithms, AProductOfPixelsIsTheConvolution) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  const Floats bias = numbers(21, 3);
  for (const ConvPass pass : {ConvPass::forward, ConvPass::input_grad, ConvPass::weight_grad})
    for (const bool follows : {false, true}) {
      if (follows && pass != ConvPass::forward) continue;
      const ConvSpec spec{{pass, pixels(3, 5, 12, 21), false}, f32, {follows, follows}, false};
      const std::optional<ConvAlgorithm> product = product_algorithm(spec);
      ASSERT_TRUE(product);
      const Floats got = result_of(*product, sizes_of(spec.call), follows ? &bias : nullptr);
      const Floats want = result_of(plain_algorithm(spec), sizes_of(spec.call), follows ? &bias : nullptr);
      for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-4) << spec.key() << " at " << i;
    }
}

// Whole numbers of 1/8, few enough that products are exact in every type, and so are short sums of them.
std::vector<std::byte> stored(std::int64_t count, unsigned seed, DType dtype) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size_of(dtype));
  const Floats all = numbers(count, seed);
  for (std::int64_t i = 0; i < count; ++i)
    store_f(bytes.data(), dtype, i, std::round(all[static_cast<std::size_t>(i)] * 8) / 8);
  return bytes;
}
Floats read(const std::vector<std::byte>& bytes, DType dtype) {
  Floats all(bytes.size() / size_of(dtype));
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<float>(load_f(bytes.data(), dtype, static_cast<std::int64_t>(i)));
  return all;
}

// Operands lie `offset` elements after an aligned address; scratch memory holds NaN.
Floats result_of(const ConvAlgorithm& algorithm, const ConvSpec& spec, std::size_t offset = 0) {
  const std::size_t before = offset * size_of(spec.dtype);
  const ConvSizes sizes = sizes_of(spec.call);
  const auto uploaded = [&](std::int64_t count, unsigned seed) {
    const std::vector<std::byte> bytes = stored(count, seed, spec.dtype);
    auto memory = context().allocate(before + bytes.size());
    context().upload(static_cast<std::byte*>(memory->address) + before, bytes.data(), bytes.size(), nullptr);
    return memory;
  };
  const auto at = [&](const auto& memory) { return static_cast<std::byte*>(memory->address) + before; };
  const auto first = uploaded(sizes.first, 1), second = uploaded(sizes.second, 2);
  const auto bias = uploaded(spec.call.shape.out_channels, 3), out = uploaded(sizes.out, 4);
  const std::vector<std::byte> nan(algorithm.scratch_bytes, std::byte{0xff});
  const auto scratch = context().allocate(nan.size());
  if (!nan.empty()) context().upload(scratch->address, nan.data(), nan.size(), nullptr);
  algorithm.run({at(first), at(second), spec.epilogue.bias ? at(bias) : nullptr, at(out)}, scratch->address);
  std::vector<std::byte> result(before + static_cast<std::size_t>(sizes.out) * size_of(spec.dtype));
  out->fetch(result.data());
  result.erase(result.begin(), result.begin() + static_cast<std::ptrdiff_t>(before));
  return read(result, spec.dtype);
}

void expect_same(const ConvAlgorithm& algorithm, const ConvSpec& spec) {
  const ConvAlgorithm plain = plain_algorithm(spec);
  for (const std::size_t offset : {0, 1}) {
    if (offset && !algorithm.any_address) continue;
    const Floats got = result_of(algorithm, spec, offset), want = result_of(plain, spec, offset);
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], spec.dtype != f32 ? 0.01 * std::abs(want[i]) + 0.01 : 1e-3)
          << algorithm.tag << " " << spec.key() << " at " << i;
  }
}

// Kernels higher than wide, padding that differs on every side.
ConvShape kernels(std::int64_t in, std::int64_t out, std::int64_t stride, std::int64_t dilation) {
  ConvShape s = pixels(3, 9, in, out);
  s.in_width = 11;
  s.kernel_height = 4;
  s.kernel_width = 3;
  s.stride_height = s.stride_width = stride;
  s.dilation_height = s.dilation_width = dilation;
  s.pad_top = 1;
  s.pad_bottom = 2;
  s.pad_left = 2;
  s.out_height = (s.in_height + 3 - 3 * dilation - 1) / stride + 1;
  s.out_width = (s.in_width + 2 - 2 * dilation - 1) / stride + 1;
  return s;
}

TEST(ConvAlgorithms, AProductOfGatheredImagesIsTheConvolution) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  for (const DType dtype : {f32, bf16})
    for (const std::int64_t in : {1, 3, 4, 5, 8, 16})
      for (const std::int64_t stride : {1, 2})
        for (const std::int64_t dilation : {1, 2})
          for (const ConvPass pass : {ConvPass::forward, ConvPass::weight_grad}) {
            if (dtype == f32 && pass == ConvPass::forward && in > 4) continue;  // does not pay
            const bool follows = pass == ConvPass::forward && stride == 2;
            const ConvSpec spec{
                {pass, kernels(in, 24, stride, dilation), false}, dtype, {follows, follows}, dtype == f32};
            const std::optional<ConvAlgorithm> algorithm = im2col_algorithm(spec);
            ASSERT_TRUE(algorithm) << spec.key();
            expect_same(*algorithm, spec);
          }
}

// Few channels: images that tiles do not fill, channels that blocks do not, strides beyond the kernel, taps far apart,
// more tiles than blocks.
std::vector<ConvShape> of_few_channels() {
  ConvShape far = kernels(3, 20, 1, 1), apart = kernels(2, 36, 1, 1);
  far.stride_height = far.stride_width = 5;
  far.out_height = far.out_width = 2;
  apart.dilation_height = 2;
  apart.out_height = 6;
  return {square(2, 19, 3, 64),
          square(1, 5, 4, 7),
          square(70, 3, 1, 8),
          kernels(4, 72, 2, 1),
          kernels(3, 68, 2, 1),
          kernels(1, 33, 1, 1),
          far,
          apart};
}

TEST(ConvAlgorithms, PatchesOfFewChannelsGiveTheConvolution) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  for (const DType dtype : {f32, bf16, f16})
    for (const ConvShape& shape : of_few_channels())
      for (const ConvEpilogue epilogue : {ConvEpilogue{}, {true, false}, {true, true}}) {
        const ConvSpec spec{{ConvPass::forward, shape, false}, dtype, epilogue, dtype == f32};
        const std::optional<ConvAlgorithm> algorithm = few_channels_algorithm(spec);
        ASSERT_TRUE(algorithm) << spec.key();
        expect_same(*algorithm, spec);
      }
}

TEST(ConvAlgorithms, PatchesOfFewChannelsGiveTheGradientOfWeights) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  std::vector<ConvShape> shapes = of_few_channels();
  shapes.push_back(first_layer(1, 18, 11, 4, 12));  // terms that many warps share
  for (const DType dtype : {f32, bf16, f16})
    for (const ConvShape& shape : shapes) {
      const ConvSpec spec{{ConvPass::weight_grad, shape, false}, dtype, {}, dtype == f32};
      const std::optional<ConvAlgorithm> algorithm = few_channels_algorithm(spec);
      ASSERT_TRUE(algorithm) << spec.key();
      expect_same(*algorithm, spec);
    }
}

TEST(ConvAlgorithms, OnlyFewChannelsComeAsPatches) {
  const auto pays = [](ConvPass pass, const ConvShape& shape, bool tf32 = true) {
    return pays_for_few_channels({{pass, shape, false}, f32, {}, tf32});
  };
  const ConvShape plain = kernels(3, 24, 1, 1);
  ConvShape grouped = plain, large = first_layer(1, 224, 51, 1, 64);
  grouped.groups = 3;
  for (const ConvPass pass : {ConvPass::forward, ConvPass::weight_grad}) {
    EXPECT_TRUE(pays(pass, plain));
    EXPECT_FALSE(pays(pass, plain, false));
    for (const ConvShape& shape : {grouped, large, kernels(5, 24, 1, 1), kernels(3, 24, 1, 2)})
      EXPECT_FALSE(pays(pass, shape));
  }
  EXPECT_FALSE(pays(ConvPass::input_grad, plain));
  EXPECT_TRUE(pays(ConvPass::forward, kernels(3, 7, 1, 1)));
  EXPECT_FALSE(pays(ConvPass::weight_grad, square(1, 5, 3, 7)));
}

TEST(ConvAlgorithms, ConvolvingByTransposedWeightsIsTheGradient) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  for (const DType dtype : {f32, bf16})
    for (const std::int64_t in : {3, 33})
      for (const std::int64_t out : {5, 40})
        for (const std::int64_t dilation : {1, 2}) {
          const ConvSpec spec{{ConvPass::input_grad, kernels(in, out, 1, dilation), false}, dtype, {}, false};
          const std::optional<ConvSpec> forward = transposed_spec(spec);
          ASSERT_TRUE(forward);
          expect_same(transposed_algorithm(spec, plain_algorithm(*forward)), spec);
        }
}

// Images one below the other, with padding that neighbours share: small and large ones, rows longer than what is
// multiplied at a time, more tiles than one, places that several blocks share.
TEST(ConvAlgorithms, TilesOfNeighboursGiveTheGradientOfWeights) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  ConvShape uneven = square(2, 9, 64, 64);
  uneven.pad_top = 0;
  uneven.pad_right = 2;
  uneven.out_height = 8;
  uneven.out_width = 10;
  for (const ConvShape& shape : {square(3, 6, 64, 128), square(2, 8, 64, 64), square(3, 17, 64, 64),
                                 square(1, 40, 64, 64), square(9, 7, 128, 64), uneven}) {
    const ConvSpec spec{{ConvPass::weight_grad, shape, false}, f32, {}, true};
    const std::optional<ConvAlgorithm> algorithm = weight_grad_3x3_algorithm(spec);
    ASSERT_TRUE(algorithm) << spec.key();
    expect_same(*algorithm, spec);
  }
}

TEST(ConvAlgorithms, OnlyWhatPaysIsTiled) {
  const auto pays = [](const ConvShape& shape, bool tf32 = true) {
    return pays_for_3x3({{ConvPass::weight_grad, shape, false}, f32, {}, tf32});
  };
  const ConvShape plain = square(2, 8, 64, 128);
  ConvShape far = plain, grouped = plain;
  far.pad_left = 3;
  grouped.groups = 2;
  EXPECT_TRUE(pays(plain));
  EXPECT_FALSE(pays(plain, false));
  EXPECT_FALSE(pays_for_3x3({{ConvPass::forward, plain, false}, f32, {}, true}));
  for (const ConvShape& shape : {square(2, 8, 33, 64), square(2, 8, 64, 60), square(2, 4, 64, 64),
                                 kernels(64, 64, 2, 1), kernels(64, 64, 1, 2), far, grouped, pixels(3, 5, 64, 64)})
    EXPECT_FALSE(pays(shape));
}

// Images of a few pixels, some of whose taps meet nothing but padding: batches that end within a tile, several blocks
// on both sides, a row of taps, strides, padding that differs on every side, as many taps as there are pairs of pixels.
std::vector<ConvShape> few_pixels() {
  ConvShape row = framed(8, 1, 2, 64, 64);
  row.kernel_height = 1;
  row.pad_top = row.pad_bottom = 0;
  ConvShape strided = framed(5, 2, 2, 64, 64);
  strided.stride_height = strided.stride_width = 2;
  strided.out_height = strided.out_width = 1;
  ConvShape uneven = framed(9, 2, 1, 64, 64);
  uneven.pad_top = 0;
  uneven.pad_right = 3;
  uneven.out_height = 1;
  uneven.out_width = 3;
  ConvShape apart = framed(2, 2, 2, 64, 64);
  apart.kernel_height = 1;
  apart.kernel_width = 2;
  apart.dilation_width = 2;
  apart.pad_top = apart.pad_bottom = 0;
  ConvShape crossed = framed(3, 4, 1, 64, 64);
  crossed.kernel_height = crossed.kernel_width = 4;
  crossed.pad_top = crossed.pad_bottom = 0;
  crossed.pad_left = crossed.pad_right = 3;
  crossed.out_height = 1;
  crossed.out_width = 4;
  return {square(3, 2, 64, 128),
          square(16, 2, 128, 64),
          framed(7, 1, 2, 64, 64),
          framed(17, 2, 1, 64, 64),
          square(2, 1, 64, 64),
          row,
          strided,
          uneven,
          apart,
          crossed};
}

TEST(ConvAlgorithms, PixelsThatMeetGiveTheConvolutionOfSmallImages) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  for (const DType dtype : {f32, bf16, f16})
    for (const ConvPass pass : {ConvPass::forward, ConvPass::input_grad, ConvPass::weight_grad})
      for (const ConvShape& shape : few_pixels()) {
        if (dtype == f16 && shape.batch > 3) continue;  // as bf16
        const bool first = pass == ConvPass::forward && shape.batch % 2 == 1, second = first && shape.in_width == 2;
        const ConvSpec spec{{pass, shape, false}, dtype, {first, second}, dtype == f32};
        const std::optional<ConvAlgorithm> algorithm = small_images_algorithm(spec);
        ASSERT_TRUE(algorithm) << spec.key();
        expect_same(*algorithm, spec);
      }
}

// As many images as there may be, and as in networks that are measured: more than one warp has of a channel.
TEST(ConvAlgorithms, ManySmallImagesAreShared) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  for (const std::int64_t batch : {75, 128})
    for (const DType dtype : {f32, bf16})
      for (const ConvPass pass : {ConvPass::forward, ConvPass::input_grad, ConvPass::weight_grad}) {
        const ConvSpec spec{{pass, square(batch, 2, 64, 64), false}, dtype, {}, dtype == f32};
        const std::optional<ConvAlgorithm> algorithm = small_images_algorithm(spec);
        ASSERT_TRUE(algorithm) << spec.key();
        expect_same(*algorithm, spec);
      }
}

TEST(ConvAlgorithms, OnlySmallImagesAreTakenAsSmall) {
  const ConvShape plain = square(80, 2, 512, 512);
  for (const ConvPass pass : {ConvPass::forward, ConvPass::input_grad, ConvPass::weight_grad}) {
    const auto pays = [&](const ConvShape& shape, DType dtype = f32, bool tf32 = true) {
      return pays_for_small_images({{pass, shape, false}, dtype, {}, tf32});
    };
    EXPECT_TRUE(pays(plain));
    EXPECT_TRUE(pays(plain, bf16, false));
    EXPECT_FALSE(pays(plain, f32, false));
    EXPECT_FALSE(pays(plain, f64, false));
    ConvShape grouped = plain;
    grouped.groups = 2;
    for (const ConvShape& shape : {square(129, 2, 64, 64), square(2, 3, 64, 64), square(2, 2, 96, 64),
                                   square(2, 2, 64, 32), pixels(3, 2, 64, 64), grouped})
      EXPECT_FALSE(pays(shape));
  }
}

TEST(ConvAlgorithms, OnlyWhatPaysIsGathered) {
  const auto spec = [](ConvPass pass, const ConvShape& shape, bool tf32) {
    return ConvSpec{{pass, shape, false}, f32, {}, tf32};
  };
  ConvShape few = kernels(3, 24, 1, 1), many = kernels(32, 24, 1, 1), grouped = few, large = many;
  grouped.groups = 3;
  large.batch = 4096;
  EXPECT_TRUE(pays_for_im2col(spec(ConvPass::forward, few, false)));
  EXPECT_TRUE(pays_for_im2col(spec(ConvPass::weight_grad, many, true)));
  EXPECT_FALSE(pays_for_im2col(spec(ConvPass::forward, many, false)));
  EXPECT_FALSE(pays_for_im2col(spec(ConvPass::forward, many, true)));
  EXPECT_FALSE(pays_for_im2col(spec(ConvPass::weight_grad, large, true)));
  EXPECT_FALSE(pays_for_im2col(spec(ConvPass::forward, grouped, true)));
  EXPECT_FALSE(pays_for_im2col(spec(ConvPass::input_grad, few, true)));
}

TEST(ConvAlgorithms, OnlyWeightsOfPlainGradientsAreTransposed) {
  const ConvShape plain = kernels(3, 24, 1, 1);
  ConvShape grouped = plain, far = plain;
  grouped.groups = 3;
  far.pad_left = 3;
  far.out_width = 12;
  const auto turns = [](ConvPass pass, const ConvShape& shape) {
    return transposed_spec({{pass, shape, false}, f32, {}, false}).has_value();
  };
  EXPECT_TRUE(turns(ConvPass::input_grad, plain));
  EXPECT_FALSE(turns(ConvPass::forward, plain));
  for (const ConvShape& shape : {kernels(3, 24, 2, 1), grouped, far}) EXPECT_FALSE(turns(ConvPass::input_grad, shape));
}

TEST(ConvAlgorithms, OnlyPixelsAreAProduct) {
  ConvShape strided = pixels(3, 5, 12, 21), padded = strided, grouped = strided, wide = strided;
  strided.stride_width = 2;
  padded.pad_left = 1;
  grouped.groups = 3;
  wide.kernel_width = 3;
  for (const ConvShape& shape : {strided, padded, grouped, wide})
    EXPECT_FALSE(product_algorithm({{ConvPass::forward, shape, false}, f32, {}, false}));
}

}  // namespace
}  // namespace varve::cuda
