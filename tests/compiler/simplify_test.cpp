// Graph passes, seen on printed graphs.
#include <gtest/gtest.h>

#include "compiler/traced.h"

namespace varve::compiler {
namespace {

const TensorType kSquare{f32, {3, 4}};

std::string simplified(const detail::ProgramFn& fn, const std::vector<TensorType>& args = {kSquare}) {
  return ir::print(optimize(traced(fn, args)));
}
const std::string kUntouched = "%0 = input() {name=\"argument0\"} : f32 [3, 4]\nreturn %0\n";

TEST(Simplify, WhatChangesNothingGoes) {
  EXPECT_EQ(simplified([](const Tensors& in) { return Tensors{(in[0] * 1 + 0) / 1 - 0}; }), kUntouched);
  EXPECT_EQ(simplified([](const Tensors& in) { return Tensors{1 * (0 + in[0])}; }), kUntouched);
  EXPECT_EQ(simplified([](const Tensors& in) { return Tensors{identity(stop_gradient(in[0]))}; }), kUntouched);
  EXPECT_EQ(simplified([](const Tensors& in) { return Tensors{-(-in[0])}; }), kUntouched);
  EXPECT_EQ(simplified([](const Tensors& in) { return Tensors{power(in[0], 1)}; }), kUntouched);
  EXPECT_EQ(simplified([](const Tensors& in) { return Tensors{transpose(transpose(in[0]))}; }), kUntouched);
  EXPECT_EQ(simplified([](const Tensors& in) { return Tensors{reshape(reshape(in[0], {12}), {3, 4})}; }), kUntouched);
  EXPECT_EQ(simplified([](const Tensors& in) { return Tensors{cast(in[0], f32)}; }), kUntouched);
  EXPECT_EQ(simplified([](const Tensors& in) { return Tensors{broadcast_to(in[0], {3, 4})}; }), kUntouched);
}

TEST(Simplify, ReshapesAroundFormulasGo) {
  const auto rows = [](const Tensors& in) { return reshape(in[0] * 2, {3, 2, 2}); };
  const std::string chain = simplified([&](const Tensors& in) {
    const Tensor x = rows(in);
    return Tensors{sum(reshape(tanh(x) * exp(rows(in) + 3), {3, 4}), {.axes = Axes{0}})};
  });
  EXPECT_FALSE(contains(chain, "reshape(")) << chain;
  // What others read too stays, and what is not of the same shape.
  const std::string read_twice = simplified([&](const Tensors& in) {
    const Tensor y = tanh(rows(in));
    return Tensors{reshape(y, {3, 4}), sum(y, {.axes = Axes{1}})};
  });
  EXPECT_TRUE(contains(read_twice, "reshape(")) << read_twice;
  const std::string broadcast = simplified([&](const Tensors& in) {
    return Tensors{reshape(rows(in) + sum(rows(in), {.axes = Axes{1}, .keep = true}), {3, 4})};
  });
  EXPECT_TRUE(contains(broadcast, "reshape(")) << broadcast;
}

TEST(Simplify, GradientsOfPartsStandSideBySide) {
  const auto gradient_of_parts = [](std::vector<std::pair<std::int64_t, std::int64_t>> ranges) {
    return simplified([ranges](const Tensors& in) {
      Tensor total = zeros({});
      for (const auto& [from, to] : ranges) total = total + sum(square(slice(in[0], {{}, {from, to}})));
      return gradients(total, {in[0]});
    });
  };
  for (const auto& whole : {gradient_of_parts({{0, 1}, {1, 3}, {3, 4}}), gradient_of_parts({{2, 4}, {0, 2}})}) {
    EXPECT_TRUE(contains(whole, "concat(")) << whole;
    EXPECT_FALSE(contains(whole, "unslice(")) << whole;
  }
  // A gap, an overlap, both.
  for (const auto& other : {gradient_of_parts({{0, 1}, {2, 4}}), gradient_of_parts({{0, 3}, {2, 4}}),
                            gradient_of_parts({{0, 2}, {1, 2}, {2, 3}})})
    EXPECT_TRUE(contains(other, "unslice(") && !contains(other, "concat(")) << other;
}

TEST(Simplify, BroadcastingOperandsAreNotDropped) {
  const auto grow = [](const Tensors& in) {
    return Tensors{in[0] + zeros({3, 4}), in[0] * ones({3, 4}), power(in[0], full({3, 4}, 2))};
  };
  const ir::Graph graph = optimize(traced(grow, {{f32, {4}}}));
  for (const ir::Value& output : graph.outputs) EXPECT_EQ(output.type(), kSquare) << ir::print(graph);
}

TEST(Simplify, LiteralsAreFolded) {
  const std::string text = simplified([](const Tensors& in) { return Tensors{in[0] * (full({}, 2) * 3 + 1)}; });
  EXPECT_TRUE(contains(text, "value=7")) << text;
  EXPECT_FALSE(contains(text, "add")) << text;
}

TEST(Simplify, StableForms) {
  const auto form = [](Tensor (*f)(const Tensor&)) {
    return simplified([f](const Tensors& in) { return Tensors{f(in[0])}; });
  };
  EXPECT_TRUE(contains(form([](const Tensor& x) { return varve::log(softmax(x)); }), "log_softmax("));
  EXPECT_TRUE(contains(form([](const Tensor& x) { return varve::log(varve::sigmoid(x)); }), "log_sigmoid("));
  EXPECT_TRUE(contains(form([](const Tensor& x) { return varve::log(varve::exp(x) + 1); }), "softplus("));
  EXPECT_TRUE(contains(form([](const Tensor& x) { return varve::log(1 + x); }), "log1p("));
  EXPECT_TRUE(contains(form([](const Tensor& x) { return varve::exp(x) - 1; }), "expm1("));
  EXPECT_TRUE(contains(form([](const Tensor& x) { return 1 / varve::sqrt(x); }), "rsqrt("));
  EXPECT_TRUE(contains(form([](const Tensor& x) { return power(x, 2); }), "square("));
}

TEST(Simplify, StableFormsKeepTheNumbersFinite) {
  for (const char* device : {"reference", "cpu"}) {
    auto f =
        varve::compile([](const Tensor& x) { return std::pair(varve::log(varve::exp(x) + 1), varve::log(softmax(x))); },
                       {.device = device});
    const auto [plus, logs] = f(tensor({1000.f, 0.f, -1000.f}));
    EXPECT_FLOAT_EQ(plus.to_vector<float>()[0], 1000.f);
    EXPECT_FLOAT_EQ(logs.to_vector<float>()[2], -2000.f);
  }
}

TEST(Simplify, ProductsReadTransposedMatricesAsTheyLie) {
  const std::string text = simplified([](const Tensors& in) { return Tensors{matmul(transpose(in[0]), in[0])}; });
  EXPECT_TRUE(contains(text, "transpose_a=true")) << text;
  EXPECT_FALSE(contains(text, "= transpose(")) << text;
  const std::string back =
      simplified([](const Tensors& in) { return Tensors{matmul(transpose(in[0]), in[0], {.transpose_a = true})}; },
                 {{f32, {4, 4}}});
  EXPECT_TRUE(contains(back, "transpose_a=false")) << back;
}

TEST(Simplify, NothingIsComputedOfNothing) {
  const std::string text = simplified(
      [](const Tensors& in) {
        return Tensors{varve::exp(in[0]), sum(in[0])};
      },
      {{f32, {0, 4}}});
  EXPECT_FALSE(contains(text, "exp(")) << text;
  EXPECT_FALSE(contains(text, "sum(")) << text;
}

TEST(Simplify, ElementwiseOperatorsBroadcastByThemselves) {
  const std::string text = simplified(
      [](const Tensors& in) {
        return Tensors{in[0] + broadcast_to(in[1], {3, 4})};
      },
      {kSquare, {f32, {4}}});
  EXPECT_FALSE(contains(text, "broadcast_to")) << text;
}

TEST(Duplicates, EqualPureCallsAreOne) {
  const ir::Graph graph = optimize(traced(
      [](const Tensors& in) {
        return Tensors{varve::exp(in[0]) + varve::exp(in[0]), sum(in[0]), sum(in[0])};
      },
      {kSquare}));
  EXPECT_EQ(calls(graph, "exp"), 1);
  EXPECT_EQ(calls(graph, "sum"), 1);
}

TEST(Duplicates, DifferentAttributesTypesOrBarriersKeepThemApart) {
  const auto f = [](const Tensors& in) {
    return Tensors{sum(in[0], {.axes = Axes{0}}),
                   sum(in[0], {.axes = Axes{1}}),
                   cast(in[0], f64),
                   cast(in[0], f16),
                   uniform({2}, {.stream = "a"}),
                   uniform({2}, {.stream = "b"}),
                   varve::exp(in[0]),
                   varve::exp(barrier({in[0]})[0])};
  };
  const ir::Graph graph = optimize(traced(f, {kSquare}));
  EXPECT_EQ(calls(graph, "sum"), 2);
  EXPECT_EQ(calls(graph, "cast"), 2);
  EXPECT_EQ(calls(graph, "random_uniform"), 2);
  EXPECT_EQ(calls(graph, "exp"), 2);
}

TEST(Loops, HistoriesThatNobodyReadsGo) {
  const auto f = [](const Tensors& in) {
    const ScanResult r = scan(
        [](const Tensors& carry, const Tensors& x) {
          return ScanStep{{carry[0] + x[0]}, {varve::exp(x[0]), varve::sin(x[0])}};
        },
        {zeros({4})}, {in[0]});
    return Tensors{r.carry[0], r.out[1]};
  };
  const ir::Graph graph = optimize(traced(f, {kSquare}));
  const std::string text = ir::print(graph);
  EXPECT_TRUE(contains(text, "sin(")) << text;
  EXPECT_FALSE(contains(text, "exp(")) << text;
}

}  // namespace
}  // namespace varve::compiler
