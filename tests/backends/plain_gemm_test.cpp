// Our own matrix product against sums in double: sizes that fit no block, all strides, and what it can do beside.
#include "backends/cpu/matmul/gemm/gemm.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "base/threads.h"

namespace varve::cpu::plain {
namespace {

struct GemmCase {
  std::int64_t m, n, k;
  bool transposed_a, transposed_b, transposed_c;
};

Product product_of(const GemmCase& c) {
  const auto strides = [](std::int64_t rows, std::int64_t columns, bool transposed) {
    return transposed ? MatrixStrides{{}, 1, rows} : MatrixStrides{{}, columns, 1};
  };
  Product p;
  p.m = c.m;
  p.n = c.n;
  p.k = c.k;
  p.a = strides(c.m, c.k, c.transposed_a);
  p.b = strides(c.k, c.n, c.transposed_b);
  p.c = strides(c.m, c.n, c.transposed_c);
  return p;
}

std::vector<float> operand_values(std::int64_t count, unsigned seed) {
  std::vector<float> v(static_cast<std::size_t>(count));
  unsigned state = seed * 2654435761u + 1;
  for (float& x : v) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 8) / 8388608.f - 1.f;
  }
  return v;
}

struct Operands {
  explicit Operands(const Product& product)
      : p(product), a(operand_values(p.m * p.k, 1)), b(operand_values(p.k * p.n, 2)) {}

  double sum(std::int64_t i, std::int64_t j) const {
    double total = 0;
    for (std::int64_t q = 0; q < p.k; ++q)
      total += static_cast<double>(a[static_cast<std::size_t>(i * p.a.row + q * p.a.col)]) *
               b[static_cast<std::size_t>(q * p.b.row + j * p.b.col)];
    return total;
  }
  double bound() const { return 1e-6 * (1 + std::sqrt(static_cast<double>(p.k))) * 2; }

  Product p;
  std::vector<float> a, b;
};

constexpr std::array<std::array<std::int64_t, 3>, 12> kSizes = {{{1, 1, 1},
                                                                 {4, 96, 16},
                                                                 {5, 97, 17},
                                                                 {17, 10, 80},
                                                                 {3, 200, 300},
                                                                 {131, 33, 7},
                                                                 {67, 129, 530},
                                                                 {300, 5, 1100},
                                                                 {530, 130, 280},
                                                                 {17, 900, 300},
                                                                 {2, 700, 1},
                                                                 {33, 31, 0}}};

std::vector<GemmCase> cases() {
  std::vector<GemmCase> all;
  for (const auto& [m, n, k] : kSizes)
    for (int transposed = 0; transposed < 8; ++transposed)
      all.push_back({m, n, k, (transposed & 1) != 0, (transposed & 2) != 0, (transposed & 4) != 0});
  return all;
}

std::vector<float> run(const Gemm& gemm, const Operands& in) {
  std::vector<float> c(static_cast<std::size_t>(in.p.m * in.p.n), NAN);
  std::vector<std::byte> scratch(gemm.scratch_bytes() + 64);
  gemm.run(in.a.data(), in.b.data(), c.data(), scratch.data());
  return c;
}

class GemmSizes : public ::testing::TestWithParam<GemmCase> {};

TEST_P(GemmSizes, IsTheSumOfProducts) {
  const Operands in(product_of(GetParam()));
  const std::vector<float> c = run(Gemm(in.p, {.workers = 3}), in);
  for (std::int64_t i = 0; i < in.p.m; ++i)
    for (std::int64_t j = 0; j < in.p.n; ++j)
      ASSERT_NEAR(c[static_cast<std::size_t>(i * in.p.c.row + j * in.p.c.col)], in.sum(i, j), in.bound())
          << i << ", " << j;
}

TEST_P(GemmSizes, LanesDoNotChangeABit) {
  const Operands in(product_of(GetParam()));
  const std::vector<float> one = run(Gemm(in.p, {.workers = 1}), in);
  for (const int workers : {2, 3, 16}) {
    const std::vector<float> many = run(Gemm(in.p, {.workers = workers}), in);
    EXPECT_EQ(std::memcmp(one.data(), many.data(), one.size() * sizeof(float)), 0) << workers;
  }
}

TEST_P(GemmSizes, AddsItselfWithAScale) {
  if (GetParam().transposed_c) return;  // rows of c are dense there
  const Operands in(product_of(GetParam()));
  const std::vector<float> before = operand_values(in.p.m * in.p.n, 3);
  std::vector<float> c = before;
  const Gemm gemm(in.p, {.accumulate = true, .workers = 2});
  std::vector<std::byte> scratch(gemm.scratch_bytes() + 64);
  const float scale = -0.5f;
  gemm.run_scaled(in.a.data(), in.b.data(), &scale, c.data(), scratch.data());
  for (std::size_t i = 0; i < c.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    ASSERT_NEAR(c[i], before[i] - 0.5 * in.sum(at / in.p.n, at % in.p.n), in.bound()) << i;
  }
}

TEST_P(GemmSizes, HandsOutEveryElementOnce) {
  if (GetParam().transposed_c) return;
  const Operands in(product_of(GetParam()));
  const Gemm gemm(in.p, {.pieces = true, .workers = 2});
  std::vector<float> c(static_cast<std::size_t>(in.p.m * in.p.n), 0);
  std::vector<std::byte> scratch(gemm.scratch_bytes() + 64);
  const std::vector<Gemm::PieceShape> shapes = gemm.piece_shapes();
  bool known = true;
  gemm.run_pieces(in.a.data(), in.b.data(), {}, scratch.data(), [&](const Gemm::Piece& piece) {
    bool found = false;
    for (const Gemm::PieceShape& s : shapes)
      found |= s.rows == piece.rows && s.columns == piece.columns && s.stride == piece.stride;
    if (!found) known = false;
    for (std::int64_t i = 0; i < piece.rows; ++i)
      for (std::int64_t j = 0; j < piece.columns; ++j)
        c[static_cast<std::size_t>((piece.row + i) * in.p.n + piece.column + j)] +=
            static_cast<const float*>(piece.sums)[i * piece.stride + j];
  });
  EXPECT_TRUE(known) << "a shape that was not announced";
  for (std::size_t i = 0; i < c.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    ASSERT_NEAR(c[i], in.sum(at / in.p.n, at % in.p.n), in.bound()) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GemmSizes, ::testing::ValuesIn(cases()));

}  // namespace
}  // namespace varve::cpu::plain
