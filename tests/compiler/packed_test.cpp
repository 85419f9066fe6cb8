// Parameters that a program only reads may lie in a private layout: nobody can tell but by the clock.
#include <gtest/gtest.h>

#include <varve/varve.h>

namespace varve {
namespace {

Tensor half_normal(const Shape& shape, std::int64_t seed) { return normal(shape, {.seed = seed}).to(bf16).eval(); }

std::vector<float> on(const char* where, const Tensor& x, const Tensor& w) {
  set_device(where);
  const std::vector<float> result = matmul(x, w).to_vector<float>();
  set_device("cpu");
  return result;
}

void expect_close(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], 0.02f * std::abs(expected[i]) + 0.05f) << i;
}

TEST(PackedWeights, FollowTheVariable) {
  set_device("cpu");
  Variable w("w", half_normal({40, 70}, 1));
  const Tensor x = half_normal({24, 40}, 2);
  auto predict = compile([&](Tensor in) { return matmul(in, w); });
  expect_close(predict(x).to_vector<float>(), on("reference", x, w));
  expect_close(predict(x).to_vector<float>(), on("reference", x, w));  // replayed, not packed again
  w.assign(half_normal({40, 70}, 3));
  expect_close(predict(x).to_vector<float>(), on("reference", x, w));
}

TEST(PackedWeights, AreForgoneWhereSomebodyReadsThemPlain) {
  set_device("cpu");
  Variable w("w", half_normal({40, 70}, 1));
  const Tensor x = half_normal({24, 40}, 2);
  auto both = compile([&](Tensor in) { return std::pair(matmul(in, w), sum(w.value().to(f32))); });
  EXPECT_EQ(both.text(x).find("lies as"), std::string::npos);
  const auto [product, total] = both(x);
  expect_close(product.to_vector<float>(), on("reference", x, w));
  EXPECT_NEAR(total.item<float>(), sum(w.value().to(f32)).item<float>(), 1e-3);
}

TEST(PackedWeights, AreKeptOnlyByProgramsThatDoNotWriteThem) {
  set_device("cpu");
  Variable w("w", half_normal({40, 70}, 1));
  const Tensor x = half_normal({24, 40}, 2);
  auto step = compile([&](Tensor in) {
    const Tensor y = matmul(in, w);
    w.assign((w.value().to(f32) * 0.5).to(bf16));
    return y;
  });
  EXPECT_EQ(step.text(x).find("lies as"), std::string::npos);
  const std::vector<float> before = on("reference", x, w);
  expect_close(step(x).to_vector<float>(), before);
  const std::vector<float> halved = step(x).to_vector<float>();
  for (std::size_t i = 0; i < halved.size(); ++i)
    EXPECT_NEAR(halved[i], before[i] / 2, 0.02f * std::abs(before[i]) + 0.05f);
}

}  // namespace
}  // namespace varve
