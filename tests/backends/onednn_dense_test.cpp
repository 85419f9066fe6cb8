// The gradient of a dense layer's input against plain loops, and oneDNN's private layouts.

#ifdef VARVE_HAS_ONEDNN

#include "backends/onednn_helpers.h"

namespace varve::cpu::dnn {
namespace {

void check_dense(std::int64_t m, std::int64_t k, std::int64_t n, bool single) {
  SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n));
  const auto data = DenseBackwardData::prepare({.m = m, .k = k, .n = n, .single_thread = single});
  ASSERT_TRUE(data) << data.reason();
  const Bytes scratch(data->scratch_bytes());
  const Values dy = values(m * n, 2), w = values(k * n, 3);
  Values expected(m * k), actual(m * k, kNan);
  MatmulSpec dx = row_major(m, n, k);
  dx.b = {.row = 1, .col = n};
  naive_matmul(dx, dy, w, {}, expected);
  data->run(dy.data(), w.data(), actual.data(), scratch.get());
  expect_near(expected, actual.data(), 1e-3, "dx by " + data->implementation());
}

TEST(OneDnnDense, GradientOfTheInput) {
  for (const bool single : {false, true}) {
    check_dense(64, 256, 320, single);
    check_dense(80, 784, 10, single);
    check_dense(9, 40, 1030, single);
    check_dense(7, 33, 100, single);
    check_dense(1, 5, 3, single);
  }
}

TEST(OneDnnLayout, PacksAndUnpacks) {
  MatmulSpec s = row_major(8, 30, 70);
  s.packed_b = true;
  const auto one = Matmul::prepare(s);
  const auto other = Matmul::prepare(s);
  ASSERT_TRUE(one) << one.reason();
  ASSERT_TRUE(other) << other.reason();
  EXPECT_TRUE(one->b_layout() == other->b_layout());
  s.n = 71;
  s.c.row = 71;
  const auto wider = Matmul::prepare(s);
  ASSERT_TRUE(wider) << wider.reason();
  EXPECT_FALSE(one->b_layout() == wider->b_layout());
  const Values w = values(30 * 70, 5);
  Values back(w.size());
  const Bytes packed(one->b_layout().bytes());
  one->b_layout().pack(w.data(), packed.get());
  one->b_layout().unpack(packed.get(), back.data());
  EXPECT_EQ(w, back) << one->b_layout().description();
}

}  // namespace
}  // namespace varve::cpu::dnn

#endif  // VARVE_HAS_ONEDNN
