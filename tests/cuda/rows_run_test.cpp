// Rows on the GPU beside the reference: teams of a part of a warp, a warp, a block, and rows that do not fit.
#include "cuda/on_cuda.h"
#include "varve/autodiff.h"
#include "varve/error.h"

namespace varve {
namespace {

class CudaRowsRun : public OnCuda {};

const Shape kShapes[] = {{80, 10}, {1, 1}, {5, 7}, {2, 7, 100}, {70, 1000}, {3, 10000}, {2, 40001}};

double tolerance_of(DType dtype) { return dtype == f32 ? 1e-5 : dtype == f64 ? 1e-6 : dtype == bf16 ? 1e-2 : 2e-3; }
DType wide(DType dtype) { return dtype == f64 ? f64 : f32; }

// f(values of a type and shape) for many of them.
template <class F>
void each_case(F f) {
  for (const DType dtype : {f32, f64, bf16, f16})
    for (const Shape& shape : kShapes) {
      if (dtype != f32 && dtype != bf16 && shape.numel() > 1000) continue;
      SCOPED_TRACE((TensorType{dtype, shape}.str()));
      f((values(shape, 1) * 3.0).to(dtype));
    }
}

Tensor labels_for(const Tensor& logits) {
  const std::int64_t classes = logits.dim(-1), rows = logits.numel() / classes;
  std::vector<std::int32_t> labels;
  for (std::int64_t row = 0; row < rows; ++row) labels.push_back(static_cast<std::int32_t>((7 * row + 3) % classes));
  return tensor(labels, Shape(Ints(logits.shape().begin(), logits.shape().end() - 1)));
}

TEST_F(CudaRowsRun, Softmax) {
  each_case([](const Tensor& x) {
    same_as_reference(
        [](const TensorList& in) {
          return TensorList{softmax(in[0]), log_softmax(in[0])};
        },
        {x}, tolerance_of(x.dtype()));
  });
}

TEST_F(CudaRowsRun, TheGradientOfSoftmax) {
  for (const Shape& shape : kShapes)
    expect_kernel(same_as_reference(
                      [](const TensorList& in) {
                        const Tensor y = softmax(in[0], -1);
                        return TensorList{gradients(sum(y * in[1]), {in[0]})[0]};
                      },
                      {values(shape, 1), values(shape, 2)}),
                  "rows softmax_grad");
}

TEST_F(CudaRowsRun, AStepsLossIsOneKernel) {
  each_case([](const Tensor& x) {
    const std::string text = same_as_reference(
        [](const TensorList& in) {
          const Tensor loss = cross_entropy(in[0], in[1]);
          return TensorList{loss, gradients(loss, {in[0]})[0]};
        },
        {x, labels_for(x)}, tolerance_of(x.dtype()));
    expect_kernel(text, "rows cross_entropy+mean+gradient");
    expect_no_kernel(text, "generated");
  });
}

TEST_F(CudaRowsRun, LossesAndTheirGradientApart) {
  each_case([](const Tensor& x) {
    const Tensor weights = values(labels_for(x).shape(), 4).to(x.dtype());
    same_as_reference(
        [](const TensorList& in) {
          const Tensor losses = cross_entropy(in[0], in[1], Reduction::none);
          return TensorList{losses, gradients(sum(losses * in[2]), {in[0]})[0]};
        },
        {x, labels_for(x), weights}, tolerance_of(x.dtype()));
  });
}

TEST_F(CudaRowsRun, ALabelOutOfRangeIsAnErrorAtTheRead) {
  const Tensor labels = tensor(std::vector<std::int64_t>{1, -7}, Shape{2});
  try {
    run_on("cuda", [](const TensorList& in) { return TensorList{cross_entropy(in[0], in[1])}; },
           {values({2, 5}, 1), labels});
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("cross_entropy: a label is out of range [0, 5). Got -7."), std::string::npos)
        << e.what();
  }
}

TensorList gain_and_bias(const Tensor& x) {
  return {values({x.dim(-1)}, 5).to(wide(x.dtype())), values({x.dim(-1)}, 6).to(wide(x.dtype()))};
}

TEST_F(CudaRowsRun, NormsAndTheAdditionBefore) {
  each_case([](const Tensor& x) {
    const TensorList p = gain_and_bias(x);
    const std::string text = same_as_reference(
        [](const TensorList& in) {
          const Tensor sum = in[0] + in[1];
          return TensorList{sum, layer_norm(sum, in[2], in[3]), layer_norm(in[0], in[2], in[3]),
                            rms_norm(in[0], in[2])};
        },
        {x, values(x.shape(), 2).to(x.dtype()), p[0], p[1]}, tolerance_of(x.dtype()));
    for (const char* kernel : {"rows add+layer_norm", "rows layer_norm  <-", "rows rms_norm"})
      expect_kernel(text, kernel);
  });
}

// The gradient on the way around the norm is added, and the columns of both are summed, as a bias before them wants.
TEST_F(CudaRowsRun, TheGradientOfANormWithWhatFollows) {
  each_case([](const Tensor& x) {
    if (x.dim(-1) > 16384) return;
    Shape rows = x.shape();
    rows[rows.rank() - 1] = 1;
    const DType statistics = wide(x.dtype());
    const TensorList in = {x,
                           values(x.shape(), 2).to(x.dtype()),
                           gain_and_bias(x)[0],
                           values(rows, 7).to(statistics),
                           (values(rows, 8) + 2.0).to(statistics),
                           values(x.shape(), 9).to(x.dtype())};
    for (const bool added : {false, true}) {
      const std::string text = same_as_reference(
          [added](const TensorList& t) {
            const TensorList grads = OpDef(&find_operator("layer_norm_grad")).call({t[0], t[1], t[2], t[3], t[4]});
            const Tensor dx = added ? grads[0] + t[5] : grads[0];
            const Tensor matrix = reshape(dx, {dx.numel() / dx.dim(-1), dx.dim(-1)});
            return TensorList{dx, grads[1], grads[2], sum(matrix, {.axes = Axes{0}}).to(f32)};
          },
          in, tolerance_of(x.dtype()));
      expect_kernel(text, added ? "rows layer_norm_grad+add+sum" : "rows layer_norm_grad+sum");
    }
  });
}

}  // namespace
}  // namespace varve
