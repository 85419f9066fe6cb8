// Operators and kernels of a user's own, outside the tree.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/training.h"
#include "varve/kernel.h"

namespace varve::runtime {
namespace {

class UserOp : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { set_device(GetParam()); }
  void TearDown() override { set_device("cpu"); }
};
INSTANTIATE_TEST_SUITE_P(Devices, UserOp, testing::Values("reference", "cpu"));

double swish2_by_hand(double x) { return x / (1 + std::exp(-2 * x)); }

TEST_P(UserOp, AFormulaIsEnough) {
  static const OpDef swish2 =
      elementwise({.name = "swish2", .doc = "x · σ(2x)", .formula = [](Expr x) { return x * expr::sigmoid(2 * x); }});
  const Floats values = {-40, -1, -0.5, 0, 0.5, 1, 40};
  const Tensor x = tensor(values);
  const Floats y = swish2(x).to_vector<float>(),
               slope = grad([](const Tensor&t) { return sum(swish2(t)); })(x).to_vector<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double at = values[i], h = 1e-4;
    EXPECT_NEAR(y[i], swish2_by_hand(at), 1e-5);
    EXPECT_NEAR(slope[i], (swish2_by_hand(at + h) - swish2_by_hand(at - h)) / (2 * h), 1e-3);
  }
  auto fused = compile([](const Tensor& t) { return varve::exp(swish2(t) * 2) + 1; });
  const Profile profile = fused.profile(1, x);
  if (device() == "cpu") {
    EXPECT_EQ(profile.rows.size(), 1u) << profile.table();
  }
  EXPECT_EQ(swish2(tensor({1, 2})).dtype(), i32);  // promoted: as its inputs are
}

TEST_P(UserOp, ADerivativeOfYourOwnReplacesTheSymbolicOne) {
  static const OpDef soft = elementwise({.name = "soft_step",
                                         .doc = "straight through",
                                         .formula = [](Expr x) { return expr::floor(x); },
                                         .derivative = [](Expr x, Expr y) { return 1 + 0 * x + 0 * y; }});
  EXPECT_EQ(grad([](const Tensor& x) { return sum(soft(x) * 3); })(tensor({0.5f, 1.5f})).to_vector<float>(),
            (Floats{3, 3}));
}

// y[i] = x[i] + x[i-1]·c, with a shape rule, a gradient and one kernel.
const OpDef& echo() {
  static const OpDef op = [] {
    const OpDef made = define({.name = "echo",
                               .doc = "x plus c times the element before",
                               .family = "user",
                               .shape =
                                   [](const Call& call) {
                                     if (call.in[0].shape.rank() != 1 || call.in[0].dtype != f32)
                                       throw Error("echo: needs f32 [n], got " + call.in[0].str() + ".");
                                     call.attrs.number("c");
                                     return call.in;
                                   },
                               .gradient =
                                   [](const Vjp& v) {
                                     const Tensor backwards = flip(v.dy, {0});
                                     return Tensors{flip(OpDef(&v.op).call({backwards}, v.attrs)[0], {0})};
                                   }});
    add_kernel(made, [](const KernelCall& call) {
      const float* x = call.in[0].as<float>();
      float* y = call.out[0].as<float>();
      const auto c = static_cast<float>(call.attrs.number("c"));
      for (std::int64_t i = 0; i < call.in[0].type.shape.numel(); ++i) y[i] = x[i] + (i ? c * x[i - 1] : 0);
    });
    return made;
  }();
  return op;
}

