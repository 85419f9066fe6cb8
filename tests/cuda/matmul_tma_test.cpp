// Products of few rows and updates of weights that pass through shared memory once, by TMA. The operands are small
// integers, of which TF32 has every product: results are equal, not close.
#include "backends/cuda/matmul/matmul_tma.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "cuda/compiles.h"
#include "cuda/products.h"

namespace varve::cuda {
namespace {

GemmSpec spec_of(std::int64_t m, std::int64_t n, std::int64_t k, bool along) {
  return {.product = dense(m, n, k, false, along, 0), .tf32 = true};
}
GemmSpec half_spec_of(std::int64_t m, std::int64_t n, std::int64_t k, DType in) {
  return {.product = dense(m, n, k, false, false, 0), .in = in, .out = in, .wide_b = true, .early = true};
}

// Weights of f32 that bf16 and f16 round to the whole numbers x.
std::vector<double> near(std::vector<double> x) {
  for (double& number : x) number *= 1 + std::ldexp(1, -12);
  return x;
}

struct TmaResult {
  std::vector<float> got, wanted;
};

TmaResult by_tma(const GemmSpec& spec, const Tail& tail = {}) {
  const Product& p = spec.product;
  const auto a = counted(reach(p.a, {}, p.m, p.k), 3), b = counted(reach(p.b, {}, p.k, p.n), 5), bias = counted(p.n, 7);
  auto wanted = by_rows(p, a, b);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (spec.bias) wanted[i] += bias[i % static_cast<std::size_t>(p.n)];
    if (spec.relu) wanted[i] = std::max(wanted[i], 0.0);
  }
  const TmaGemm gemm(spec, tail);
  const OnGpu left(floats(a), spec.in), right(floats(spec.wide_b ? near(b) : b)), more(floats(bias), spec.in);
  const OnGpu c(std::vector<float>(wanted.size(), -1), spec.out);
  const OnGpu scratch(std::vector<float>(gemm.scratch_bytes() / 4 + 4));
  gemm.run({.a = left.get(), .b = right.get(), .bias = more.get(), .c = c.get(), .scratch = scratch.get()});
  return {c.read(), rounded(wanted, spec.out)};
}

void expect_equal(const GemmSpec& spec) {
  SCOPED_TRACE(testing::Message() << name_of(spec.product) << (spec.bias ? " bias" : "") << (spec.relu ? " relu" : ""));
  ASSERT_EQ(TmaGemm::refusal(spec), "");
  const TmaResult result = by_tma(spec);
  EXPECT_EQ(result.got, result.wanted);
}

TEST(TmaGemm, ProductsOfAnySize) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  for (const bool along : {false, true}) {
    expect_equal(spec_of(64, 64, 32, along));
    expect_equal(spec_of(1, 32, 32, along));
    expect_equal(spec_of(17, 288, 160, along));
    expect_equal(spec_of(64, 512, 1024, along));  // more tiles than stages, several blocks for a stripe
  }
  expect_equal(spec_of(3, 100, 96, true));
}

TEST(TmaGemm, WeightsOfF32ForProductsOf16Bits) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  for (const DType in : {bf16, f16}) {
    expect_equal(half_spec_of(64, 64, 32, in));
    expect_equal(half_spec_of(1, 32, 32, in));
    expect_equal(half_spec_of(17, 288, 160, in));
    expect_equal(half_spec_of(64, 512, 1024, in));
    for (const std::int64_t n : {96, 1440}) {
      GemmSpec spec = half_spec_of(9, n, 128, in);
      spec.bias = spec.relu = true;
      expect_equal(spec);
    }
  }
}

TEST(TmaGemm, WithBiasAndRelu) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  for (const bool along : {false, true})
    for (const std::int64_t n : {96, 1440})  // one block for each stripe, and several
      for (const bool relu : {false, true}) {
        GemmSpec spec = spec_of(9, n, 128, along);
        spec.bias = true;
        spec.relu = relu;
        expect_equal(spec);
      }
}

TEST(TmaGemm, WithAFunctionOfTheResult) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  const expr::Expr x = expr::Expr::input(0);
  const std::string square = function_text(expr::flatten(1, {x * x}));
  for (const std::int64_t n : {96, 1440}) {
    GemmSpec spec = spec_of(9, n, 128, false);
    spec.bias = true;
    const TmaResult result = by_tma(spec, {square});
    std::vector<float> wanted = result.wanted;
    for (float& y : wanted) y *= y;
    EXPECT_EQ(result.got, wanted);
  }
  const OnGpu y(std::vector<float>(9 * 96, 3));
  TmaGemm(spec_of(9, 96, 128, false), {square}).apply({.c = y.get()});
  EXPECT_EQ(y.read(), std::vector<float>(9 * 96, 9));
}

