// Matrix products of the CUDA backend. Layouts and kept choices need no GPU; kernels run where there is one, if only an
// emulated one.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "backends/cuda/device/context.h"
#include "backends/cuda/matmul/matmul_gemm.h"
#include "backends/cuda/matmul/matmul_plain.h"
#include "backends/cuda/matmul/matmul_update_plain.h"
#include "cuda/compiles.h"
#include "cuda/products.h"

namespace varve::cuda {
namespace {

// ---- row-major products as column-major ones

// As the library is told: op(A)·op(B), column by column. Its A is our b.
std::vector<double> by_columns(const BlasProblem& p, std::size_t size, const std::vector<double>& ours_a,
                               const std::vector<double>& ours_b) {
  const auto element = [](const BlasMatrix& x, const std::vector<double>& data, std::int64_t i, std::int64_t r,
                          std::int64_t c) {
    const std::int64_t row = x.transposed ? c : r, column = x.transposed ? r : c;
    EXPECT_LT(row, x.rows);
    EXPECT_LT(column, x.columns);
    return at(data, i * x.batch + column * x.ld + row);
  };
  EXPECT_GE(p.a.ld, p.a.rows);
  EXPECT_GE(p.b.ld, p.b.rows);
  EXPECT_GE(p.d.ld, p.d.rows);
  EXPECT_EQ(p.d.rows, p.m);
  EXPECT_EQ(p.d.columns, p.n);
  std::vector<double> d(size, -99);
  for (std::int64_t i = 0; i < p.count; ++i)
    for (std::int64_t r = 0; r < p.m; ++r)
      for (std::int64_t c = 0; c < p.n; ++c) {
        double sum = 0;
        for (std::int64_t t = 0; t < p.k; ++t) sum += element(p.a, ours_b, i, r, t) * element(p.b, ours_a, i, t, c);
        d.at(static_cast<std::size_t>(i * p.d.batch + c * p.d.ld + r)) = sum;
      }
  return d;
}

std::vector<double> copied(const std::vector<double>& x, const MatrixStrides& from, const MatrixStrides& to,
                           const Ints& batch, std::int64_t rows, std::int64_t columns) {
  std::vector<double> y(static_cast<std::size_t>(reach(to, batch, rows, columns)));
  Product walk{.batch = batch, .a = from, .b = to, .c = to};
  for (std::int64_t i = 0; i < walk.count(); ++i) {
    const Offsets o = offsets_of(walk, batch.size(), i);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        y.at(static_cast<std::size_t>(o.b + r * to.row + c * to.col)) = at(x, o.a + r * from.row + c * from.col);
  }
  return y;
}

// Whatever the strides: what the library is asked for is the product.
void expect_same(const Product& product) {
  const std::vector<double> a = counted(reach(product.a, product.batch, product.m, product.k), 3),
                            b = counted(reach(product.b, product.batch, product.k, product.n), 5);
  const std::vector<double> wanted = by_rows(product, a, b);
  Packed packed = pack_for_blas(product);
  const std::vector<double> left =
      packed.a ? copied(a, product.a, packed.product.a, product.batch, product.m, product.k) : a;
  const std::vector<double> right =
      packed.b ? copied(b, product.b, packed.product.b, product.batch, product.k, product.n) : b;
  fold(packed.product);
  const std::optional<BlasProblem> problem = blas_problem(packed.product);
  ASSERT_TRUE(problem);
  EXPECT_EQ(by_columns(*problem, wanted.size(), left, right), wanted);
}

TEST(BlasLayout, AllReadingsOfAllSizes) {
  for (const std::int64_t m : {1, 2, 5})
    for (const std::int64_t n : {1, 3, 4})
      for (const std::int64_t k : {1, 2, 7})
        for (const int transposed : {0, 1, 2, 3})
          for (const std::int64_t gap : {0, 3}) {
            SCOPED_TRACE(testing::Message()
                         << m << "x" << n << "x" << k << " transposed " << transposed << " gap " << gap);
            expect_same(dense(m, n, k, transposed & 1, transposed & 2, gap));
          }
}

TEST(BlasLayout, ReadsDenseOperandsWhereTheyLie) {
  for (const int transposed : {0, 1, 2, 3}) {
    const Packed packed = pack_for_blas(dense(5, 4, 3, transposed & 1, transposed & 2, 0));
    EXPECT_FALSE(packed.a || packed.b);
  }
}

TEST(BlasLayout, Batches) {
  Product p = dense(3, 4, 5, false, true, 0);
  p.batch = {6};
  p.a.batch = {15};
  p.b.batch = {20};
  p.c.batch = {12};
  expect_same(p);
  p.b.batch = {0};  // one matrix for all: more rows
  Product folded = p;
  fold(folded);
  EXPECT_TRUE(folded.batch.empty());
  EXPECT_EQ(folded.m, 18);
  expect_same(p);
  p.b.batch = {20};
  p.a.batch = {0};
  expect_same(p);
}

TEST(BlasLayout, BatchesOfTwoAxes) {
  Product p = dense(3, 4, 5, false, false, 0);
  p.batch = {2, 3};
  p.c.batch = {36, 12};
  p.a.batch = {15, 30};  // in another order
  p.b.batch = {60, 20};
  expect_same(p);
  EXPECT_TRUE(pack_for_blas(p).a);
  p.a.batch = {0, 15};  // each repeats along the other's axis
  p.b.batch = {20, 0};
  expect_same(p);
}

// Heads of attention: [batch, head, time, feature] of memory [batch, time, head, feature].
TEST(BlasLayout, Heads) {
  Product p{.batch = {2, 3}, .m = 4, .n = 4, .k = 5};
  p.a = p.b = {{60, 5}, 15, 1};
  std::swap(p.b.row, p.b.col);
  p.c = {{48, 16}, 4, 1};
  expect_same(p);
}

TEST(BlasLayout, CopiesWhatHasNoUnitStride) {
  Product p = dense(3, 4, 5, false, false, 0);
  p.a = {{}, 10, 2};
  p.b = {{}, 0, 1};  // one row, repeated
  const Packed packed = pack_for_blas(p);
  EXPECT_TRUE(packed.a && packed.b);
  expect_same(p);
}

TEST(BlasLayout, NothingToSumIsNotForTheLibrary) {
  EXPECT_FALSE(blas_problem(dense(3, 4, 0, false, false, 0)));
  EXPECT_FALSE(blas_problem(dense(0, 4, 2, false, false, 0)));
}

// ---- the plain kernel

TEST(PlainMatmul, CompilesForEveryType) {
  if (has_gpu()) GTEST_SKIP() << kNotCollected;
  for (const DType dtype : {f32, f64, bf16, u8, i64})
    const PlainGemm gemm({.product = dense(4, 4, 4, false, false, 0), .in = dtype, .out = dtype});
  for (const DType in : {f32, f16}) {
    GemmSpec spec{.product = dense(4, 4, 4, false, false, 0), .in = in, .out = f32, .adds = true, .scaled = true};
    const PlainGemm update(spec);
    spec = {.product = spec.product, .in = in, .out = in, .bias = true, .relu = true};
    const PlainGemm with_bias(spec);
    const SmallGemm small(spec);
  }
  // Other tests in this process may have asked for more.
  std::vector<KernelText> found;
  for (const KernelText& text : collected_texts()) {
    if (text.file != "matmul/matmul_plain.cu" && text.file != "matmul/matmul_small.cu") continue;
    found.push_back(text);
    expect_text_compiles(text);
  }
  EXPECT_GE(found.size(), 11u);
  const auto has = [&](const std::string& file, const std::string& define) {
    return std::any_of(found.begin(), found.end(), [&](const KernelText& text) {
      return text.file == file && text.generated.find("#define " + define + "\n") != std::string::npos;
    });
  };
  for (const DType dtype : {f32, f64, bf16, u8, i64, f16})
    EXPECT_TRUE(has("matmul/matmul_plain.cu", std::string("IN ") + type_name(dtype))) << name(dtype);
  for (const char* what : {"SCALED 1", "ADDS 1", "BIAS 1", "RELU 1"})
    EXPECT_TRUE(has("matmul/matmul_plain.cu", what)) << what;
  for (const DType dtype : {f32, f16})
    EXPECT_TRUE(has("matmul/matmul_small.cu", std::string("T ") + type_name(dtype))) << name(dtype);
}

TEST(PlainUpdate, Compiles) {
  if (has_gpu()) GTEST_SKIP() << kNotCollected;
  const expr::Expr g = expr::Expr::input(0), w = expr::Expr::input(1), rate = expr::Expr::input(2);
  UpdateSpec spec{.code = expr::flatten(3, {w - rate * (g + 0.1 * w)}), .scalar = {false, true}};
  const auto make = [&](std::int64_t size, DType in, bool tf32) {
    spec.product = dense(size, size, 64, true, false, 0);
    spec.in = in;
    spec.tf32 = tf32;
    EXPECT_EQ(update_refusal(spec), "");
    EXPECT_TRUE(takes_layout(spec.product));
    const PlainUpdate made(spec);
  };
  make(64, f32, false);
  make(63, f32, true);
  make(4096, f32, true);
  make(4096, bf16, false);
  make(64, f16, false);
  int found = 0;
  for (const KernelText& text : collected_texts()) {
    if (text.file != "matmul/matmul_update_plain.cu") continue;
    ++found;
    expect_text_compiles(text);
  }
  EXPECT_EQ(found, 5);
}

TEST(PlainMatmul, AnyStrides) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  Product p{.batch = {2, 3}, .m = 70, .n = 65, .k = 33};
  p.a = {{0, 70 * 33}, 1, 70};
  p.b = {{65 * 33 * 2, 0}, 65 * 2, 2};
  p.c = {{3 * 70 * 65, 70 * 65}, 65, 1};
  const auto a = counted(reach(p.a, p.batch, p.m, p.k), 3), b = counted(reach(p.b, p.batch, p.k, p.n), 5);
  const auto wanted = by_rows(p, a, b);
  const OnGpu left(floats(a)), right(floats(b)), c(std::vector<float>(wanted.size(), -1));
  PlainGemm({.product = p}).run({.a = left.get(), .b = right.get(), .c = c.get()});
  EXPECT_EQ(c.read(), floats(wanted));
}

TEST(PlainMatmul, BiasAndRelu) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  const Product p = dense(9, 7, 5, false, true, 2);
  const auto a = counted(reach(p.a, {}, p.m, p.k), 3), b = counted(reach(p.b, {}, p.k, p.n), 5), bias = counted(7, 11);
  std::vector<double> wanted = by_rows(p, a, b);
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = std::max(0.0, wanted[i] + bias[i % 7]);
  const OnGpu left(floats(a)), right(floats(b)), bias_there(floats(bias)), c(std::vector<float>(wanted.size(), -1));
  PlainGemm({.product = p, .bias = true, .relu = true})
      .run({.a = left.get(), .b = right.get(), .bias = bias_there.get(), .c = c.get()});
  EXPECT_EQ(c.read(), floats(wanted));
}

