// vmap, jvp, Jacobians, Hessians and their products, of each other, of gradients, of compiled functions.
#include "varve/transforms.h"

#include <gtest/gtest.h>

#include <cmath>

#include "text_checks.h"
#include "varve/compile.h"
#include "varve/ops.h"

namespace varve {
namespace {

using test::contains;
using Numbers = std::vector<float>;

class Transforms : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { set_device(GetParam()); }
  void TearDown() override { set_device("cpu"); }
};
INSTANTIATE_TEST_SUITE_P(Devices, Transforms, testing::Values("reference", "cpu"));

Tensor rows() { return tensor({{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}}); }
std::string why(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST_P(Transforms, VmapSeesOneExample) {
  const auto f = [](const Tensor& x, const Tensor& y) {
    EXPECT_EQ(x.shape(), Shape{2});
    EXPECT_EQ(y.shape(), Shape{});
    return sum(x * x) + y;
  };
  EXPECT_EQ(vmap(f)(rows(), tensor({1.f, 2.f, 3.f})).to_vector<float>(), (Numbers{6, 27, 64}));
}

TEST_P(Transforms, VmapOverOtherAxesAndSharedArguments) {
  const auto f = [](const Tensor& x, const Tensor& y) { return std::pair(x * y, sum(x)); };
  const auto [scaled, total] =
      vmap(f, {.in_axes = {1, std::nullopt}, .out_axes = {1, 0}})(rows(), tensor({1.f, 2.f, 3.f}));
  EXPECT_EQ(scaled.to_vector<float>(), (Numbers{1, 2, 6, 8, 15, 18}));
  EXPECT_EQ(scaled.shape(), (Shape{3, 2}));
  EXPECT_EQ(total.to_vector<float>(), (Numbers{9, 12}));
}

TEST_P(Transforms, VmapKeepsWhateverAFunctionReturns) {
  const auto f = [](const Tensor& x) {
    return std::map<std::string, std::vector<Tensor>>{{"a", {x, x + 1}}, {"shared", {ones({2})}}};
  };
  auto out = vmap(f)(rows());
  EXPECT_EQ(out["a"][1].to_vector<float>(), (Numbers{2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(out["shared"][0].shape(), (Shape{3, 2}));
  const Tensors fields = vmap([](const Tensor& x) { return Tensors{{"x", x}, {"sum", sum(x)}}; })(rows());
  EXPECT_EQ(fields["sum"].to_vector<float>(), (Numbers{3, 7, 11}));
}

TEST_P(Transforms, VmapOverVectorsAndMapsOfTensors) {
  const auto f = [](const std::vector<Tensor>& in, const std::map<std::string, Tensor>& shared) {
    return std::vector<Tensor>{in[0] * in[1], shared.at("w")};
  };
  const std::map<std::string, Tensor> shared{{"w", tensor({1.f, 10.f})}};
  const auto out = vmap(f, {.in_axes = {0, std::nullopt}})(std::vector<Tensor>{rows(), rows()}, shared);
  EXPECT_EQ(out[0].to_vector<float>(), (Numbers{1, 4, 9, 16, 25, 36}));
  EXPECT_EQ(out[1].shape(), (Shape{3, 2}));
  const auto slopes = vmap(grad([](const Tensor& a, const Tensor& b) { return sum(a * b); }))(rows(), rows() * 2);
  EXPECT_EQ(std::get<0>(slopes).to_vector<float>(), (rows() * 2).to_vector<float>());
}

TEST_P(Transforms, VmapNests) {
  const auto outer = [](const Tensor& x) { return vmap([&](const Tensor& y) { return sum(x * y); })(rows()); };
  EXPECT_EQ(vmap(outer)(rows()).to_vector<float>(), matmul(rows(), transpose(rows())).to_vector<float>());
}

TEST_P(Transforms, GradientsOfEachExample) {
  const Tensor w = tensor({{1.f, -1.f}, {2.f, 0.5f}});
  const auto loss = [&](const Tensor& weights, const Tensor& x) { return sum(tanh(matmul(x, weights))); };
  const auto of_one = [&](const Tensor& x) { return grad([&](const Tensor& v) { return loss(v, x); })(w); };
  const Tensor all = vmap(of_one)(rows());
  ASSERT_EQ(all.shape(), (Shape{3, 2, 2}));
  for (std::int64_t i = 0; i < 3; ++i) {
    const Tensor one = of_one(rows().slice({{i, i + 1}}).reshape({2}));
    const std::vector<float> got = all.slice({{i, i + 1}}).to_vector<float>(), want = one.to_vector<float>();
    for (std::size_t k = 0; k < want.size(); ++k) EXPECT_NEAR(got[k], want[k], 1e-6);
  }
}

TEST_P(Transforms, GradientsOfEachExampleByVariables) {
  Variable w("w", tensor({2.f, -1.f}));
  const auto of_one = [&](const Tensor& x) { return value_and_grad([&] { return sum(square(w * x)); }, {w}); };
  const auto [losses, grads] = vmap(of_one)(rows());
  EXPECT_EQ(losses.to_vector<float>(), (Numbers{8, 52, 136}));
  EXPECT_EQ(grads[0].to_vector<float>(), (Numbers{4, -8, 36, -32, 100, -72}));
}

TEST_P(Transforms, GradientOfVmap) {
  const auto f = [](const Tensor& x) { return sum(square(vmap([](const Tensor& r) { return sum(r * r); })(x))); };
  // d/dx Σ_r (Σ x²)² = 4·(Σ x²)·x
  EXPECT_EQ(grad(f)(rows()).to_vector<float>(), (Numbers{20, 40, 300, 400, 1220, 1464}));
}

TEST_P(Transforms, CompiledFunctionsAreMappedAndMappedOnesCompiled) {
  auto compiled = compile([](const Tensor& x) { return sum(x * x); });
  EXPECT_EQ(vmap(compiled)(rows()).to_vector<float>(), (Numbers{5, 25, 61}));
  auto mapped = compile(vmap(grad([](const Tensor& x) { return sum(x * x * x); })));
  for (int again = 0; again < 2; ++again)
    EXPECT_EQ(mapped(rows()).to_vector<float>(), (Numbers{3, 12, 27, 48, 75, 108}));
}

TEST_P(Transforms, LoopsAreMapped) {
  // x₀·x₁·x₂… and every partial product, with a captured factor that is shared
  const Tensor factor = tensor(2.f);
  const auto f = [&](const Tensor& x) {
    const ScanResult r = scan(
        [&](const std::vector<Tensor>& c, const std::vector<Tensor>& v) {
          const Tensor next = c[0] * v[0] * factor;
          return ScanStep{{next}, {next + 1}};
        },
        {tensor(1.f)}, {x});
    return std::pair(r.carry[0], r.out[0]);
  };
  const auto [last, all] = vmap(f)(rows());
  EXPECT_EQ(last.to_vector<float>(), (Numbers{8, 48, 120}));
  EXPECT_EQ(all.to_vector<float>(), (Numbers{3, 9, 7, 49, 11, 121}));
  const auto slope = vmap(grad([&](const Tensor& x) { return f(x).first; }))(rows());
  EXPECT_EQ(slope.to_vector<float>(), (Numbers{8, 4, 16, 12, 24, 20}));
}

TEST_P(Transforms, OwnGradientsAndRecomputationAreMapped) {
  const auto through =
      custom_gradient([](const std::vector<Tensor>& in) { return std::vector<Tensor>{round(in[0])}; },
                      [](const std::vector<Tensor>& in, const std::vector<Tensor>&, const std::vector<Tensor>& dys) {
                        EXPECT_EQ(in[0].shape(), Shape{2});
                        return std::vector<Tensor>{dys[0] * in[0]};
                      });
  const auto f = [&](const Tensor& x) { return sum(through({x})[0]); };
  EXPECT_EQ(vmap(grad(f))(rows()).to_vector<float>(), rows().to_vector<float>());
  EXPECT_EQ(grad([&](const Tensor& x) { return sum(vmap(f)(x)); })(rows()).to_vector<float>(),
            rows().to_vector<float>());
  const auto block = checkpoint([](const Tensor& x) { return x * x * x; });
  const auto g = [&](const Tensor& x) { return sum(vmap([&](const Tensor& r) { return sum(block(r)); })(x)); };
  EXPECT_EQ(grad(g)(rows()).to_vector<float>(), (Numbers{3, 12, 27, 48, 75, 108}));
  EXPECT_EQ(vmap(grad([&](const Tensor& x) { return sum(block(x)); }))(rows()).to_vector<float>(),
            (Numbers{3, 12, 27, 48, 75, 108}));
}

TEST_P(Transforms, EachExampleDrawsItsOwnNumbersUnlessAsked) {
  const auto noisy = [](const Tensor& x) { return x + uniform({4}, {.seed = 3, .stream = "noise"}); };
  const std::vector<float> own = vmap(noisy)(zeros({2, 4})).to_vector<float>();
  EXPECT_NE(Numbers(own.begin(), own.begin() + 4), Numbers(own.begin() + 4, own.end()));
  const std::vector<float> same = vmap(noisy, {.randomness = Randomness::same})(zeros({2, 4})).to_vector<float>();
  EXPECT_EQ(Numbers(same.begin(), same.begin() + 4), Numbers(same.begin() + 4, same.end()));
  EXPECT_EQ(Numbers(same.begin(), same.begin() + 4), noisy(zeros({4})).to_vector<float>());
  // The gradient of dropout sees the mask of its example.
  const auto dropped = [](const Tensor& x) { return dropout(x, 0.5, {.seed = 1, .stream = "drop"}); };
  const Tensor ones_in = ones({3, 8});
  EXPECT_EQ(vmap(grad([&](const Tensor& x) { return sum(dropped(x)); }))(ones_in).to_vector<float>(),
            vmap(dropped)(ones_in).to_vector<float>());
}

TEST_P(Transforms, AnIndexOutOfRangeIsNoRowOfAnotherExample) {
  const Tensor tables = tensor({{{1.f}, {2.f}}, {{3.f}, {4.f}}});
  const auto row = [](const Tensor& table, const Tensor& index) { return gather(table, index); };
  EXPECT_EQ(vmap(row)(tables, tensor<std::int64_t>({1, 0})).to_vector<float>(), (Numbers{2, 3}));
  for (const std::int64_t wrong : {2, -1})
    EXPECT_PRED2(contains, why([&] { vmap(row)(tables, tensor<std::int64_t>({wrong, 0})).eval(); }), "out of range");
}

TEST_P(Transforms, EmptyBatches) {
  const auto f = [](const Tensor& x) { return sum(exp(x)); };
  EXPECT_EQ(vmap(f)(zeros({0, 3})).shape(), Shape{0});
  EXPECT_EQ(vmap(grad(f))(zeros({0, 3})).shape(), (Shape{0, 3}));
}

TEST_P(Transforms, VmapRefuses) {
  const auto sums = [](const Tensor& a, const Tensor& b) { return sum(a) + sum(b); };
  EXPECT_PRED2(contains, why([&] { vmap(sums)(rows(), ones({2})); }), "argument 0 has 3 examples");
  EXPECT_PRED2(contains, why([&] { vmap(sums)(rows(), tensor(1.f)); }), "argument 1 is a scalar");
  EXPECT_PRED2(contains, why([&] { vmap(sums, {.in_axes = {0}})(rows(), rows()); }), "in_axes names 1 axes");
  EXPECT_PRED2(contains, why([&] {
                 vmap(sums, {.in_axes = {std::nullopt, std::nullopt}})(rows(), rows());
               }),
               "nothing to map over");
  EXPECT_PRED2(contains, why([&] { vmap([](const Tensor& x) { return x * x.to_vector<float>()[0]; })(rows()); }),
               "vmap");
  const OpDef plain =
      define({.name = "test_plain", .doc = "x", .family = "test", .shape = [](const Call& c) { return c.in; }});
  EXPECT_PRED2(contains, why([&] { vmap([&](const Tensor& x) { return plain.call({x})[0]; })(rows()); }),
               "test_plain cannot be called for a batch");
  Variable seen("seen", zeros({}));
  EXPECT_PRED2(contains, why([&] {
                 vmap([&](const Tensor& x) {
                   seen.assign(sum(x));
                   return x;
                 })(rows());
               }),
               "'seen' is assigned a value that differs from example to example");
  EXPECT_EQ(vmap([&](const Tensor& x) {
              seen.assign(seen + 1);
              return sum(x);
            })(rows())
                .shape(),
            Shape{3});
  EXPECT_EQ(seen.value().item<float>(), 1.f);
}

TEST_P(Transforms, JvpPushesTangentsForward) {
  const auto f = [](const Tensor& x) { return x * x * tensor({1.f, 10.f}); };
  const auto [y, dy] = jvp(f, tensor({2.f, 3.f}), tensor({1.f, -1.f}));
  EXPECT_EQ(y.to_vector<float>(), (Numbers{4, 90}));
  EXPECT_EQ(dy.to_vector<float>(), (Numbers{4, -60}));
  const Jvp both = jvp(
      [](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{in[0] * in[1], argmax(in[0])};
      },
      {tensor({2.f, 3.f}), tensor({5.f, 7.f})}, {tensor({1.f, 0.f}), Tensor()});
  EXPECT_EQ(both.tangents[0].to_vector<float>(), (Numbers{5, 0}));
  EXPECT_FALSE(both.tangents[1].defined());
  EXPECT_PRED2(contains, why([&] { jvp(f, tensor({1.f, 2.f}), tensor({1.f})); }), "tangent 0 has shape [1]");
}

TEST_P(Transforms, JacobiansEitherWay) {
  const Tensor w = tensor({{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}});
  const auto f = [&](const Tensor& x) { return square(matmul(w, x)); };
  const Tensor x = tensor({1.f, -1.f});
  // diag(2·w·x)·w
  const Numbers want{-2, -4, -6, -8, -10, -12};
  for (const JacobianMode mode : {JacobianMode::reverse, JacobianMode::forward, JacobianMode::automatic}) {
    const Tensor j = jacobian(f, mode)(x);
    EXPECT_EQ(j.shape(), (Shape{3, 2}));
    EXPECT_EQ(j.to_vector<float>(), want);
  }
  const auto all = jacobians(
      [](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{in[0] * in[1], sum(in[1])};
      },
      {tensor({2.f, 3.f}), tensor({5.f, 7.f})});
  EXPECT_EQ(all[0][0].to_vector<float>(), (Numbers{5, 0, 0, 7}));
  EXPECT_EQ(all[1][0].to_vector<float>(), (Numbers{0, 0}));
  EXPECT_EQ(all[1][1].to_vector<float>(), (Numbers{1, 1}));
}

TEST_P(Transforms, HessiansAndTheirProducts) {
  const Tensor a = tensor({{2.f, 1.f}, {0.f, 3.f}});
  const auto f = [&](const Tensor& x) { return sum(x * matmul(a, x)) + sum(x * x * x); };
  const Tensor x = tensor({1.f, 2.f}), v = tensor({1.f, -1.f});
  const Tensor h = hessian(f)(x);
  EXPECT_EQ(h.to_vector<float>(), (Numbers{10, 1, 1, 18}));
  EXPECT_EQ(hvp(f, x, v).to_vector<float>(), (Numbers{9, -17}));
  auto compiled = compile([&](const Tensor& at, const Tensor& along) { return hvp(f, at, along); });
  for (int again = 0; again < 2; ++again) EXPECT_EQ(compiled(x, v).to_vector<float>(), (Numbers{9, -17}));
  Variable w("w", x);
  EXPECT_EQ(hvp([&] { return f(w); }, {w}, {v})[0].to_vector<float>(), (Numbers{9, -17}));
  const auto blocks = hessians([](const std::vector<Tensor>& in) { return sum(in[0] * in[1]); }, {x, v});
  EXPECT_EQ(blocks[0][1].to_vector<float>(), (Numbers{1, 0, 0, 1}));
  EXPECT_EQ(blocks[0][0].to_vector<float>(), (Numbers{0, 0, 0, 0}));
}

TEST_P(Transforms, ForwardOfReverseAndReverseOfForward) {
  const auto f = [](const Tensor& x) { return sum(exp(x) * x); };
  const Tensor x = tensor({0.5f, -0.25f}), v = tensor({2.f, 1.f});
  const auto want = hvp(f, x, v).to_vector<float>();
  const auto forward = jvp(grad(f), x, v).second.to_vector<float>();
  const auto reverse = grad([&](const Tensor& at) { return jvp(f, at, v).second; })(x).to_vector<float>();
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(forward[i], want[i], 1e-5);
    EXPECT_NEAR(reverse[i], want[i], 1e-5);
  }
  const Tensor many = vmap([&](const Tensor& along) { return hvp(f, x, along); })(eye(2));
  EXPECT_EQ(many.to_vector<float>(), hessian(f)(x).to_vector<float>());
}

}  // namespace
}  // namespace varve
