// Adding at indices: few positions and many, rows that get nothing and rows that get nearly all, tables of any size.
#include <cstdint>

#include "base/text.h"
#include "cuda/on_cuda.h"

namespace varve {
namespace {

using CudaIndex = OnCuda;

// Every third position names row 0, as padding does.
Tensor ids(std::int64_t count, std::int64_t rows, unsigned seed) {
  std::vector<std::int32_t> v(static_cast<std::size_t>(count));
  unsigned state = seed * 2654435761u + 1;
  for (std::int32_t& x : v) {
    state = state * 1664525u + 1013904223u;
    x = state % 3 == 0 ? 0 : static_cast<std::int32_t>((state >> 8) % static_cast<unsigned>(rows));
  }
  return tensor(v, {count});
}

Tensor gradient_of_table(const Tensor& dy, const Tensor& indices, std::int64_t rows) {
  return OpDef(&find_operator("embedding_grad")).call({dy, indices}, {{"rows", rows}})[0];
}

struct Table {
  std::int64_t positions, rows, width;
  DType dtype = f32;
};

class CudaTable : public CudaIndex, public testing::WithParamInterface<Table> {};

TEST_P(CudaTable, Gradient) {
  const Table& t = GetParam();
  const double tolerance = t.dtype == bf16 ? 1e-2 : 1e-5;
  const Function f = [&](const TensorList& in) { return TensorList{gradient_of_table(in[0], in[1], t.rows)}; };
  const Tensor dy = values({t.positions, t.width}, 1).to(t.dtype);
  expect_kernel(same_as_reference(f, {dy, ids(t.positions, t.rows, 2)}, tolerance), "cuda embedding_grad  <-");
  // Of a view that begins at an odd element.
  const Function odd = [&](const TensorList& in) {
    const Tensor all = reshape(slice(in[0], {{1, 1 + t.positions * t.width}}), {t.positions, t.width});
    return TensorList{gradient_of_table(all, in[1], t.rows)};
  };
  same_as_reference(odd, {values({t.positions * t.width + 1}, 1).to(t.dtype), ids(t.positions, t.rows, 2)}, tolerance);
}

INSTANTIATE_TEST_SUITE_P(Sizes, CudaTable,
                         testing::Values(Table{1, 1, 1}, Table{7, 3, 5}, Table{400, 50, 32}, Table{1000, 7, 200, bf16},
                                         Table{8192, 3000, 4}, Table{8193, 3000, 4}, Table{20000, 700, 36},
                                         Table{9000, 17000, 8}, Table{9000, 1 << 20, 1}, Table{5000, 1 << 20, 3},
                                         Table{12000, 5, 130, bf16}, Table{10000, 1, 16}),
                         [](const auto& chosen) {
                           const Table& table = chosen.param;
                           return cat(table.positions, "x", table.width, "into", table.rows, "of", table.dtype);
                         });

TEST_F(CudaIndex, AGradientIsAddedToTheOtherUsesOfATable) {
  const Function f = [](const TensorList& in) {
    const Tensor& table = in[0];
    const Tensor loss = sum(embedding(table, in[1]) * in[2]) + sum(matmul(in[3], table) * in[4]);
    return TensorList{gradients(loss, {table})[0]};
  };
  const std::string text = same_as_reference(
      f, {values({40, 12}, 1), ids(300, 40, 2), values({300, 12}, 3), values({5, 40}, 4), values({5, 12}, 5)});
  expect_kernel(text, "cuda embedding_grad+add  <-");
  expect_no_kernel(text, "copied");
}

// ---- rows of a table with what follows, and their gradients

struct Chain {
  DType dtype = f32;  // of the rows
  double rate = 0;    // of dropout
  bool positions = false, transposed = false;
};

Function rows_of_table(const Chain& chain) {
  return [=](const TensorList& in) {
    Tensor x = embedding(in[0], in[1]);
    if (chain.dtype != f32) x = x.to(chain.dtype);
    if (chain.positions) x = x + in[2].to(chain.dtype);
    if (chain.rate > 0) x = dropout(x, chain.rate, {.seed = 3, .stream = "rows", .counter = in[3]});
    if (chain.transposed) x = transpose(x, {1, 0, 2});
    return TensorList{x, gradients(sum((x * x).to(f32)), {in[0]})[0]};
  };
}

TensorList table_inputs(std::int64_t width) {
  return {values({50, width}, 1), reshape(ids(4 * 70, 50, 2), {4, 70}), values({70, width}, 3), full_int({}, 7, i64)};
}

TEST_F(CudaIndex, RowsAreCastAddedToAndDroppedOnTheirWay) {
  const auto check = [](const Chain& chain, const std::string& forward, const std::string& backward) {
    for (const std::int64_t width : {24, 5}) {
      const std::string text =
          same_as_reference(rows_of_table(chain), table_inputs(width), chain.dtype == f32 ? 1e-5 : 2e-2);
      expect_kernel(text, forward + "  <-");
      expect_kernel(text, backward + "  <-");
    }
  };
  check({}, "cuda embedding", "cuda embedding_grad");
  check({.positions = true}, "cuda embedding+add", "cuda embedding_grad");
  check({.rate = 0.3}, "cuda embedding+dropout", "cuda dropout+embedding_grad");
  check({.dtype = bf16}, "cuda embedding+cast", "cuda cast+embedding_grad");
  check({.dtype = bf16, .rate = 0.5, .positions = true}, "cuda embedding+cast+add+dropout",
        "cuda dropout+cast+embedding_grad");
  check({.dtype = f16, .transposed = true}, "cuda embedding+cast", "cuda cast+embedding_grad");
}

TEST_F(CudaIndex, AGradientIsReadWhereItLies) {
  const auto check = [](const Function& f, const Shape& shape) {
    const std::string text =
        same_as_reference([&](const TensorList& in) { return TensorList{gradient_of_table(f(in)[0], in[1], 50)}; },
                          {values(shape, 1), reshape(ids(4 * 70, 50, 2), {4, 70})});
    expect_no_kernel(text, "copy");
  };
  check([](const TensorList& in) { return TensorList{transpose(in[0], {1, 0, 2})}; }, {70, 4, 8});
  check([](const TensorList& in) { return TensorList{slice(in[0], {{1, 5}})}; }, {6, 70, 8});
  check([](const TensorList& in) { return TensorList{transpose(in[0], {0, 2, 1})}; }, {4, 8, 70});
  check([](const TensorList& in) { return TensorList{broadcast_to(in[0], {4, 70, 8})}; }, {70, 8});
}

TEST_F(CudaIndex, APlainStepTouchesOnlyTheRowsThatAreNamed) {
  const auto step_on = [](const std::string& device, bool known, double decay, std::string* text) {
    Variable table("table", values({50, 12}, 1));
    const Variable rate("rate", full({}, 0.05, f32), false);
    const Function f = [&](const TensorList& in) {
      const Tensor g = gradient_of_table(in[0], in[1], 50);
      table.assign(sgd_update(table, g, {}, known ? Operand(0.05) : Operand(rate), {.weight_decay = decay}).parameter);
      return TensorList{};
    };
    const auto program = detail::compile(f, {.device = device});
    const TensorList in = {values({300, 12}, 2), ids(300, 50, 3)};
    for (int i = 0; i < 3; ++i) call(*program, in);
    if (text) *text = detail::text(*program, in);
    return table.value().to_vector<float>();
  };
  for (const bool known : {true, false}) {
    std::string text;
    const std::vector<float> got = step_on("cuda", known, 0, &text);
    expect_close(got, step_on("reference", known, 0, nullptr), text);
    expect_kernel(text, "cuda embedding_grad+sgd_update  <-");
    expect_no_kernel(text, "copied back");
  }
  std::string text;
  const std::vector<float> got = step_on("cuda", true, 0.1, &text);
  expect_close(got, step_on("reference", true, 0.1, nullptr), text);
  expect_no_kernel(text, "cuda embedding_grad+sgd_update  <-");
}

TEST_F(CudaIndex, AlongAnAxisOfMany) {
  const Function put = [](const TensorList& in) { return TensorList{put_along_axis_add(in[0], in[1], in[2], 1)}; };
  const Tensor many = reshape(ids(3 * 5000 * 2, 7, 3), {3, 5000, 2});
  same_as_reference(put, {values({3, 7, 2}, 1), many, values({3, 5000, 2}, 2)});
  same_as_reference(put, {values({3, 7, 2}, 1).to(bf16), many, values({3, 5000, 2}, 2).to(bf16)}, 1e-2);
  const Tensor few = reshape(ids(3000 * 8, 7, 3), {3000, 8});
  same_as_reference(put, {values({3000, 7}, 1).to(f16), few, values({3000, 8}, 2).to(f16)}, 1e-3);
}

TEST_F(CudaIndex, IntoRowsOfManyMatrices) {
  const Function scatter = [](const TensorList& in) { return TensorList{scatter_add(in[0], in[1], in[2], 1)}; };
  same_as_reference(scatter, {values({300, 9, 4}, 1), ids(40, 9, 2), values({300, 40, 4}, 3)});
  same_as_reference(scatter, {values({300, 9, 1}, 1), ids(6, 9, 2), values({300, 6, 1}, 3)});
}

TEST_F(CudaIndex, WhatLiesOutsideIsNotedAndLeft) {
  const auto message = [](const Function& f, const TensorList& in) -> std::string {
    try {
      call(*detail::compile(f, {.device = "cuda"}), in)[0].to_vector<float>();
    } catch (const Error& e) {
      return e.what();
    }
    return "nothing was thrown";
  };
  for (const std::int64_t count : {5, 9000}) {
    std::vector<std::int64_t> v(static_cast<std::size_t>(count), 1);
    v[3] = -2;
    const Tensor indices = tensor(v, {count}), dy = values({count, 4}, 1);
    EXPECT_NE(
        message([](const TensorList& in) { return TensorList{gradient_of_table(in[0], in[1], 6)}; }, {dy, indices})
            .find("embedding_grad: index out of range [0, 6) along axis 0. Got -2."),
        std::string::npos);
    EXPECT_NE(
        message([](const TensorList& in) { return TensorList{embedding(in[0], in[1])}; }, {values({6, 4}, 2), indices})
            .find("embedding: index out of range [0, 6) along axis 0. Got -2."),
        std::string::npos);
    EXPECT_NE(message([](const TensorList& in) { return TensorList{put_along_axis_add(in[0], in[1], in[2], 0)}; },
                      {values({6}, 2), indices, values({count}, 3)})
                  .find("put_along_axis_add: index out of range [0, 6) along axis 0. Got -2."),
              std::string::npos);
  }
}

}  // namespace
}  // namespace varve
