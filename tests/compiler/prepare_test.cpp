// The order in which kernels are prepared.
#include <gtest/gtest.h>

#include "compiler/traced.h"

namespace varve::compiler {
namespace {

// Notes what it prepares; products are measured, and need as many bytes of scratch memory as they are numbers.
class Noting final : public backend::Backend {
 public:
  std::string name() const override { return "noting"; }
  bool executes() const override { return false; }
  std::vector<backend::Claim> claims(const backend::Site& site) const override {
    backend::Claim claim = backend::Claim::of(
        site.node().op->name, site.root(),
        [this, op = site.node().op->name](const std::vector<backend::Port>&, const std::vector<backend::Port>& out) {
          prepared.push_back(op);
          const auto scratch = op == "matmul" ? static_cast<std::size_t>(out[0].type.shape.numel()) : 0;
          return backend::prepared([](const backend::RunArgs&) {}, scratch);
        });
    claim.measures = site.node().is("matmul");
    return {claim};
  }
  backend::Prepared prepare_copy(const backend::Port&, const backend::Port&) const override {
    return backend::prepared([](const backend::RunArgs&) {});
  }
  mutable std::vector<std::string> prepared;
};

TEST(Prepare, WhatIsMeasuredComesAfterAllOthers) {
  const Noting backend;
  const auto plan = compile(traced(
                                [](const Tensors& in) {
                                  const Tensor x = varve::exp(matmul(in[0], in[1]));
                                  return Tensors{cumsum(matmul(x, in[1]), 0)};
                                },
                                {{f32, {4, 6}}, {f32, {6, 6}}}),
                            backend);
  EXPECT_EQ(backend.prepared, (std::vector<std::string>{"exp", "cumsum", "matmul", "matmul"}));
  std::vector<std::string> steps;
  for (const PlanStep& step : plan->steps) {
    steps.push_back(step.kernel);
    EXPECT_EQ(step.scratch_bytes, step.kernel == "matmul" ? 24u : 0u);
  }
  EXPECT_EQ(steps, (std::vector<std::string>{"matmul", "exp", "matmul", "cumsum"}));
}

}  // namespace
}  // namespace varve::compiler
