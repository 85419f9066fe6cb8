// A classifier of many classes on a GPU: losses, their gradient and the bias's in one pass, beside the reference's.
#include <cstdlib>

#include "cuda/compiles.h"
#include "cuda/on_cuda.h"

namespace varve {
namespace {

const char* const kKernel = "class loss+gradient+bias gradient  <-";

struct Classifier {
  std::int64_t rows = 2100, features = 3, classes = 1024;
  DType dtype = f32, labels = i64;
  bool bias = true, weighted = false;      // losses with a weight for each row
  bool widened = false, measured = false;  // the loss in f32; somebody else reads its logits

  TensorList inputs() const {
    const Tensor number = (values({rows}, 9) + 1) * (0.4999f * static_cast<float>(classes));
    return {values({rows, features}, 1).to(dtype), values({features, classes}, 2).to(dtype),
            values({classes}, 3).to(dtype), minimum(cast(number, labels), classes - 1), values({rows}, 4).to(dtype)};
  }
  TensorList operator()(const TensorList& in) const {
    const Tensor logits = linear(in[0], in[1], bias ? in[2] : Tensor());
    const Tensor loss =
        weighted ? sum(cross_entropy(logits, in[3], Reduction::none) * in[4]) : cross_entropy(logits, in[3]);
    TensorList results = gradients(loss, bias ? TensorList{in[0], in[1], in[2]} : TensorList{in[0], in[1]});
    results.push_back(loss);
    if (measured) results.push_back(max(logits));
    return results;
  }
};

class CudaClassLoss : public OnCuda {
 protected:
  void TearDown() override { unsetenv("VARVE_WITHOUT"); }
};

std::string checked_on_cuda(const Classifier& c) {
  const Outcome got = run_on("cuda", c, c.inputs()), want = run_on("reference", c, c.inputs());
  EXPECT_EQ(got.results.size(), want.results.size());
  for (std::size_t i = 0; i < got.results.size(); ++i)
    expect_close(got.results[i], want.results[i], "result " + std::to_string(i) + "\n" + got.text,
                 c.dtype == f32 ? 1e-5 : 1e-2);
  return got.text;
}

TEST_F(CudaClassLoss, OnePassOverTheLogits) {
  for (const Classifier& c : {Classifier{}, Classifier{.rows = 2100, .classes = 1025, .labels = i32},
                              Classifier{.weighted = true}, Classifier{.rows = 4100, .dtype = bf16}})
    expect_kernel(checked_on_cuda(c), kKernel);
}

TEST_F(CudaClassLoss, HalfPrecisionIsNotWidenedInMemory) {
  Classifier c{.rows = 4100, .dtype = bf16, .widened = true};
  const std::string text = checked_on_cuda(c);
  expect_kernel(text, kKernel);
  expect_no_kernel(text, "over [4100, 1024]");
  c.measured = true;
  expect_kernel(checked_on_cuda(c), kKernel);
  expect_kernel(checked_on_cuda({.rows = 4100, .dtype = f16, .weighted = true, .widened = true}), kKernel);
}

TEST_F(CudaClassLoss, ManyClasses) {
  expect_kernel(checked_on_cuda({.rows = 300, .features = 2, .classes = 10000}), kKernel);
  expect_kernel(checked_on_cuda({.rows = 90, .features = 2, .classes = 26752}), kKernel);
}

TEST_F(CudaClassLoss, OthersTakeTheRest) {
  expect_no_kernel(checked_on_cuda({.rows = 64}), kKernel);
  expect_no_kernel(checked_on_cuda({.bias = false}), kKernel);
  setenv("VARVE_WITHOUT", "class-loss", 1);
  expect_no_kernel(checked_on_cuda({}), kKernel);
}

TEST_F(CudaClassLoss, ALabelOutOfRangeIsAnErrorAtTheRead) {
  const Classifier c;
  TensorList in = c.inputs();
  in[3] = where(arange(c.rows) == 300, 7777, in[3]);
  try {
    run_on("cuda", c, in);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("7777"), std::string::npos) << e.what();
  }
}

TEST_F(CudaClassLoss, TheSameBitsAtEveryRun) {
  const Classifier c;
  const Outcome first = run_on("cuda", c, c.inputs());
  EXPECT_EQ(run_on("cuda", c, c.inputs()).results, first.results);
}

TEST(ClassLossText, Compiles) {
  for (const char* type : {"float", "bf16", "f16"})
    for (const char* vector : {"4", "1"})
      cuda::expect_text_compiles(
          {"loss/class_loss.cu", cuda::defines({{"T", type},
                                                {"LOSS", "float"},
                                                {"LABEL", "i64"},
                                                {"COLUMNS", "1000"},
                                                {"THREADS", "256"},
                                                {"VEC", vector},
                                                {"WORDS", type == std::string("float") ? "uint4" : "uint2"},
                                                {"KEPT", vector == std::string("4") ? "0" : "1"},
                                                {"EACH", "1"}})});
}

}  // namespace
}  // namespace varve
