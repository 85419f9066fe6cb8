// Products of rows that were taken from a table.
#include <gtest/gtest.h>

#include <cstdlib>

#include "compiler/traced.h"
#include "ops/index.h"
#include "varve/compile.h"

namespace varve::compiler {
namespace {

class Tables : public testing::Test {
 protected:
  void TearDown() override { unsetenv("VARVE_WITHOUT"); }
};

// table [V, D], ids [B, T], weights [D, O], bias [O]
std::vector<TensorType> types(std::int64_t vocabulary, std::int64_t features = 8) {
  return {{f32, {vocabulary, features}}, {i32, {6, 5}}, {f32, {features, 3}}, {f32, {3}}};
}

Tensor dense(const Tensors& in) {
  const Tensor rows = transpose(embedding(in[0], in[1]), {1, 0, 2});
  return reshape(matmul(reshape(rows, {30, in[0].dim(1)}), in[2]) + in[3], {5, 6, 3});
}

Tensors forward(const Tensors& in) { return {dense(in)}; }
Tensors backward(const Tensors& in) { return gradients(sum(square(dense(in))), {in[0], in[2], in[3]}); }

// Products whose longest side is the 30 rows.
std::int64_t long_products(const ir::Graph& graph) {
  const std::vector<ir::NodePtr> nodes = ir::topological(graph);
  return std::count_if(nodes.begin(), nodes.end(), [](const ir::NodePtr& node) {
    return node->is("matmul") && std::any_of(node->inputs.begin(), node->inputs.end(), [](const ir::Value& input) {
             return input.type().shape[0] == 30 || input.type().shape[1] == 30;
           });
  });
}

TEST_F(Tables, ASmallOneIsMultipliedInsteadOfItsRows) {
  const ir::Graph there = optimize(traced(forward, types(7)));
  EXPECT_EQ(long_products(there), 0) << ir::print(there);
  EXPECT_EQ(calls(there, "embedding"), 1) << ir::print(there);
  const ir::Graph back = optimize(traced(backward, types(7)));
  EXPECT_EQ(long_products(back), 0) << ir::print(back);
  EXPECT_EQ(calls(back, "embedding_grad"), 1) << ir::print(back);  // for the table and for the weights
}

TEST_F(Tables, OthersAreNot) {
  const auto untouched = [](const ir::Graph& graph, std::int64_t products) {
    EXPECT_EQ(long_products(graph), products) << ir::print(graph);
  };
  untouched(optimize(traced(forward, types(8))), 1);     // 30 rows are less than four times as many
  untouched(optimize(traced(forward, types(7, 2))), 1);  // short rows
  untouched(optimize(traced(backward, types(8))), 3);
  setenv("VARVE_WITHOUT", "tables", 1);
  untouched(optimize(traced(forward, types(7))), 1);
}

// Rows that are torn apart are no rows of the table.
TEST_F(Tables, ViewsThatDoNotKeepRows) {
  for (const detail::ProgramFn& program : std::vector<detail::ProgramFn>{
           [](const Tensors& in) {
             return Tensors{matmul(reshape(embedding(in[0], in[1]), {15, 16}), in[2])};
           },
           [](const Tensors& in) {
             return Tensors{matmul(reshape(transpose(embedding(in[0], in[1]), {0, 2, 1}), {15, 16}), in[2])};
           }}) {
    const ir::Graph graph = optimize(traced(program, {{f32, {2, 8}}, {i32, {6, 5}}, {f32, {16, 3}}}));
    EXPECT_EQ(graph.outputs[0].type().shape, Shape({15, 3}));
    EXPECT_TRUE(graph.outputs[0].node->is("matmul")) << ir::print(graph);
  }
}

// The sum of what was cut to whole numbers is not the sum, cut.
TEST_F(Tables, WholeNumbersAreSummedAsTheyAre) {
  const auto rows_of_product = [](DType dtype) {
    const detail::ProgramFn program = [dtype](const Tensors& in) {
      return Tensors{embedding_grad(cast(matmul(in[0], in[1]), dtype), in[2], 2)};
    };
    return optimize(traced(program, {{f32, {30, 4}}, {f32, {4, 8}}, {i32, {30}}}));
  };
  EXPECT_EQ(long_products(rows_of_product(f64)), 0);
  EXPECT_EQ(long_products(rows_of_product(i32)), 1);
}

TEST_F(Tables, TheSameResults) {
  const auto run = [](const std::string& device) {
    const Tensor table = sin(arange(56).to(f32)), weights = cos(arange(24).to(f32)), bias = arange(3).to(f32);
    const Tensors in = {reshape(table, {7, 8}), reshape(arange(30) * 11 % 7, {6, 5}).to(i32), reshape(weights, {8, 3}),
                        bias};
    const auto program = detail::compile(
        [](const Tensors& given) {
          Tensors all = backward(given);
          all.push_back(dense(given));
          return all;
        },
        {.device = device});
    std::vector<const Tensor*> arguments;
    for (const Tensor& t : in) arguments.push_back(&t);
    std::vector<std::vector<float>> results;
    for (const Tensor& t : detail::Running(*program, arguments.data(), arguments.size()).results())
      results.push_back(t.to_vector<float>());
    return results;
  };
  for (const std::string device : {"cpu", "reference"}) {
    const auto with = run(device);
    setenv("VARVE_WITHOUT", "tables", 1);
    const auto without = run(device);
    unsetenv("VARVE_WITHOUT");
    ASSERT_EQ(with.size(), without.size());
    for (std::size_t i = 0; i < with.size(); ++i)
      for (std::size_t k = 0; k < with[i].size(); ++k) EXPECT_NEAR(with[i][k], without[i][k], 1e-4) << i << ", " << k;
  }
}

}  // namespace
}  // namespace varve::compiler
