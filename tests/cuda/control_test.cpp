// Branches and loops on a GPU: decided there within the recorded step, or by the processor between two.
#include <cstdlib>

#include "backend/device.h"
#include "cuda/compiles.h"
#include "cuda/gpu_here.h"
#include "cuda/on_cuda.h"
#include "runtime/devices.h"
#include "varve/control.h"

namespace varve {
namespace {

backend::Device& gpu_device() { return *runtime::backend_named("cuda").device(); }

// The environment as it was, and whatever the device has refused meanwhile forgotten.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name), was_(std::getenv(name) ? std::getenv(name) : "") {
    setenv(name, value.c_str(), 1);
  }
  ~Setting() {
    was_.empty() ? unsetenv(name_) : setenv(name_, was_.c_str(), 1);
    gpu_device().refuse_decisions("");
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
  std::string was_;
};

std::string without_too(const std::string& name) {
  const char* already = std::getenv("VARVE_WITHOUT");
  return already && *already ? std::string(already) + "," + name : name;
}

// Products, reductions and copies before, within and after; the number of steps is a value.
TensorList program(const TensorList& in) {
  const Tensor x = varve::tanh(matmul(in[0], in[1]));
  const Tensor chosen = cond(
      sum(x) > in[2], [&] { return matmul(x, in[1]) + 1; }, [&] { return x * 0.5; });
  const auto body = [&](const TensorList& c) {
    return TensorList{c[0] * 0.5 + varve::sin(c[0]) * 0.25, c[1] + 1, c[0]};
  };
  const TensorList looped = while_loop([](const TensorList& c) { return max(abs(c[0])) > 0.1; }, body,
                                       {chosen, zeros({}, i32), zeros(x.shape())}, {.max_steps = 40});
  return {looped[0] * 3, looped[1], looped[2], chosen};
}

TensorList results_and_gradients(const TensorList& in) {
  const auto loss = [&](const Tensor& w) { return sum(program({in[0], w, in[2]})[0] * in[3]); };
  TensorList results = program(in);
  results.push_back(grad(loss)(in[1]));
  return results;
}

TensorList inputs(float threshold) {
  return {values({5, 6}, 1), values({6, 6}, 2), full(Shape{}, threshold), values({5, 6}, 3)};
}

// The first call starts kernel after kernel, the second one is recorded, the others repeat the recording.
void expect_same(const std::string& says) {
  const auto compiled = detail::compile(results_and_gradients, {.device = "cuda"});
  const auto expected = detail::compile(results_and_gradients, {.device = "reference"});
  for (const float threshold : {-100.f, 100.f, -100.f, 100.f}) {
    const TensorList got = call(*compiled, inputs(threshold)), want = call(*expected, inputs(threshold));
    for (std::size_t i = 0; i < want.size(); ++i)
      expect_close(got[i].to(f32).to_vector<float>(), want[i].to(f32).to_vector<float>(),
                   "result " + std::to_string(i));
  }
  expect_kernel(detail::text(*compiled, inputs(0)), says);
}

class CudaControl : public OnCuda {};

TEST_F(CudaControl, InsideTheRecordedStep) { expect_same("decided on the device, inside the recorded step"); }

TEST_F(CudaControl, CutWhereItIsLeftOut) {
  const Setting without("VARVE_WITHOUT", without_too("conditional-nodes"));
  expect_same("the recorded step is cut here, and the processor decides: left out by VARVE_WITHOUT");
}

// What an older driver says when the step is recorded: from then on programs are cut.
TEST_F(CudaControl, CutWhereTheDriverRefuses) {
  if (!cuda::is_emulated()) GTEST_SKIP() << "a real driver has them";
  const Setting refusing("VARVE_EMULATOR_REFUSES_CONDITIONS", "1");
  expect_same("decided on the device");
  EXPECT_TRUE(has(gpu_device().decision_refusal(), "cuGraphConditionalHandleCreate"));
  expect_same("the recorded step is cut here, and the processor decides: cuGraphConditionalHandleCreate");
}

TEST_F(CudaControl, OneInsideTheOther) {
  const Function f = [](const TensorList& in) {
    const auto next = [&](const Tensor& n) {
      return cond(
          remainder(n, 2) == 0, [&] { return floor(n / 2); }, [&] { return 3 * n + 1; });
    };
    const auto length = [&](const Tensor& n) {
      return while_loop([](const TensorList& c) { return c[0] > 1; },
                        [&](const TensorList& c) {
                          return TensorList{next(c[0]), c[1] + 1};
                        },
                        {n, zeros(Shape{})}, {.max_steps = 30})[1];
    };
    const auto step = [&](const TensorList&, const TensorList& x) { return ScanStep{{}, {length(x[0])}}; };
    return TensorList{scan(step, {}, {in[0]}).out[0]};
  };
  const auto compiled = detail::compile(f, {.device = "cuda"});
  for (int run = 0; run < 3; ++run)
    EXPECT_EQ(call(*compiled, {tensor({1.f, 6.f, 7.f})})[0].to_vector<float>(), (std::vector<float>{0, 8, 16}));
}

TEST_F(CudaControl, ErrorsOfTheBranchAndOfTheBoundComeWithTheNextRead) {
  const Function f = [](const TensorList& in) {
    const Tensor taken = cond(
        in[1] > 0, [&] { return gather(in[0], in[2]); }, [&] { return zeros({1}); });
    return TensorList{while_loop([&](const Tensor& c) { return max(c) < in[3]; }, [](const Tensor& c) { return c + 1; },
                                 taken, {.max_steps = 5})};
  };
  const auto compiled = detail::compile(f, {.device = "cuda"});
  const auto run = [&](float taken, int index, float limit) -> std::string {
    try {
      const TensorList in = {tensor({1.f, 2.f}), tensor(taken), tensor({index}), tensor(limit)};
      return std::to_string(call(*compiled, in)[0].to_vector<float>()[0]);
    } catch (const Error& error) {
      return error.what();
    }
  };
  for (int repeated = 0; repeated < 3; ++repeated) {
    EXPECT_EQ(run(0, 7, 3), "3.000000");
    EXPECT_EQ(run(1, 1, 5), "5.000000");
    expect_kernel(run(1, 7, 3), "out of range");
    expect_kernel(run(0, 0, 9), "after 5 steps, the max_steps");
  }
}

TEST_F(CudaControl, ALoopWithoutABoundEndsWhenSomethingIsWrong) {
  const Function f = [](const TensorList& in) {
    const auto body = [&](const Tensor& c) { return c + 0 * gather(in[0], in[1]); };
    return TensorList{while_loop([](const Tensor& c) { return max(c) < 1; }, body, zeros({1}))};
  };
  const auto compiled = detail::compile(f, {.device = "cuda"});
  for (int run = 0; run < 3; ++run) {
    const auto read = [&] { return call(*compiled, {tensor({1.f}), tensor({3})})[0].to_vector<float>(); };
    EXPECT_THROW(read(), Error);
  }
}

TEST_F(OnDevice, BranchesInLazyCode) {
  const Tensor x = values({3, 4}, 1);
  for (const bool yes : {true, false}) {
    const Tensor p = tensor(yes ? 1.f : 0.f) > 0;
    EXPECT_EQ(cond(
                  p, [&] { return x * 2; }, [&] { return x * 4; })
                  .to_vector<float>(),
              (x * (yes ? 2 : 4)).to_vector<float>());
  }
}

TEST(CudaControlTexts, Compile) {
  for (const char* file : {"device/decide.cu", "device/set_condition.cu"})
    for (const char* arch : {"sm_80", "sm_90a"}) cuda::expect_text_compiles({file, ""}, arch);
  cuda::expect_text_compiles({"device/copy_row.cu", cuda::defines({{"UNIT", "u64"}})}, "sm_90a");
}

}  // namespace
}  // namespace varve
