// bf16 within a program as f32, for backends that gain nothing from it.
#include <gtest/gtest.h>

#include <cstdlib>

#include "compiler/traced.h"
#include "varve/compile.h"

namespace varve::compiler {
namespace {

class Widen : public testing::Test {
 protected:
  void TearDown() override { unsetenv("VARVE_WITHOUT"); }
};

std::int64_t halves(const ir::Graph& graph) {
  const std::vector<ir::NodePtr> nodes = ir::topological(graph);
  return std::count_if(nodes.begin(), nodes.end(), [](const ir::NodePtr& node) {
    return std::any_of(node->types.begin(), node->types.end(), [](const TensorType& t) { return t.dtype == bf16; });
  });
}

ir::Graph widened(const detail::ProgramFn& fn, const std::vector<TensorType>& args) {
  ir::Graph graph = widen(traced(fn, args));
  ir::verify(graph, "widen");
  return graph;
}

const std::vector<TensorType> kArgs = {{f32, {5, 4}}, {f32, {4, 3}}};

Tensor loss(const Tensors& in) {
  const Tensor y = matmul(in[0].to(bf16), in[1].to(bf16)) + full({3}, 0.1, bf16);
  return sum(square(relu(y)).to(f32));
}

TEST_F(Widen, NothingIsHalfBetweenTheEnds) {
  const auto back = [](const Tensors& in) { return gradients(loss(in), in); };
  EXPECT_GT(halves(traced(back, kArgs)), 0);
  const ir::Graph graph = widened(back, kArgs);
  EXPECT_EQ(halves(graph), 0) << ir::print(graph);
}

TEST_F(Widen, TheEndsHaveTheirTypes) {
  const ir::Graph graph =
      widened([](const Tensors& in) { return Tensors{matmul(in[0], in[1])}; }, {{bf16, {5, 4}}, {bf16, {4, 3}}});
  EXPECT_EQ(graph.outputs[0].type().dtype, bf16);
  EXPECT_EQ(halves(graph), 3) << ir::print(graph);  // two inputs and the result
}

TEST_F(Widen, WhatOnlyRoundsStillDoes) {
  const auto rounded = [](const Tensors& in) { return Tensors{reshape(in[0].to(bf16), {20}).to(f32)}; };
  EXPECT_GT(halves(widened(rounded, kArgs)), 0);
  const auto afterwards = [](const Tensors& in) { return Tensors{(in[0].to(bf16) * 3).to(f32)}; };
  EXPECT_EQ(halves(widened(afterwards, kArgs)), 0);
}

TEST_F(Widen, BodiesOfLoopsStayAsTheyAre) {
  const auto looped = [](const Tensors& in) {
    const auto body = [](const Tensors& carry, const Tensors& x) { return ScanStep{{carry[0] + x[0]}, {carry[0]}}; };
    const Tensor x = in[0].to(bf16) * 2;
    return Tensors{scan(body, {zeros({4}, bf16)}, {x}).carry[0].to(f32)};
  };
  const ir::Graph graph = widened(looped, kArgs);
  EXPECT_GT(halves(graph), 0) << ir::print(graph);
}

// A program in bf16 then gives what the one in f32 does.
TEST_F(Widen, TheProcessorComputesInF32WhereItIsTold) {
  const auto given = Tensors{normal({33, 20}, {.seed = 1}), normal({20, 17}, {.seed = 2})};
  const auto product = [&](DType dtype) {
    const auto program = [&](const Tensor& a, const Tensor& b) {
      return tanh(matmul(a.to(dtype), b.to(dtype))).to(f32);
    };
    return varve::compile(program)(given[0], given[1]).to_vector<float>();
  };
  setenv("VARVE_WITHOUT", "bf16", 1);
  EXPECT_EQ(product(bf16), product(f32));
}

}  // namespace
}  // namespace varve::compiler
