// Programs on the GPU, if only an emulated one, beside the same on the reference.
#pragma once

#include "backends/cpu_programs.h"
#include "varve/error.h"

namespace varve {

// Why there is no GPU here; empty: there is one. ctest runs these tests a second time, on the emulated one.
inline const std::string& no_cuda() {
  static const std::string why = [] {
    try {
      static_cast<void>(zeros({1}).to_vector<float>());
      set_device("cuda");
      set_device("cpu");
      return std::string();
    } catch (const Error& error) {
      return std::string("no GPU: ") + error.what();
    }
  }();
  return why;
}
inline bool has_cuda() { return no_cuda().empty(); }

class OnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_cuda()) GTEST_SKIP() << no_cuda();
  }
};

// With all programs there.
class OnDevice : public OnCuda {
 protected:
  void SetUp() override {
    OnCuda::SetUp();
    if (!IsSkipped()) set_device("cuda");
  }
  void TearDown() override { set_device("cpu"); }
};

// Runs f twice, which must give the same bits, compares with the reference, and returns who claimed what.
inline std::string same_as_reference(const Function& f, const TensorList& in, double tolerance = 1e-5) {
  const Outcome cuda = run_on("cuda", f, in), again = run_on("cuda", f, in), reference = run_on("reference", f, in);
  EXPECT_EQ(cuda.results.size(), reference.results.size());
  EXPECT_EQ(cuda.results, again.results) << "two runs differ\n" << cuda.text;
  for (std::size_t i = 0; i < cuda.results.size(); ++i)
    expect_close(cuda.results[i], reference.results[i], "result " + std::to_string(i) + "\n" + cuda.text, tolerance);
  return cuda.text;
}

}  // namespace varve
