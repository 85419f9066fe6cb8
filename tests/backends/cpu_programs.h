// Programs on the CPU beside the same on the reference, and who claimed what in them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "varve/autodiff.h"
#include "varve/compile.h"
#include "varve/ops.h"
#include "varve/tensor.h"

namespace varve {

using TensorList = std::vector<Tensor>;
using Function = std::function<TensorList(const TensorList&)>;

inline Tensor values(const Shape& shape, unsigned seed) {
  std::vector<float> v(static_cast<std::size_t>(shape.numel()));
  unsigned state = seed * 2654435761u + 1;
  for (float& x : v) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 8) / 8388608.f - 1.f;
  }
  return tensor(v, shape);
}

struct Outcome {
  std::vector<std::vector<float>> results;
  std::string text;
};

inline TensorList call(detail::CompiledFn& program, const TensorList& in) {
  std::vector<const Tensor*> arguments;
  for (const Tensor& t : in) arguments.push_back(&t);
  return detail::Running(program, arguments.data(), arguments.size()).results();
}

inline Outcome run_on(const std::string& device, const Function& f, const TensorList& in) {
  const auto program = detail::compile(f, {.device = device});
  const TensorList results = call(*program, in);
  Outcome outcome;
  outcome.text = detail::text(*program, in);
  for (const Tensor& t : results) outcome.results.push_back(t.to(f32).to_vector<float>());
  return outcome;
}

// Relative to the largest: sums of many terms cancel.
inline void expect_close(const std::vector<float>& got, const std::vector<float>& want, const std::string& what,
                         double tolerance = 1e-5) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double worst = 0, largest = 1;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(static_cast<double>(got[i]) - want[i]);
    if (!(error <= worst)) worst = error;  // NaN counts as wrong
    if (std::isnan(error)) break;
    largest = std::max<double>(largest, std::abs(want[i]));
  }
  EXPECT_LE(worst, tolerance * largest) << what;
}

// Runs f on the CPU, compares with the reference, and returns who claimed what.
inline std::string checked(const Function& f, const TensorList& in, double tolerance = 1e-5) {
  const Outcome cpu = run_on("cpu", f, in), reference = run_on("reference", f, in);
  EXPECT_EQ(cpu.results.size(), reference.results.size());
  for (std::size_t i = 0; i < cpu.results.size(); ++i)
    expect_close(cpu.results[i], reference.results[i], "result " + std::to_string(i) + "\n" + cpu.text, tolerance);
  return cpu.text;
}

inline bool has(const std::string& text, const std::string& kernel) { return text.find(kernel) != std::string::npos; }

inline void expect_kernel(const std::string& text, const std::string& kernel) {
  EXPECT_TRUE(has(text, kernel)) << "no " << kernel << " in\n" << text;
}
inline void expect_no_kernel(const std::string& text, const std::string& kernel) {
  EXPECT_FALSE(has(text, kernel)) << kernel << " in\n" << text;
}

class ThreadsRestored {
 public:
  ~ThreadsRestored() {
    set_threads(threads_);
    set_deterministic(deterministic_);
  }

 private:
  int threads_ = threads();
  bool deterministic_ = deterministic();
};

}  // namespace varve
