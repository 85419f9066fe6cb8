// The texts of convolutions compile for every kind of GPU.
#include <gtest/gtest.h>

#include <array>

#include "backends/cuda/conv/conv_few_channels.h"
#include "backends/cuda/conv/conv_small_images.h"
#include "backends/cuda/conv/conv_weight_grad_3x3.h"
#include "base/text.h"
#include "cuda/compiles.h"
#include "cuda/conv_shapes.h"
#include "cuda/gpu_here.h"

namespace varve::cuda {
namespace {

KernelText text_of(DType dtype, const char* index, int pass) {
  return {"conv/conv_plain.cu", defines({{"T", type_name(dtype)}, {"INDEX", index}, {"PASS", cat(pass)}})};
}

TEST(ConvTexts, CompileForEveryPass) {
  for (const int pass : {0, 1, 2}) {
    expect_text_compiles(text_of(f32, "int", pass), "sm_80");
    expect_text_compiles(text_of(f64, "i64", pass), "sm_90");
  }
}

TEST(ConvTexts, CompileForCopiesOfImagesAndWeights) {
  for (const char* bits : {"u16", "u32"}) {
    expect_text_compiles({"conv/conv_transposed.cu", defines({{"T", bits}})});
    for (const char* wide : {"0", "1"})
      expect_text_compiles({"conv/conv_im2col.cu", defines({{"T", bits}, {"WIDE", wide}})});
  }
}

// Of images as wide as those of the networks that are measured.
TEST(ConvTexts, OfTilesCompileForTheGpuTheyAreFor) {
  if (has_gpu()) GTEST_SKIP() << kNotCollected;
  for (const auto& [batch, side, channels] : {std::array{80, 32, 64}, {80, 8, 256}, {16, 56, 64}, {16, 7, 512}}) {
    const ConvShape shape = square(batch, side, channels, channels);
    EXPECT_TRUE(weight_grad_3x3_algorithm({{ConvPass::weight_grad, shape, false}, f32, {}, true}));
  }
  int found = 0;
  for (const KernelText& text : collected_texts()) {
    if (text.file != "conv/conv_weight_grad_3x3.cu") continue;
    ++found;
    expect_text_compiles(text, "sm_90a");
  }
  EXPECT_GE(found, 4);
}

TEST(ConvTexts, OfSmallImagesCompileForGpusWithTensorCores) {
  if (has_gpu()) GTEST_SKIP() << kNotCollected;
  for (const DType dtype : {f32, bf16, f16})
    for (const ConvPass pass : {ConvPass::forward, ConvPass::input_grad, ConvPass::weight_grad})
      EXPECT_TRUE(small_images_algorithm({{pass, square(80, 2, 512, 512), false}, dtype, {}, dtype == f32}));
  int found = 0;
  for (const KernelText& text : collected_texts()) {
    if (!text.file.starts_with("conv/conv_small_images")) continue;
    ++found;
    expect_text_compiles(text);
  }
  EXPECT_GE(found, 9);
}

// The first layers of the networks that are measured.
TEST(ConvTexts, OfFewChannelsCompileForEveryGpuWithTensorCores) {
  if (has_gpu()) GTEST_SKIP() << kNotCollected;
  for (const ConvShape& shape :
       {square(80, 32, 3, 64), first_layer(64, 224, 7, 2, 64), first_layer(64, 224, 11, 4, 96)})
    for (const DType dtype : {f32, bf16, f16})
      for (const ConvPass pass : {ConvPass::forward, ConvPass::weight_grad}) {
        if (dtype == f16 && shape.kernel_height > 3) continue;
        const bool follows = pass == ConvPass::forward;
        EXPECT_TRUE(few_channels_algorithm({{pass, shape, false}, dtype, {follows, follows}, dtype == f32}));
      }
  int found = 0;
  for (const KernelText& text : collected_texts()) {
    if (!text.file.starts_with("conv/conv_few_channels")) continue;
    ++found;
    expect_text_compiles(text);
  }
  EXPECT_GE(found, 14);
}

}  // namespace
}  // namespace varve::cuda