TEST_P(UserOp, AKernelOfYourOwnStandsBesideFusedGroups) {
  const auto f = [](const Tensor& x) { return varve::tanh(echo().call({x * 2 + 1}, {{"c", 0.5}})[0]) * 3; };
  auto program = compile(f);
  const Tensor x = tensor({0.1f, -0.2f, 0.3f});
  EXPECT_TRUE(contains(program.text(x), "user echo")) << program.text(x);
  const Floats y = program(x).to_vector<float>(), plain = f(x).to_vector<float>();
  EXPECT_NEAR(y[1], 3 * std::tanh(0.6 + 0.5 * 1.2), 1e-5);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], plain[i], 1e-6);

  const Floats slope = grad([&](const Tensor& t) { return sum(f(t)); })(x).to_vector<float>();
  for (std::size_t i = 0; i < slope.size(); ++i) {
    Floats up = x.to_vector<float>(), down = up;
    up[i] += 1e-3f;
    down[i] -= 1e-3f;
    EXPECT_NEAR(slope[i], (sum(f(tensor(up))).item<float>() - sum(f(tensor(down))).item<float>()) / 2e-3, 5e-3);
  }
  EXPECT_TRUE(contains(error_of([] { echo().call({ones({2, 2})}, {{"c", 0.5}}); }), "echo: needs f32 [n]"));
  EXPECT_THROW(echo().call({ones({2})}), Error);  // no c
}

TEST_P(UserOp, AnExceptionInAKernelComesThroughAndSpoilsState) {
  const OpDef failing =
      define({.name = "failing", .doc = "", .family = "user", .shape = [](const Call& call) { return call.in; }});
  bool fail = true;
  add_kernel(failing, [&fail](const KernelCall& call) {
    if (fail) throw Error("the kernel gave up");
    std::copy_n(call.in[0].as<float>(), call.in[0].type.shape.numel(), call.out[0].as<float>());
  });
  Variable v("v", ones({2}));
  auto step = compile([&](const Tensor& x) { v.assign(failing.call({x})[0] + v); });
  EXPECT_TRUE(contains(error_of([&] { step(ones({2})); }), "the kernel gave up"));
  EXPECT_TRUE(contains(error_of([&] { v.value(); }), "the kernel gave up"));
  fail = false;
  v.assign(zeros({2}));
  step(ones({2}));
  EXPECT_EQ(v.value().to_vector<float>(), (Floats{1, 1}));
  EXPECT_THROW(add_kernel(failing, {}), Error);
  EXPECT_THROW(add_kernel(
                   failing, [](const KernelCall&) {}, "abacus"),
               Error);
}

TEST_P(UserOp, SeveralOutputs) {
  const OpDef halves = define({.name = "halves",
                               .doc = "",
                               .family = "user",
                               .shape =
                                   [](const Call& call) {
                                     const std::int64_t n = call.in[0].shape.numel() / 2;
                                     return std::vector<TensorType>{{f32, {n}}, {f32, {n}}};
                                   },
                               .gradient =
                                   [](const Vjp& v) {
                                     const auto part = [&](std::size_t i) {
                                       return v.dys[i].defined() ? v.dys[i] : zeros(v.out[i].shape());
                                     };
                                     return Tensors{concat({part(0), part(1)})};
                                   }});
  add_kernel(halves, [](const KernelCall& call) {
    const std::int64_t n = call.out[0].type.shape.numel();
    std::copy_n(call.in[0].as<float>(), n, call.out[0].as<float>());
    std::copy_n(call.in[0].as<float>() + n, n, call.out[1].as<float>());
  });
  const auto f = [&](const Tensor& x) {
    const Tensors parts = halves.call({x});
    return sum(parts[0] * 2 + parts[1] * parts[1]);
  };
  const Tensor x = tensor({1.f, 2.f, 3.f, 4.f});
  EXPECT_EQ(f(x).item<float>(), 31.f);
  EXPECT_EQ(compile([&](const Tensor& t) { return grad(f)(t); })(x).to_vector<float>(), (Floats{2, 2, 6, 8}));
  EXPECT_EQ(grad([&](const Tensor& t) { return sum(halves.call({t})[1]); })(x).to_vector<float>(),
            (Floats{0, 0, 1, 1}));  // one output unused
}

}  // namespace
}  // namespace varve::runtime
