// The last layer of a classifier, its loss and their gradients in one kernel: when, when not, and right either way.
#include "base/threads.h"
#include "cpu_programs.h"
#include "varve/error.h"

namespace varve {
namespace {

const char* const kKernel = "cpu dense+cross_entropy+gradients  <-";

struct Classifier {
  std::int64_t rows = 512, features = 5, classes = 257;
  bool bias = true, transposed = false;  // weights as [classes, features], such as a table of embeddings
  Shape labels = {};                     // other than [rows]
  DType dtype = i64;

  TensorList inputs() const {
    const Tensor number = (values({rows}, 9) + 1) * (0.4999f * static_cast<float>(classes));
    const Tensor label = minimum(cast(number, dtype), classes - 1);
    return {values({rows, features}, 1), values(transposed ? Shape{classes, features} : Shape{features, classes}, 2),
            values({classes}, 3), reshape(label, labels.rank() == 0 ? Shape{rows} : labels)};
  }
  Tensor logits(const TensorList& in) const {
    const Tensor product = matmul(in[0], in[1], {.transpose_b = transposed}), y = bias ? product + in[2] : product;
    if (labels.rank() == 0) return y;
    Shape shape = labels;
    shape.push_back(classes);
    return reshape(y, shape);
  }
  Function step(std::vector<std::size_t> wanted = {0, 1, 2}) const {
    if (!bias) std::erase(wanted, std::size_t{2});
    return [*this, wanted](const TensorList& in) {
      const Tensor loss = cross_entropy(logits(in), in[3]);
      TensorList of;
      for (const std::size_t i : wanted) of.push_back(in[i]);
      TensorList results = gradients(loss, of);
      results.push_back(loss);
      return results;
    };
  }
};

TEST(CpuClassLoss, LossAndAllGradientsInOneKernel) {
  for (const Classifier& c :
       {Classifier{}, Classifier{.bias = false}, Classifier{.transposed = true},
        Classifier{.bias = false, .transposed = true}, Classifier{.rows = 521, .features = 1, .classes = 600},
        Classifier{.labels = {16, 32}}, Classifier{.rows = 515, .features = 33, .classes = 256, .dtype = i32}}) {
    const std::string text = checked(c.step(), c.inputs());
    expect_kernel(text, kKernel);
    expect_no_kernel(text, "onednn matmul");
  }
}

// Too much for the reference: against the parts, which are taken where somebody reads the logits.
class CpuClassLossBlocks : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Transposed, CpuClassLossBlocks, testing::Bool());

TEST_P(CpuClassLossBlocks, AreMany) {
  const Classifier c{.rows = 520, .features = 3, .classes = 12000, .transposed = GetParam()};
  const Outcome blocks = run_on("cpu", c.step(), c.inputs());
  const Outcome parts = run_on(
      "cpu",
      [&](const TensorList& in) {
        TensorList results = c.step()(in);
        results.push_back(max(c.logits(in)));
        return results;
      },
      c.inputs());
  expect_kernel(blocks.text, kKernel);
  expect_no_kernel(parts.text, kKernel);
  for (std::size_t i = 0; i < blocks.results.size(); ++i)
    expect_close(blocks.results[i], parts.results[i], "result " + std::to_string(i));
}

TEST(CpuClassLoss, OnlyTheGradientsThatAreWanted) {
  for (const bool transposed : {false, true})
    for (const std::vector<std::size_t>& wanted : std::vector<std::vector<std::size_t>>{{0}, {1}, {2}, {0, 2}}) {
      const Classifier c{.transposed = transposed};
      expect_kernel(checked(c.step(wanted), c.inputs()), kKernel);
    }
}

TEST(CpuClassLoss, FewRowsOrClassesAreLeftToOthers) {
  for (const Classifier& c :
       {Classifier{.rows = 17}, Classifier{.classes = 1}, Classifier{.classes = 7}, Classifier{.features = 129}})
    expect_no_kernel(checked(c.step(), c.inputs()), kKernel);
}

TEST(CpuClassLoss, CanBeLeftOut) {
  const Classifier c;
  for (const auto& [name, value] : {std::pair{"VARVE_WITHOUT", "class-loss"}, std::pair{"VARVE_WORKSPACE_MB", "0"}}) {
    setenv(name, value, 1);
    expect_no_kernel(checked(c.step(), c.inputs()), kKernel);
    unsetenv(name);
  }
}

TEST(CpuClassLoss, WhatOthersReadIsNotHidden) {
  const Classifier c;
  const auto with = [&](const std::function<Tensor(const Tensor& logits, const Tensor& loss)>& extra) {
    expect_no_kernel(checked(
                         [&](const TensorList& in) {
                           const Tensor logits = c.logits(in), loss = cross_entropy(logits, in[3]);
                           TensorList results = gradients(loss, {in[0], in[1]});
                           results.push_back(extra(logits, loss));
                           return results;
                         },
                         c.inputs()),
                     kKernel);
  };
  with([](const Tensor& logits, const Tensor&) { return logits; });
  with([](const Tensor& logits, const Tensor&) { return argmax(logits).to(f32); });
  with([](const Tensor& logits, const Tensor& loss) { return gradients(loss, {logits})[0]; });
  with([](const Tensor& logits, const Tensor&) { return cross_entropy(logits, zeros({512}, i64)); });
}

TEST(CpuClassLoss, AWeightOfTheLossThatComesFromTheLogitsForbidsIt) {
  const Classifier c;
  expect_no_kernel(checked(
                       [&](const TensorList& in) {
                         const Tensor losses = cross_entropy(c.logits(in), in[3], Reduction::none);
                         const Tensor total = sum(losses * losses);
                         return TensorList{total, gradients(total, {in[1]})[0]};
                       },
                       c.inputs()),
                   kKernel);
}

TEST(CpuClassLoss, ALabelOutOfRangeIsAnErrorAtTheRead) {
  const Classifier c;
  TensorList in = c.inputs();
  in[3] = where(arange(512) == 300, 777, in[3]);
  try {
    run_on("cpu", c.step(), in);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("777"), std::string::npos) << e.what();
  }
}

TEST(CpuClassLoss, TheSameBitsForAnyNumberOfThreads) {
  const int before = threads();
  const Classifier c{.rows = 600};
  set_threads(1);
  const Outcome one = run_on("cpu", c.step(), c.inputs());
  for (const int count : {2, 3, 5}) {
    set_threads(count);
    EXPECT_EQ(run_on("cpu", c.step(), c.inputs()).results, one.results) << count << " threads";
  }
  set_threads(before);
}

}  // namespace
}  // namespace varve
