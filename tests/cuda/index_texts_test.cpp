// Indexing, random numbers and pooling: what is claimed together, and that the texts compile.
#include "cuda/claimed.h"
#include "varve/autodiff.h"
#include "varve/indexing.h"
#include "varve/ops.h"

namespace varve::cuda {
namespace {

using Names = std::vector<std::string>;

const DType kFloats[] = {f32, bf16, f16, f64};

TEST(CudaIndexTexts, RandomNumbers) {
  for (const DType dtype : {f32, f64})
    EXPECT_EQ(claimed(
                  [&](const TensorList& in) {
                    return TensorList{uniform({7, 9}, {.counter = in[0], .dtype = dtype}),
                                      normal({7, 9}, {.counter = in[0], .dtype = dtype})};
                  },
                  {{i64, {}}}),
              (Names{"cuda random_uniform", "cuda random_normal"}));
  expect_compiles("random/random.cu");
}

TEST(CudaIndexTexts, Dropout) {
  for (const DType dtype : kFloats)
    EXPECT_EQ(claimed(
                  [](const TensorList& in) {
                    return TensorList{dropout(in[0], 0.5, {.counter = in[2]}),
                                      dropout(in[1], 0.5, {.counter = in[2]}) + in[0]};
                  },
                  {{dtype, {40, 30}}, {dtype, {40, 30}}, {i64, {}}}),
              (Names{"cuda dropout", "cuda dropout+add"}));
  expect_compiles("random/dropout.cu");
}

TEST(CudaIndexTexts, TablesOfManySizes) {
  for (const DType dtype : {f32, bf16})
    for (const std::int64_t positions : {300, 250000})
      for (const std::int64_t rows : {5000, 100000000})
        EXPECT_EQ(claimed(
                      [](const TensorList& in) {
                        const Tensor y = embedding(in[0], in[1]);
                        return TensorList{gradients(sum(y * in[2]), {in[0]})[0]};
                      },
                      {{dtype, {rows, 32}}, {i32, {positions}}, {dtype, {positions, 32}}}),
                  Names{"cuda embedding_grad"});
  expect_compiles("index/index_sort.cu");
  expect_compiles("index/index_add.cu");
}

TEST(CudaIndexTexts, RowsOfATableWithWhatFollows) {
  for (const DType dtype : {bf16, f16})
    EXPECT_EQ(claimed(
                  [&](const TensorList& in) {
                    const Tensor x = embedding(in[0], in[1]).to(dtype) + in[2];
                    const Tensor y = dropout(x, 0.1, {.counter = in[3]});
                    return TensorList{y, gradients(sum((y * y).to(f32)), {in[0]})[0]};
                  },
                  {{f32, {1000, 64}}, {i64, {4, 16}}, {dtype, {16, 64}}, {i64, {}}}),
              (Names{"cuda embedding+cast+add+dropout", "cuda dropout+cast+embedding_grad"}));
  expect_compiles("index/embedding.cu");
  expect_compiles("index/index_add.cu");
}

TEST(CudaIndexTexts, Elements) {
  for (const DType dtype : {f32, bf16, i64, u8})
    claimed(
        [](const TensorList& in) {
          return TensorList{gather(in[0], in[1], 0), take_along_axis(in[0], in[2], 1), one_hot(in[1], 9),
                            put_along_axis_add(in[0], in[2], in[3], 1)};
        },
        {{dtype, {20, 30}}, {i32, {7}}, {i64, {20, 5}}, {dtype, {20, 5}}});
  expect_compiles("index/index.cu");
  expect_compiles("index/index_put.cu");
  for (const ScatterMode mode : {ScatterMode::assign, ScatterMode::max, ScatterMode::min, ScatterMode::product})
    for (const DType dtype : {f32, bf16, i64})
      claimed(
          [mode](const TensorList& in) {
            return TensorList{scatter(in[0], in[1], in[2], {.mode = mode}),
                              put_along_axis(in[0], in[3], in[4], 1, mode)};
          },
          {{dtype, {20, 30}}, {i32, {7}}, {dtype, {7, 30}}, {i64, {20, 5}}, {dtype, {20, 5}}});
  expect_compiles("index/scatter.cu");
}

TEST(CudaPoolTexts, MaximaWithTheirNeighbours) {
  const PoolOptions plain{}, overlapping{.window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}},
      everywhere{.window = {3, 3}, .stride = {1, 1}, .padding = {1, 1}}, large{.window = {7, 7}, .stride = {2, 2}};
  const auto layer = [](const PoolOptions& options, bool dropped) {
    return [&options, dropped](const TensorList& in) {
      Tensor y = max_pool2d(relu(in[0] + in[1]), options);
      if (dropped) y = dropout(y, 0.25, {.counter = in[2]});
      const TensorList g = gradients(sum(y), {in[0], in[1]});
      return TensorList{y, g[0], g[1]};
    };
  };
  const std::pair<DType, const PoolOptions&> cases[] = {{f32, plain},        {bf16, plain},     {f32, overlapping},
                                                        {bf16, overlapping}, {f16, everywhere}, {f64, plain}};
  for (const auto& [dtype, options] : cases) {
    const std::vector<TensorType> types = {{dtype, {4, 32, 32, 64}}, {dtype, {64}}, {i64, {}}};
    EXPECT_EQ(claimed(layer(options, false), types),
              (Names{"cuda bias+relu+max_pool2d", "cuda max_pool2d_grad+relu_grad+bias_grad"}));
    if (&options != &plain) continue;
    EXPECT_EQ(claimed(layer(options, true), types),
              (Names{"cuda bias+relu+max_pool2d+dropout", "cuda dropout+max_pool2d_grad+relu_grad+bias_grad"}));
  }
  EXPECT_EQ(claimed(layer(large, false), {{f32, {4, 32, 32, 64}}, {f32, {64}}, {i64, {}}}),
            (Names{"cuda bias+relu+max_pool2d", "cuda max_pool2d_grad"}));
  expect_compiles("pool/max_pool.cu");
  expect_compiles("pool/max_pool_grad.cu");
  expect_compiles("pool/max_pool_grad_any.cu");
}

TEST(CudaPoolTexts, Means) {
  for (const DType dtype : {f32, bf16, f64})
    EXPECT_EQ(claimed(
                  [](const TensorList& in) {
                    const Tensor y = avg_pool2d(in[0], {.window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
                    return TensorList{y, gradients(sum(y * y), {in[0]})[0]};
                  },
                  {{dtype, {4, 9, 9, 24}}}),
              (Names{"cuda avg_pool2d", "cuda avg_pool2d_grad"}));
  expect_compiles("pool/avg_pool.cu");
}

}  // namespace
}  // namespace varve::cuda
