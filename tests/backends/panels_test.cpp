// Products of operands as they lie, against plain loops.
#include "backends/cpu/matmul/gemm/panels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backends/cpu/recurrent/step_product.h"

namespace varve::cpu::plain {
namespace {

std::vector<float> numbers(std::int64_t count, int seed) {
  std::vector<float> v(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < v.size(); ++i)
    v[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(seed)) % 13) - 6;
  return v;
}

struct PanelCase {
  std::int64_t m, n, k;
  bool transposed_a, transposed_b, packed, start_row;
};

// Small integers: every sum is exact, in any order.
void expect_product(const PanelCase& c) {
  const std::int64_t room = vector_columns(), c_row = c.n + 3;
  const auto a = numbers(c.m * c.k, 1), b = numbers(c.k * c.n + room, 2), start = numbers(c.n, 3);
  std::vector<float> panels(packed_floats(c.k, c.n), NAN), got(static_cast<std::size_t>(c.m * c_row), -99);
  pack_panels(b.data(), c.k, c.n, c.transposed_b, panels.data());
  multiply(PanelProduct{.m = c.m,
                        .n = c.n,
                        .k = c.k,
                        .a = c.transposed_a ? Left{a.data(), 1, c.m} : Left{a.data(), c.k, 1},
                        .b = c.packed ? packed_right(panels.data(), c.k) : right_as_it_lies(b.data(), c.n),
                        .start = {c.start_row ? start.data() : nullptr, 0},
                        .c = got.data(),
                        .c_row = c_row,
                        .fetch = {Fetch{b.data(), c.k * c.n}, Fetch{a.data(), c.m * c.k}}});
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (std::int64_t i = 0; i < c.m; ++i)
    for (std::int64_t j = 0; j < c_row; ++j) {
      float want = j < c.n ? (c.start_row ? start[at(j)] : 0.f) : -99;  // nothing outside is touched
      for (std::int64_t p = 0; p < c.k && j < c.n; ++p)
        want += a[at(c.transposed_a ? p * c.m + i : i * c.k + p)] * b[at(c.transposed_b ? j * c.k + p : p * c.n + j)];
      ASSERT_EQ(got[at(i * c_row + j)], want) << c.m << "x" << c.n << "x" << c.k << " at " << i << ", " << j;
    }
}

TEST(Panels, ProductsOfAllSizes) {
  for (const std::int64_t m : {1, 2, 7, 8, 13})
    for (const std::int64_t n : {1, 7, 16, 33, 47, 48, 49, 100})
      for (const std::int64_t k : {0, 1, 5, 40})
        for (const bool packed : {false, true})
          for (const bool transposed : {false, true})
            expect_product({.m = m,
                            .n = n,
                            .k = k,
                            .transposed_a = transposed,
                            .transposed_b = transposed && packed,
                            .packed = packed,
                            .start_row = transposed});
}

// With columns left over behind the panels, which are summed along K.
TEST(StepProduct, OfAllSizes) {
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (const std::int64_t n : {1, 4, 7, 9, 16, 22, 48, 52, 100, 131})
    for (const std::int64_t k : {1, 5, 16, 50})
      for (const std::int64_t m : {1, 3, 4, 9})
        for (const bool transposed : {false, true}) {
          const StepProduct product({.k = k, .n = n, .transposed = transposed, .accumulate = transposed});
          const auto a = numbers(m * k, 1), w = numbers(k * n, 2);
          std::vector<float> c = numbers(m * n, 3), packed(product.scratch_bytes() / sizeof(float), NAN);
          const std::vector<float> before = c;
          product.run(product.load(w.data(), packed.data()), m, a.data(), c.data());
          for (std::int64_t i = 0; i < m; ++i)
            for (std::int64_t j = 0; j < n; ++j) {
              float want = transposed ? before[at(i * n + j)] : 0.f;
              for (std::int64_t p = 0; p < k; ++p) want += a[at(i * k + p)] * w[at(transposed ? j * k + p : p * n + j)];
              ASSERT_EQ(c[at(i * n + j)], want) << m << "x" << n << "x" << k << " at " << i << ", " << j;
            }
        }
}

TEST(Panels, SumsOfColumns) {
  for (const std::int64_t n : {1, 15, 16, 50, 128, 300}) {
    const auto data = numbers(9 * n, 4);
    std::vector<float> sums(static_cast<std::size_t>(n), 1.f);
    add_columns(data.data(), n, 9, n, sums.data());
    for (std::int64_t j = 0; j < n; ++j) {
      float want = 1;
      for (std::int64_t i = 0; i < 9; ++i) want += data[static_cast<std::size_t>(i * n + j)];
      EXPECT_EQ(sums[static_cast<std::size_t>(j)], want);
    }
  }
}

}  // namespace
}  // namespace varve::cpu::plain
