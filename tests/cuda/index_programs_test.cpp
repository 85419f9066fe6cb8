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
  const Function f = [&](const Tensors& in) { return Tensors{gradient_of_table(in[0], in[1], t.rows)}; };
  const Tensor dy = values({t.positions, t.width}, 1).to(t.dtype);
  expect_kernel(same_as_reference(f, {dy, ids(t.positions, t.rows, 2)}, tolerance), "cuda embedding_grad  <-");
  // Of a view that begins at an odd element.
  const Function odd = [&](const Tensors& in) {
    const Tensor all = reshape(slice(in[0], {{1, 1 + t.positions * t.width}}), {t.positions, t.width});
    return Tensors{gradient_of_table(all, in[1], t.rows)};
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
  const Function f = [](const Tensors& in) {
    const Tensor& table = in[0];
    const Tensor loss = sum(embedding(table, in[1]) * in[2]) + sum(matmul(in[3], table) * in[4]);
    return Tensors{gradients(loss, {table})[0]};
  };
  const std::string text = same_as_reference(
      f, {values({40, 12}, 1), ids(300, 40, 2), values({300, 12}, 3), values({5, 40}, 4), values({5, 12}, 5)});
  expect_kernel(text, "cuda embedding_grad+add  <-");
  expect_no_kernel(text, "copied");
}

TEST_F(CudaIndex, AlongAnAxisOfMany) {
  const Function put = [](const Tensors& in) { return Tensors{put_along_axis_add(in[0], in[1], in[2], 1)}; };
  const Tensor many = reshape(ids(3 * 5000 * 2, 7, 3), {3, 5000, 2});
  same_as_reference(put, {values({3, 7, 2}, 1), many, values({3, 5000, 2}, 2)});
  same_as_reference(put, {values({3, 7, 2}, 1).to(bf16), many, values({3, 5000, 2}, 2).to(bf16)}, 1e-2);
  const Tensor few = reshape(ids(3000 * 8, 7, 3), {3000, 8});
  same_as_reference(put, {values({3000, 7}, 1).to(f16), few, values({3000, 8}, 2).to(f16)}, 1e-3);
}

TEST_F(CudaIndex, IntoRowsOfManyMatrices) {
  const Function scatter = [](const Tensors& in) { return Tensors{scatter_add(in[0], in[1], in[2], 1)}; };
  same_as_reference(scatter, {values({300, 9, 4}, 1), ids(40, 9, 2), values({300, 40, 4}, 3)});
  same_as_reference(scatter, {values({300, 9, 1}, 1), ids(6, 9, 2), values({300, 6, 1}, 3)});
}

TEST_F(CudaIndex, WhatLiesOutsideIsNotedAndLeft) {
  const auto message = [](const Function& f, const Tensors& in) -> std::string {
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
    EXPECT_NE(message([](const Tensors& in) { return Tensors{gradient_of_table(in[0], in[1], 6)}; }, {dy, indices})
                  .find("embedding_grad: index out of range [0, 6) along axis 0. Got -2."),
              std::string::npos);
    EXPECT_NE(message([](const Tensors& in) { return Tensors{embedding(in[0], in[1])}; }, {values({6, 4}, 2), indices})
                  .find("embedding: index out of range [0, 6) along axis 0. Got -2."),
              std::string::npos);
    EXPECT_NE(message([](const Tensors& in) { return Tensors{put_along_axis_add(in[0], in[1], in[2], 0)}; },
                      {values({6}, 2), indices, values({count}, 3)})
                  .find("put_along_axis_add: index out of range [0, 6) along axis 0. Got -2."),
              std::string::npos);
  }
}

}  // namespace
}  // namespace varve