// y + u · v of the product y and two other matrices, and the sums of its columns.
struct WithTail {
  Tail tail;
  std::vector<double> u, v;
  explicit WithTail(std::int64_t numbers) : u(counted(numbers, 11)), v(counted(numbers, 13)) {
    const expr::Expr x[] = {expr::Expr::input(0), expr::Expr::input(1), expr::Expr::input(2)};
    tail = {.function = function_text(expr::flatten(3, {x[0] + x[1] * x[2]}), 2), .operands = 2, .columns = true};
  }
  void expect(const std::vector<double>& product, std::int64_t n, DType dtype, const OnGpu& y,
              const OnGpu& sums) const {
    std::vector<double> wanted = product, columns(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      wanted[i] += u[i] * v[i];
      columns[i % columns.size()] += wanted[i];
    }
    EXPECT_EQ(y.read(), rounded(wanted, dtype));
    EXPECT_EQ(sums.read(), rounded(columns, dtype));
  }
};

void expect_tail(const GemmSpec& spec) {
  const Product& p = spec.product;
  SCOPED_TRACE(testing::Message() << name_of(p));
  const WithTail with(p.m * p.n);
  const TmaGemm gemm(spec, with.tail);
  const auto a = counted(reach(p.a, {}, p.m, p.k), 3), b = counted(reach(p.b, {}, p.k, p.n), 5);
  const auto product = by_rows(p, a, b);
  const OnGpu left(floats(a), spec.in), right(floats(spec.wide_b ? near(b) : b)), u(floats(with.u), spec.in),
      v(floats(with.v), spec.in), y(std::vector<float>(product.size(), -1), spec.out),
      sums(std::vector<float>(static_cast<std::size_t>(p.n), -1), spec.out),
      scratch(std::vector<float>(gemm.scratch_bytes() / 4));
  const void* more[] = {u.get(), v.get()};
  const GemmOperands operands{
      .a = left.get(), .b = right.get(), .c = y.get(), .scratch = scratch.get(), .more = more, .sums = sums.get()};
  gemm.run(operands);
  with.expect(product, p.n, spec.out, y, sums);
  // The same where somebody else has multiplied.
  const OnGpu theirs(rounded(product, spec.out), spec.out);
  GemmOperands after = operands;
  after.c = theirs.get();
  gemm.apply(after);
  if (spec.out == f32) with.expect(product, p.n, spec.out, theirs, sums);
}

TEST(TmaGemm, WithAFunctionOfOtherMatricesAndItsColumns) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  for (const bool along : {false, true}) {
    expect_tail(spec_of(9, 96, 128, along));  // one block for each stripe, and several
    expect_tail(spec_of(64, 1440, 128, along));
  }
  expect_tail(spec_of(3, 100, 96, true));
  for (const DType in : {bf16, f16}) expect_tail(half_spec_of(17, 288, 160, in));
}

TEST(TmaGemm, RowsThatLieApart) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  for (const bool along : {false, true}) {
    GemmSpec spec = spec_of(5, 64, 64, along);
    spec.product.a.row = 100;
    (along ? spec.product.b.col : spec.product.b.row) = 72;
    expect_equal(spec);
  }
}

TEST(TmaGemm, NaNStaysAndNothingElseIsTouched) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  for (const bool along : {false, true}) {
    GemmSpec spec = spec_of(4, 64, 64, along);
    spec.relu = true;
    std::vector<float> a(4 * 64, 1), b(64 * 64, 1);
    const float bits = std::bit_cast<float>(0x7fffffffu);  // as GPUs make it: rounded like a number it would be -0
    b[0] = bits;
    const TmaGemm gemm(spec);
    const OnGpu left(a), right(b), c(std::vector<float>(4 * 64, -1)), scratch(std::vector<float>(1 << 16));
    gemm.run({.a = left.get(), .b = right.get(), .c = c.get(), .scratch = scratch.get()});
    const std::vector<float> got = c.read();
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isnan(got[i]), i % 64 == 0) << i << ": " << got[i];
  }
}