TEST(PlainMatmul, AddsToWhatIsThere) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  const Product p = dense(9, 7, 0, false, false, 0), q = dense(9, 7, 5, true, false, 0);
  const auto start = counted(9 * 7, 7), a = counted(45, 3), b = counted(35, 5);
  const std::vector<double> product = by_rows(q, a, b);
  std::vector<double> wanted(63);
  for (std::size_t i = 0; i < 63; ++i) wanted[i] = 0.5 * start[i] - 0.25 * product[i];
  const OnGpu left(floats(a)), right(floats(b)), scale({-0.25f, 0.5f}), c(floats(start));
  PlainGemm({.product = q, .adds = true, .scaled = true})
      .run({.a = left.get(), .b = right.get(), .c0 = c.get(), .scale = scale.get(), .c = c.get()});
  EXPECT_EQ(c.read(), floats(wanted));
  // Nothing to sum over still owes the rest.
  PlainGemm({.product = p, .adds = true, .beta = 2})
      .run({.a = left.get(), .b = right.get(), .c0 = c.get(), .c = c.get()});
  for (double& x : wanted) x *= 2;
  EXPECT_EQ(c.read(), floats(wanted));
}

// Whoever multiplies here.
// As where operands turn out to lie anywhere while a step is recorded.
TEST(PlainMatmul, IsCompiledWhenItIsStarted) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  const GemmSpec spec{.product = dense(3, 5, 7, true, true, 2), .relu = true};
  const auto a = counted(reach(spec.product.a, {}, 3, 7), 3), b = counted(reach(spec.product.b, {}, 7, 5), 5);
  const OnGpu left(floats(a)), right(floats(b)), c(std::vector<float>(15, -1));
  const PlainGemm gemm(spec, Begin::when_started);
  const auto recording = context().record({{[&] { gemm.run({.a = left.get(), .b = right.get(), .c = c.get()}); }, {}}});
  recording->replay();
  context().wait();
  auto wanted = by_rows(spec.product, a, b);
  for (double& x : wanted) x = std::max(x, 0.0);
  EXPECT_EQ(c.read(), floats(wanted));
}

