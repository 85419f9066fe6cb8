// What batch norm takes along on the CPU: the addition and ReLU that follow it, and their gradients.
#include "cpu_programs.h"
#include "varve/autodiff.h"
#include "varve/ops.h"

namespace varve {
namespace {

TensorList gradients_of(const TensorList& in, const std::function<Tensor(const TensorList&)>& f) {
  const Tensor loss = f(in);
  TensorList all = gradients(loss, in);
  all.push_back(loss);
  return all;
}

TEST(CpuBatchNorm, ReluGoesAlongBothWays) {
  const std::string text = checked(
      [](const TensorList& in) {
        return gradients_of(in, [](const TensorList& t) {
          return sum(square(matmul(relu(batch_norm_train(t[0], t[1], t[2]).y), t[3])));
        });
      },
      {values({30, 12}, 1), values({12}, 2), values({12}, 3), values({12, 5}, 4)});
  expect_kernel(text, "cpu batch_norm+relu");
  expect_kernel(text, "cpu batch_norm gradient+relu_grad");
}

// A residual block: the sum passes the ReLU, and its gradient is wanted by both branches.
TEST(CpuBatchNorm, AResidualBlockIsOneKernelEachWay) {
  const std::string text = checked(
      [](const TensorList& in) {
        return gradients_of(in, [](const TensorList& t) {
          const Tensor skip = matmul(t[0], t[4]);
          const Tensor y = relu(batch_norm_train(matmul(t[0], t[3]), t[1], t[2]).y + skip);
          return sum(square(matmul(y, t[3]) + matmul(y, t[4]) * y));
        });
      },
      {values({30, 12}, 1), values({12}, 2), values({12}, 3), values({12, 12}, 4), values({12, 12}, 5)});
  expect_kernel(text, "cpu batch_norm+add+relu");
  expect_kernel(text, "cpu batch_norm gradient+add+relu_grad");
}

TEST(CpuBatchNorm, WhatOthersReadIsNotSwallowed) {
  const std::string text = checked(
      [](const TensorList& in) {
        const Tensor y = batch_norm_train(in[0], in[1], in[2]).y;
        return TensorList{y, relu(y), relu(y + mean(y))};
      },
      {values({30, 12}, 1), values({12}, 2), values({12}, 3)});
  expect_no_kernel(text, "batch_norm+");
  // What is added needs the norm's own mean: it cannot be there before the norm is done.
  const std::string second = checked(
      [](const TensorList& in) {
        const BatchNorm norm = batch_norm_train(in[0], in[1], in[2]);
        return TensorList{relu(norm.y + (in[0] - norm.mean))};
      },
      {values({30, 12}, 1), values({12}, 2), values({12}, 3)});
  expect_no_kernel(second, "batch_norm+add");
}

}  // namespace
}  // namespace varve