TEST(TmaGemm, RefusesWhatItCannotRead) {
  EXPECT_NE(TmaGemm::refusal(spec_of(65, 64, 64, false)), "");
  EXPECT_NE(TmaGemm::refusal(spec_of(64, 72, 64, false)), "");
  EXPECT_NE(TmaGemm::refusal(spec_of(64, 64, 40, true)), "");
  GemmSpec exact = spec_of(64, 64, 64, false);
  exact.tf32 = false;
  EXPECT_NE(TmaGemm::refusal(exact), "");
  GemmSpec narrow = half_spec_of(64, 64, 64, bf16);
  narrow.wide_b = false;
  EXPECT_NE(TmaGemm::refusal(narrow), "");
  const auto at = [](std::uintptr_t address) { return reinterpret_cast<void*>(address); };
  EXPECT_TRUE(TmaGemm::takes({.a = at(32), .b = at(64), .c = at(16), .scratch = at(256)}));
  EXPECT_FALSE(TmaGemm::takes({.a = at(36), .b = at(64), .c = at(16), .scratch = at(256)}));
}

// ---- updates

// w - 0.5 · (g + w), and with two more tensors: u + g, v · g.
UpdateSpec update_of(std::int64_t m, std::int64_t n, std::int64_t k, int tensors) {
  const expr::Expr g = expr::Expr::input(0), w = expr::Expr::input(1), rate = expr::Expr::input(2);
  std::vector<expr::Expr> results{w - rate * (g + w)};
  UpdateSpec spec{.product = dense(m, n, k, true, false, 0), .tf32 = true, .scalar = {false, true}};
  if (tensors == 3) {
    results.push_back(expr::Expr::input(3) + g);
    results.push_back(expr::Expr::input(4) * g);
    spec.scalar.insert(spec.scalar.end(), {false, false});
  }
  spec.code = expr::flatten(static_cast<int>(spec.scalar.size()) + 1, results);
  return spec;
}

void expect_updated(const UpdateSpec& spec) {
  const Product& p = spec.product;
  SCOPED_TRACE(testing::Message() << name_of(p) << ", operands " << spec.scalar.size());
  ASSERT_EQ(TmaUpdate::refusal(spec), "");
  const auto a = counted(reach(p.a, {}, p.m, p.k), 3), b = counted(reach(p.b, {}, p.k, p.n), 5);
  const auto gradient = by_rows(p, a, b);
  const std::size_t count = gradient.size();
  const OnGpu left(floats(a)), right(floats(b)), rate({0.5f});
  std::vector<OnGpu> state;
  for (const int step : {7, 11, 13}) state.emplace_back(floats(counted(p.m * p.n, step)));
  const void* in[] = {left.get(), right.get(), state[0].get(), rate.get(), state[1].get(), state[2].get()};
  void* out[] = {state[0].get(), state[1].get(), state[2].get()};
  const TmaUpdate update(spec);
  EXPECT_TRUE(update.takes(in, out));
  update.run(in, out);
  const auto w = counted(p.m * p.n, 7), u = counted(p.m * p.n, 11), v = counted(p.m * p.n, 13);
  std::vector<double> wanted[3] = {w, u, v};
  for (std::size_t i = 0; i < count; ++i) {
    wanted[0][i] = w[i] - 0.5 * (gradient[i] + w[i]);
    if (spec.code.outputs.size() < 3) continue;
    wanted[1][i] = u[i] + gradient[i];
    wanted[2][i] = v[i] * gradient[i];
  }
  for (std::size_t t = 0; t < 3; ++t) EXPECT_EQ(state[t].read(), floats(wanted[t])) << "tensor " << t;
}

TEST(TmaUpdate, OfAnySize) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  for (const int tensors : {1, 3}) {
    expect_updated(update_of(64, 64, 64, tensors));
    expect_updated(update_of(4, 32, 1, tensors));
    expect_updated(update_of(100, 288, 17, tensors));
    expect_updated(update_of(1024, 160, 40, tensors));  // more tiles than stages
  }
}

// The same, with dx = g·wᵀ of the weights as they were.
void expect_both(const UpdateSpec& spec) {
  const Product& p = spec.product;
  SCOPED_TRACE(testing::Message() << name_of(p) << ", operands " << spec.scalar.size());
  ASSERT_EQ(TmaBackward::refusal(spec), "");
  const auto x = counted(p.k * p.m, 3), g = counted(p.k * p.n, 5), w = counted(p.m * p.n, 7);
  const auto gradient = by_rows(p, x, g), dx = by_rows(dense(p.k, p.m, p.n, false, true, 0), g, w);
  const auto wide = spec.in == f32 ? w : near(w);
  const OnGpu left(floats(x), spec.in), right(floats(g), spec.in), rate({0.5f});
  const OnGpu result(std::vector<float>(dx.size(), -1), spec.in);
  std::vector<OnGpu> state;
  for (const auto& tensor : {wide, counted(p.m * p.n, 11), counted(p.m * p.n, 13)}) state.emplace_back(floats(tensor));
  const void* in[] = {left.get(), right.get(), state[0].get(), rate.get(), state[1].get(), state[2].get()};
  std::vector<void*> out{state[0].get(), state[1].get(), state[2].get()};
  out.resize(spec.code.outputs.size());
  out.push_back(result.get());
  const TmaBackward back(spec, 0);
  const OnGpu scratch(std::vector<float>(back.scratch_bytes() / 4));
  EXPECT_TRUE(back.takes(in, out.data()));
  back.run(in, out.data(), scratch.get());
  std::vector<double> wanted = wide;
  for (std::size_t i = 0; i < w.size(); ++i) wanted[i] = wide[i] - 0.5 * (gradient[i] + wide[i]);
  EXPECT_EQ(state[0].read(), floats(wanted));
  EXPECT_EQ(result.read(), rounded(dx, spec.in));
}