TEST(SmallMatmul, AnyStridesBiasAndRelu) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  for (const DType dtype : {f32, bf16, f16})
    for (const auto& [m, n, k] : {std::array{1, 1, 1}, {33, 10, 300}, {80, 40, 7}, {5, 35, 256}})
      for (const bool transposed : {false, true}) {
        GemmSpec spec{.product = dense(m, n, k, transposed, !transposed, 3), .in = dtype, .out = dtype};
        spec.bias = transposed;
        spec.relu = m == 33;
        const Product& p = spec.product;
        SCOPED_TRACE(testing::Message() << name(dtype) << " " << name_of(p));
        ASSERT_TRUE(SmallGemm::takes(spec));
        const auto a = counted(reach(p.a, {}, m, k), 3), b = counted(reach(p.b, {}, k, n), 5), bias = counted(n, 7);
        const OnGpu left(floats(a), dtype), right(floats(b), dtype), more(floats(bias), dtype);
        auto wanted = by_rows(p, a, b);
        const OnGpu c(std::vector<float>(wanted.size(), -1), dtype);
        SmallGemm(spec).run(
            {.a = left.get(), .b = right.get(), .bias = spec.bias ? more.get() : nullptr, .c = c.get()});
        for (std::size_t i = 0; i < wanted.size(); ++i) {
          if (spec.bias) wanted[i] += bias[i % bias.size()];
          if (spec.relu) wanted[i] = std::max(wanted[i], 0.0);
        }
        EXPECT_EQ(c.read(), rounded(wanted, dtype));
      }
}

