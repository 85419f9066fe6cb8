// The gradients and the update of a dense layer on oneDNN's private layouts, against plain loops.

#ifdef VARVE_HAS_ONEDNN

#include "backends/onednn_helpers.h"

namespace varve::cpu::dnn {
namespace {

// Forward, both gradients and the update of one dense layer, all on the layout that the forward pass chose.
void check_dense(std::int64_t m, std::int64_t k, std::int64_t n, bool packed, bool single) {
  SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n) + (packed ? " packed" : ""));
  MatmulSpec forward_spec = row_major(m, k, n);
  forward_spec.packed_b = packed;
  forward_spec.single_thread = single;
  const Offer<Matmul> forward = Matmul::prepare(forward_spec);
  ASSERT_TRUE(forward) << forward.reason();
  const PackedLayout layout = packed ? forward->b_layout() : row_major_layout(k, n);
  const Values x = values(m * k, 1), dy = values(m * n, 2), w = values(k * n, 3);
  const Bytes kept(layout.bytes());
  layout.pack(w.data(), kept.get());

  const DenseSpec spec{.m = m, .k = k, .n = n, .bias = true, .single_thread = single};
  const auto data = DenseBackwardData::prepare(spec, layout);
  const auto weights = DenseBackwardWeights::prepare(spec, layout);
  const auto update = DenseUpdate::prepare(spec, layout);
  ASSERT_TRUE(data) << data.reason();
  ASSERT_TRUE(weights) << weights.reason();
  ASSERT_TRUE(update) << update.reason();
  const Bytes scratch(
      std::max({forward->scratch_bytes(), data->scratch_bytes(), weights->scratch_bytes(), update->scratch_bytes()}));

  Values expected(m * n), actual(m * n);
  naive_matmul(row_major(m, k, n), x, w, {}, 1, expected);
  forward->run({.a = x.data(), .b = kept.get(), .c = actual.data(), .scratch = scratch.get()});
  expect_near(expected, actual.data(), 1e-3, "forward by " + forward->implementation());

  expected.assign(m * k, 0);
  actual.assign(m * k, kNan);
  MatmulSpec dx = row_major(m, n, k);
  dx.b = {.row = 1, .col = n};
  naive_matmul(dx, dy, w, {}, 1, expected);
  data->run(dy.data(), kept.get(), actual.data(), scratch.get());
  expect_near(expected, actual.data(), 1e-3, "dx by " + data->implementation());

  expected.assign(k * n, 0);
  actual.assign(k * n, kNan);
  MatmulSpec dw = row_major(k, m, n);
  dw.a = {.row = 1, .col = k};
  naive_matmul(dw, x, dy, {}, 1, expected);
  const Bytes gradient(layout.bytes());
  Values db(n, kNan), expected_db(n);
  for (std::int64_t i = 0; i < m * n; ++i) expected_db[i % n] += dy[i];
  weights->run(x.data(), dy.data(), gradient.floats(), db.data(), scratch.get());
  layout.unpack(gradient.get(), actual.data());
  expect_near(expected, actual.data(), 1e-3, "dw by " + weights->implementation());
  expect_near(expected_db, db.data(), 1e-3, "db");

  for (std::int64_t i = 0; i < k * n; ++i) expected[i] = w[i] - 0.5f * expected[i];
  const float alpha = -0.5f;
  update->run(x.data(), dy.data(), &alpha, kept.floats(), scratch.get());
  layout.unpack(kept.get(), actual.data());
  expect_near(expected, actual.data(), 1e-3, "update by " + update->implementation());
}

TEST(OneDnnDense, GradientsAndUpdateShareOneLayout) {
  for (const bool packed : {false, true}) {
    for (const bool single : {false, true}) {
      check_dense(64, 256, 320, packed, single);
      check_dense(80, 784, 10, packed, single);
      check_dense(9, 40, 1030, packed, single);
      check_dense(7, 33, 100, packed, single);
      check_dense(1, 5, 3, packed, single);
    }
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
  EXPECT_FALSE(one->b_layout() == row_major_layout(30, 71));
  EXPECT_TRUE(row_major_layout(30, 70).is_plain());
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