TEST(TmaBackward, OfAnySize) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  for (const int tensors : {1, 3}) {
    expect_both(update_of(128, 64, 64, tensors));
    expect_both(update_of(8, 32, 1, tensors));
    expect_both(update_of(200, 288, 17, tensors));
    expect_both(update_of(128, 1024, 40, tensors));  // more tiles than stages
  }
}

TEST(TmaBackward, WithWhatFollowsTheGradient) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  for (const DType in : {f32, bf16}) {
    UpdateSpec spec = update_of(200, 288, 17, 1);
    spec.in = in;
    const Product& p = spec.product;
    const WithTail with(p.k * p.m);
    const auto x = counted(p.k * p.m, 3), g = counted(p.k * p.n, 5), w = counted(p.m * p.n, 7);
    const OnGpu left(floats(x), in), right(floats(g), in), weights(floats(w)), rate({0.5f}), u(floats(with.u), in),
        v(floats(with.v), in), y(std::vector<float>(x.size(), -1), in),
        sums(std::vector<float>(static_cast<std::size_t>(p.m), -1), in);
    const void* operands[] = {left.get(), right.get(), weights.get(), rate.get(), u.get(), v.get()};
    void* results[] = {weights.get(), y.get(), sums.get()};
    const TmaBackward back(spec, 0, with.tail);
    const OnGpu scratch(std::vector<float>(back.scratch_bytes() / 4));
    back.run(operands, results, scratch.get());
    with.expect(by_rows(dense(p.k, p.m, p.n, false, true, 0), g, w), p.m, in, y, sums);
  }
}

TEST(TmaBackward, OfFactorsOf16Bits) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  for (const DType in : {bf16, f16})
    for (const auto& [m, n, k] : {std::array{128, 64, 64}, {8, 32, 1}, {200, 288, 17}, {128, 1024, 40}}) {
      UpdateSpec spec = update_of(m, n, k, m == 200 ? 3 : 1);
      spec.in = in;
      spec.early = true;
      expect_both(spec);
    }
}

TEST(TmaUpdate, RefusesWhatItCannotRead) {
  EXPECT_NE(TmaUpdate::refusal(update_of(64, 64, 65, 1)), "");
  EXPECT_NE(TmaUpdate::refusal(update_of(64, 40, 64, 1)), "");
  EXPECT_NE(TmaUpdate::refusal(update_of(63, 64, 64, 1)), "");
  UpdateSpec exact = update_of(64, 64, 64, 1);
  exact.tf32 = false;
  EXPECT_NE(TmaUpdate::refusal(exact), "");
}

TEST(TmaTexts, CompileForTheGpuTheyAreFor) {
  if (has_gpu()) GTEST_SKIP() << kNotCollected;
  for (const bool along : {false, true}) const TmaGemm gemm(spec_of(64, 2048, 2048, along));
  const TmaGemm followed(spec_of(64, 2048, 2048, true), WithTail(1).tail);
  for (const DType in : {f32, bf16, f16}) {
    UpdateSpec spec = update_of(2048, 2048, 64, 3);
    spec.in = in;
    const TmaUpdate update(spec);
    const TmaBackward back(spec, 0);
    if (in != f32) const TmaGemm gemm(half_spec_of(64, 2048, 2048, in));
  }
  int found = 0;
  for (const KernelText& text : collected_texts()) {
    if (!text.file.starts_with("matmul/matmul_tma") && !text.file.starts_with("matmul/split_k")) continue;
    ++found;
    expect_text_compiles(text, "sm_90a");
  }
  EXPECT_GE(found, 14);  // 4 products, 3 sums, a tail, 3 updates, 3 of both gradients
}

}  // namespace
}  // namespace varve::cuda
