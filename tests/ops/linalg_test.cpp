// What rows cannot say of linear algebra: matrices without an answer, conventions, degenerate cases.
#include "varve/linalg.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/values.h"
#include "varve/autodiff.h"
#include "varve/compile.h"

namespace varve::test {
namespace {

class Matrices : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    before_ = device();
    set_device(GetParam());
  }
  void TearDown() override { set_device(before_); }

  template <class F>
  static std::string error_of(F f) {
    try {
      f();
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }

 private:
  std::string before_;
};

std::string device_name(const testing::TestParamInfo<std::string>& info) { return info.param; }
INSTANTIATE_TEST_SUITE_P(Devices, Matrices, testing::ValuesIn(executing_backends()), device_name);

double largest(const Tensor& x) { return max(abs(x)).item<double>(); }

TEST_P(Matrices, WithoutAnAnswerAreNamed) {
  const Tensor good = eye(2), zero = zeros({2, 2});
  const Tensor batch = stack({good, good, zero});
  EXPECT_EQ(
      error_of([&] { linalg::cholesky(batch).eval(); }),
      "cholesky: matrix 2 of f32 [3, 2, 2] is not positive definite. Add a small multiple of the identity, or use "
      "eigh.");
  EXPECT_EQ(error_of([&] {
              linalg::solve(batch, ones({2, 1})).eval();
            }),
            "solve: matrix 2 of f32 [3, 2, 2] is singular: it has no inverse.");
  EXPECT_EQ(error_of([&] {
              linalg::inv(tensor({{1.0, 2.0}, {2.0, 4.0}})).eval();
            }),
            "solve: matrix 0 of f64 [2, 2] is singular: it has no inverse.");
  EXPECT_EQ(error_of([&] { linalg::triangular_solve(batch, ones({2})).eval(); }),
            "triangular_solve: matrix 2 of f32 [3, 2, 2] is singular: it has no inverse.");
  const Tensor infinite = tensor({{1.0f, 0.0f}, {0.0f, INFINITY}});
  EXPECT_EQ(error_of([&] { linalg::eigh(infinite).values.eval(); }),
            "eigh: matrix 0 of f32 [2, 2] has values that are NaN or infinite.");
  EXPECT_EQ(error_of([&] { linalg::svd(infinite).s.eval(); }),
            "svd: matrix 0 of f32 [2, 2] has values that are NaN or infinite.");
  // And what comes after is unharmed.
  EXPECT_EQ(linalg::det(stack({2 * good, zero})).to_vector<float>(), (std::vector<float>{4, 0}));
}

TEST_P(Matrices, ThatAreSingularHaveDeterminants) {
  const Tensor singular = tensor({{1.0, 2.0}, {2.0, 4.0}});
  EXPECT_EQ(linalg::det(singular).item<double>(), 0);
  const auto [sign, log] = linalg::slogdet(singular);
  EXPECT_EQ(sign.item<double>(), 0);
  EXPECT_EQ(log.item<double>(), -INFINITY);
  EXPECT_EQ(linalg::det(tensor({{0.0, 1.0}, {1.0, 0.0}})).item<double>(), -1);
}

TEST_P(Matrices, OfLowRankHaveOrthonormalVectors) {
  const Tensor column = arange(0.0, 6.0, 1.0, f64).reshape({6, 1});
  for (const Tensor& a : {matmul(column, ones({1, 4}, f64)), matmul(ones({3, 1}, f64), transpose(column)),
                          zeros({4, 3}, f64), zeros({2, 5}, f64)}) {
    const auto [u, s, vt] = linalg::svd(a);
    EXPECT_LT(largest(matmul(u, u, {.transpose_a = true}) - eye(s.dim(0), f64)), 1e-12);
    EXPECT_LT(largest(matmul(vt, vt, {.transpose_b = true}) - eye(s.dim(0), f64)), 1e-12);
    EXPECT_LT(largest(matmul(u * s, vt) - a), 1e-12);
    const auto [q, r] = linalg::qr(a);
    EXPECT_LT(largest(matmul(q, r) - a), 1e-12);
    EXPECT_LT(largest(matmul(q, q, {.transpose_a = true}) - eye(q.dim(1), f64)), 1e-12);
  }
}

TEST_P(Matrices, OfAnyScaleAreFactored) {
  for (const double scale : {1e-300, 1e-160, 1e160, 1e300}) {
    const Tensor a = scale * tensor({{2.0, 1.0}, {1.0, 2.0}});
    EXPECT_NEAR(linalg::eigh(a).values.to_vector<double>()[1] / scale, 3, 1e-12);
    EXPECT_NEAR(linalg::svd(a).s.to_vector<double>()[0] / scale, 3, 1e-12);
    EXPECT_NEAR(linalg::qr(a).r.to_vector<double>()[0] / scale, std::sqrt(5), 1e-12);
  }
}

TEST_P(Matrices, HaveVectorsOfOneSign) {
  // Both entries are as large: the first one is positive.
  const Tensor vectors = linalg::eigh(tensor({{2.0, 1.0}, {1.0, 2.0}})).vectors;
  const double half = std::sqrt(0.5);
  const std::vector<double> got = vectors.to_vector<double>(), want = {half, half, -half, half};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(got[i], want[i], 1e-15);
}

TEST_P(Matrices, LargerThanABlock) {
  const std::int64_t n = 70;
  const Tensor x = normal({n, n}, {.seed = 3, .dtype = f64}), a = x + transpose(x);
  const auto [values, vectors] = linalg::eigh(a);
  EXPECT_LT(largest(matmul(vectors * values, vectors, {.transpose_b = true}) - a), 1e-11);
  const auto [u, s, vt] = linalg::svd(x);
  EXPECT_LT(largest(matmul(u * s, vt) - x), 1e-11);
  EXPECT_LT(largest(matmul(x, linalg::solve(x, a)) - a), 1e-9);
}

TEST_P(Matrices, WithEqualEigenvaluesPassGradientsThatDoNotMixThem) {
  // The trace of a function of a: no gradient between vectors, though 1 / (wⱼ - wᵢ) is infinite.
  const auto f = [](const Tensor& a) { return sum(square(linalg::eigh(a).values)); };
  const std::vector<double> got = grad(f)(2 * eye(2, f64)).to_vector<double>();
  EXPECT_EQ(got, (std::vector<double>{4, 0, 0, 4}));
}

TEST_P(Matrices, CompileAndLearn) {
  auto step = compile([](const Tensor& a, const Tensor& b) {
    return value_and_grad([&](const Tensor& x) { return sum(linalg::solve(x, b)); })(a);
  });
  const Tensor a = tensor({{2.0, 0.0}, {0.0, 4.0}}), b = tensor({1.0, 1.0});
  for (int i = 0; i < 2; ++i) {
    const auto [value, da] = step(a, b);
    EXPECT_NEAR(value.item<double>(), 0.75, 1e-15);
    EXPECT_NEAR(da.to_vector<double>()[3], -1.0 / 16, 1e-15);
  }
}

TEST(MatrixCalls, AreCheckedAtTheCall) {
  const auto message = [](const std::function<void()>& f) -> std::string {
    try {
      f();
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(message([] { linalg::cholesky(zeros({2, 3})); }), "cholesky: takes square matrices, got [2, 3].");
  EXPECT_EQ(message([] { linalg::det(zeros({3})); }), "det: takes a matrix or a batch of them, got f32 [3].");
  EXPECT_EQ(message([] { linalg::svd(zeros({3, 3}, bf16)); }), "svd: takes f32 or f64, got bf16 [3, 3]; cast it.");
  EXPECT_EQ(message([] {
              linalg::solve(zeros({3, 3}), zeros({2, 1}));
            }),
            "solve: takes a [.., N, N] and b [.., N, K] or [N], got [3, 3] and [2, 1].");
  EXPECT_EQ(linalg::inv(2 * eye(2, i64)).to_vector<float>(), (std::vector<float>{0.5, 0, 0, 0.5}));
}

}  // namespace
}  // namespace varve::test