TEST(SmallMatmul, LeavesTheRest) {
  const auto takes = [](const Product& p, DType in = f32, bool adds = false) {
    return SmallGemm::takes({.product = p, .in = in, .out = in, .adds = adds});
  };
  EXPECT_TRUE(takes(dense(64, 128, 512, false, false, 0)));  // two blocks for each of four multiprocessors
  EXPECT_FALSE(takes(dense(80, 512, 512, false, false, 0), f32, true));
  EXPECT_FALSE(takes(dense(80, 512, 512, false, false, 0), f64));
  EXPECT_FALSE(takes(dense(80, 512, 512, false, false, 0), i32));
  EXPECT_FALSE(takes(dense(80, 512, 2048, false, false, 0)));
  EXPECT_FALSE(takes(dense(2048, 512, 64, false, false, 0)));
  EXPECT_FALSE(takes(dense(80, 512, 512, false, false, std::int64_t{1} << 31)));
}

TEST(Gemm, FactorsThatAreCopiedToLieAlongTheSumAreTheSame) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  const Product p = dense(40, 72, 56, true, false, 4);
  const auto a = counted(reach(p.a, {}, p.m, p.k), 3), b = counted(reach(p.b, {}, p.k, p.n), 5), bias = counted(p.n, 7);
  std::vector<double> wanted = by_rows(p, a, b);
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += bias[i % 72];
  const OnGpu left(floats(a)), right(floats(b)), more(floats(bias));
  for (const auto& [transpose_a, transpose_b] : {std::pair{true, false}, {false, true}, {true, true}}) {
    const Gemm gemm({.product = p, .tf32 = true, .bias = true, .transpose_a = transpose_a, .transpose_b = transpose_b});
    const OnGpu c(std::vector<float>(wanted.size(), -1)), scratch(std::vector<float>(gemm.scratch_bytes() / 4 + 64));
    gemm.run({.a = left.get(), .b = right.get(), .bias = more.get(), .c = c.get(), .scratch = scratch.get()});
    EXPECT_EQ(c.read(), floats(wanted)) << transpose_a << transpose_b;
  }
}

}  // namespace
}  // namespace varve::cuda
