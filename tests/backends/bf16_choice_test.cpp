// Who multiplies bf16 on which processor. Decisions alone are made for processors that this one is not: the library
// uses what it finds, so what was planned also runs.
#ifdef VARVE_HAS_ONEDNN

#include "backends/cpu/backend.h"
#include "backends/cpu/common/rates.h"
#include "cpu_programs.h"
#include "instruction_sets.h"
#include "update_rules.h"

namespace varve {
namespace {

using cpu::dnn::Bf16;
using cpu::testing::Bf16As;

TEST(Bf16Choice, ByWhatTheLibraryMayUseAndTheKernelGrants) {
  using cpu::dnn::decide_bf16;
  EXPECT_EQ(decide_bf16(false, false, Amx::absent), Bf16::none);
  EXPECT_EQ(decide_bf16(true, false, Amx::absent), Bf16::avx512);
  EXPECT_EQ(decide_bf16(true, false, Amx::refused), Bf16::amx_refused);
  EXPECT_EQ(decide_bf16(true, true, Amx::refused), Bf16::amx_refused);
  EXPECT_EQ(decide_bf16(true, true, Amx::granted), Bf16::amx);
  EXPECT_EQ(decide_bf16(true, false, Amx::granted), Bf16::amx_refused);  // DNNL_MAX_CPU_ISA
  EXPECT_TRUE(cpu::dnn::is_kept_from_amx(Amx::refused));
  EXPECT_FALSE(cpu::dnn::is_kept_from_amx(Amx::granted));
  EXPECT_FALSE(cpu::dnn::is_kept_from_amx(Amx::absent));
}

TEST(Bf16Choice, GainsWhereItsProductsAreFasterThanThoseOfF32) {
  const auto backend = cpu::make_cpu_backend();
  for (const auto& [products, gains] :
       {std::pair{Bf16::none, false}, {Bf16::avx512, true}, {Bf16::amx_refused, false}, {Bf16::amx, true}}) {
    const Bf16As processor(products);
    EXPECT_EQ(backend->gains_from(bf16), gains) << static_cast<int>(products);
    EXPECT_TRUE(backend->gains_from(f32));
  }
}

// The figures that the model of a product was made for.
TEST(Bf16Choice, TheModelGivesWhatWasMeasured) {
  const Bf16As processor(Bf16::amx);
  const auto gflops = [](const cpu::ProductSize& s, bool packed) {
    return 2e-9 * static_cast<double>(s.m * s.n * s.k) / cpu::tile_seconds(s, packed);
  };
  const cpu::ProductSize thin{.m = 64, .n = 26752, .k = 2048}, large{.m = 4096, .n = 2048, .k = 2048};
  EXPECT_NEAR(gflops(thin, false), 300, 45);
  EXPECT_NEAR(gflops(thin, true) / gflops(thin, false), 1.4, 0.05);
  EXPECT_NEAR(gflops(large, false), 610, 80);
  for (const cpu::ProductSize& size : {thin, large, cpu::ProductSize{.m = 1, .n = 1024, .k = 1024}})
    EXPECT_LT(cpu::tile_seconds(size), cpu::plain_seconds(size));
}

std::string planned(const Function& f, const TensorList& in) {
  return detail::text(*detail::compile(f, {.device = "cpu"}), in);
}

// ---- products, and the update of what they give the gradient of

struct MixedStep {
  std::int64_t batch = 16;
  const Rule* rule = &rules()[0];

