#include "helpers.h"

namespace varve::nn_tests {
namespace {

Tensor draw(const nn::Initializer& initial, const Shape& shape, const nn::Fans& fans = {}) {
  return initial(shape, fans, {.seed = 5, .stream = "w"}).eval();
}
double deviation(const Tensor& x) { return std::sqrt(var(x).item<double>()); }
double largest(const Tensor& x) { return max(varve::abs(x)).item<double>(); }

// A deviation estimated from n values is off by 1/√(2n) of itself: 0.5% here, four of those are allowed.
TEST(Init, SpreadFollowsTheFans) {
  const Shape shape{100, 200};
  const double tolerance = 0.02;
  const auto near = [&](const nn::Initializer& initial, double expected) {
    EXPECT_NEAR(deviation(draw(initial, shape)) / expected, 1, tolerance);
    EXPECT_NEAR(mean(draw(initial, shape)).item<double>() / expected, 0, 4 / std::sqrt(20000.0));
  };
  near(nn::init::normal(0.3), 0.3);
  near(nn::init::uniform(0.5), 0.5 / std::sqrt(3));
  near(nn::init::glorot_uniform(), std::sqrt(2.0 / 300));
  near(nn::init::glorot_normal(), std::sqrt(2.0 / 300));
  near(nn::init::he_uniform(), std::sqrt(2.0 / 100));
  near(nn::init::he_normal(), std::sqrt(2.0 / 100));
  near(nn::init::lecun_normal(), std::sqrt(1.0 / 100));
  near(nn::init::fan_in_uniform(), std::sqrt(1.0 / 300));
  near(nn::init::truncated_normal(1), 0.87962566);  // of a normal distribution cut at two deviations
  EXPECT_LE(largest(draw(nn::init::truncated_normal(1), shape)), 2);
  EXPECT_LE(largest(draw(nn::init::glorot_uniform(), shape)), std::sqrt(6.0 / 300));
  EXPECT_NEAR(deviation(draw(nn::init::he_normal(), shape, {.in = 25, .out = 1})), std::sqrt(2.0 / 25), 0.01);
  // A convolution's [O, KH, KW, I] sums over KH·KW·I.
  EXPECT_NEAR(deviation(draw(nn::init::he_normal(), {50, 3, 3, 20})), std::sqrt(2.0 / 180), 0.004);
}

TEST(Init, OrthogonalRowsOrColumns) {
  for (const Shape& shape : {Shape{5, 5}, Shape{200, 130}, Shape{70, 150}}) {
    SCOPED_TRACE(shape.str());
    const Tensor q = draw(nn::init::orthogonal(2), shape).to(f64);
    const bool tall = shape[0] > shape[1];
    const Tensor gram = tall ? matmul(q, q, {.transpose_a = true}) : matmul(q, q, {.transpose_b = true});
    EXPECT_LT(largest(gram - eye(std::min(shape[0], shape[1]), f64) * 4), 1e-5);
  }
  EXPECT_EQ(message_of([] { draw(nn::init::orthogonal(), {5}); }),
            "orthogonal: needs a shape of two or more axes, got [5]; use another initialiser.");
}

TEST(Init, GatesAreDrawnOneByOne) {
  const Tensor w = draw(nn::init::gates(nn::init::orthogonal(), 4), {6, 24});
  for (const Tensor& gate : split(w, 4, 1))
    EXPECT_LT(largest(matmul(gate, gate, {.transpose_b = true}) - eye(6)), 1e-5);
  EXPECT_GT(largest(split(w, 4, 1)[0] - split(w, 4, 1)[1]), 0.1);
  expect_near(draw(nn::init::forget_bias(1), {8}), {0, 0, 1, 1, 0, 0, 0, 0});
  expect_near(draw(nn::init::constant(2), {2}), {2, 2});
  expect_near(draw(nn::init::from(tensor({1.f, 4.f})), {2}), {1, 4});
}

TEST(Init, ByName) {
  expect_near(draw(nn::init::by_name("he_normal"), {3, 4}), draw(nn::init::he_normal(), {3, 4}), 0);
  EXPECT_EQ(message_of([] { nn::init::by_name("he_nomal"); }),
            "unknown initialiser 'he_nomal'. Did you mean 'he_normal'?");
}

}  // namespace
}  // namespace varve::nn_tests