  TensorList inputs() const {
    return {values({batch, 96}, 1), values({96, 80}, 2), values({96, 80}, 3), square(values({96, 80}, 4))};
  }
  // In bf16, the weights and the update in f32, as mixed precision has it. The rate is a tensor, as in training.
  Function function() const {
    return [*this](const TensorList& in) {
      const Tensor loss = sum(square(matmul(in[0].to(bf16), in[1].to(bf16))).to(f32));
      const Updated next = rule->update(in[1], gradients(loss, {in[1]})[0], in[2], in[3], sum(in[0]) * 0 + 0.05f);
      return TensorList{loss, next.parameter};
    };
  }
};

std::string planned(const MixedStep& step) { return planned(step.function(), step.inputs()); }

TEST(Bf16Choice, ProductsGoToTheLibraryWhereBf16Gains) {
  for (const Bf16 products : {Bf16::avx512, Bf16::amx}) {
    const Bf16As processor(products);
    const std::string text = planned(MixedStep{.batch = 64});
    expect_kernel(text, "onednn matmul  <-  matmul(bf16");
    expect_no_kernel(text, "update  <-  matmul");
    expect_no_kernel(text, "plain matmul  <-");
    expect_no_kernel(text, "matmul(f32");
  }
}

TEST(Bf16Choice, AndAreF32WhereItDoesNot) {
  const Bf16As processor(Bf16::amx_refused);
  const std::string text = planned(MixedStep{});
  expect_kernel(text, "matmul+sgd_update  <-  matmul(f32");
  expect_no_kernel(text, "matmul(bf16");
}

// 16 terms: what tiles save is less than what it costs to write and read the gradient.
TEST(Bf16Choice, AShortProductIsStillFusedWithItsUpdate) {
  {
    const Bf16As processor(Bf16::amx);
    expect_kernel(planned(MixedStep{.batch = 16}), "matmul+cast+sgd_update  <-  matmul(bf16");
    expect_kernel(planned(MixedStep{.batch = 64}), "matmul+cast+sgd_update: oneDNN's tiles take");
  }
  const Bf16As processor(Bf16::avx512);
  expect_no_kernel(planned(MixedStep{.batch = 16}), "+cast+");
}

TEST(Bf16Choice, WhatIsFusedGivesTheSame) {
  const Bf16As processor(Bf16::amx);
  for (const Rule& rule : rules()) {
    SCOPED_TRACE(rule.kernel);
    const MixedStep step{.rule = &rule};
    expect_kernel(checked(step.function(), step.inputs(), 0.02), "matmul+cast+" + std::string(rule.kernel).substr(7));
  }
}

// ---- convolutions

std::string planned_conv(const Shape& x, const Shape& w) {
  return planned([](const TensorList& in) { return TensorList{conv2d(in[0].to(bf16), in[1].to(bf16)).to(f32)}; },
                 {zeros(x), zeros(w)});
}

TEST(Bf16Choice, ConvolutionsGoToTiles) {
  const Shape x{4, 58, 58, 64}, w{64, 3, 3, 64};
  const auto kernel_on = [&](Bf16 products) {
    const Bf16As processor(products);
    return planned_conv(x, w);
  };
  expect_kernel(kernel_on(Bf16::amx), "onednn conv2d  <-  conv2d(bf16");
  expect_kernel(kernel_on(Bf16::avx512), "winograd F(6×6,3×3) conv2d  <-  conv2d(bf16");
  expect_kernel(kernel_on(Bf16::amx_refused), "winograd F(6×6,3×3) conv2d  <-  conv2d(f32");
}

// ---- recurrent layers

TEST(Bf16Choice, ARecurrentLayerLeavesItsLargeProductsToTiles) {
  const auto kernels_on = [](Bf16 products, std::int64_t features) {
    const Bf16As processor(products);
    const TensorList in = {values({5, 32, features}, 1), values({features, 128}, 2), values({32, 128}, 3),
                           values({128}, 4)};
    const Function f = [](const TensorList& given) {
      TensorList narrow;
      for (const Tensor& t : given) narrow.push_back(t.to(bf16));
      const Tensor loss = sum(square(lstm(narrow[0], {{narrow[1], narrow[2], narrow[3]}}).y).to(f32));
      const TensorList found = gradients(loss, {narrow[1], narrow[2]});
      return TensorList{found[0].to(f32), found[1].to(f32)};
    };
    return planned(f, in);
  };
  const std::string vectors = kernels_on(Bf16::avx512, 64), tiles = kernels_on(Bf16::amx, 64);
  expect_kernel(vectors, "cpu lstm+input  <-");
  expect_kernel(vectors, "cpu lstm gradients  <-");
  expect_kernel(tiles, "cpu lstm  <-");
  expect_kernel(tiles, "cpu lstm+input: oneDNN's tiles take");
  expect_kernel(tiles, "cpu lstm gradients: oneDNN's tiles take");
  expect_kernel(tiles, "onednn matmul  <-  matmul(bf16");
  expect_kernel(kernels_on(Bf16::amx, 8), "cpu lstm+input  <-");  // a product of 8 terms
}

}  // namespace
}  // namespace varve

#endif  // VARVE_HAS_ONEDNN
