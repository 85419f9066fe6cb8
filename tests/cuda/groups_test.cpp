// Generated groups: texts compile for every kind of GPU, and groups that differ in sizes alone share a text.
#include <gtest/gtest.h>

#include "backends/cuda/groups/groups_plan.h"
#include "backends/cuda/groups/groups_text.h"
#include "cuda/compiles.h"
#include "cuda/group_parts.h"

namespace varve::cuda {
namespace {

using backend::Reduce;

KernelText text_of(const GroupPart& part, bool vectors = true) {
  const std::vector<GroupPlan> plans = plan_group(part, vectors);
  EXPECT_EQ(plans.size(), 1u);
  return groups_kernel({group_text(plans[0])}, {1}, shared_bytes(plans[0]));
}

std::vector<GroupPart> samples() {
  const Shape rows{64, 1000}, image{8, 16, 6, 6};
  std::vector<GroupPart> parts;
  parts.push_back(part(rows, {port(f32, rows), port(f32, {1000})}, {port(f32, rows)}, {max(x(0) + x(1), 0.0)}));
  parts.push_back(part(rows, {port(bf16, rows), port(f32, Shape{64, 1})}, {port(bf16, rows), port(boolean, rows)},
                       {expr::exp(x(0)) * x(1), x(0) < x(1)}));
  parts.push_back(part({7, 5}, {port(f32, {7, 5}), port(f16, {5}), port(f32, Shape{})}, {port(f64, {7, 5})},
                       {expr::tanh(x(0)) * expr::erf(x(1)) + expr::pow(x(0), x(2))}));
  parts.push_back(part(rows, {port(bf16, rows)}, {port(bf16, rows), port(f32, {64}), port(f32, {64})},
                       {x(0) * 2, x(0), x(0) * x(0)}, {Reduce::none, Reduce::max, Reduce::sum}, {1}));
  parts.push_back(part(rows, {port(bf16, rows)}, {port(bf16, rows), port(f32, {1000}), port(f32, {1000})},
                       {x(0) * 2, x(0), x(0) * x(0)}, {Reduce::none, Reduce::max, Reduce::sum}, {0}));
  parts.push_back(part(image, {port(f32, image)}, {port(f32, {16})}, {x(0)}, {Reduce::sum}, {0, 2, 3}));
  parts.push_back(
      part(rows, {port(i32, rows), port(u8, rows)}, {port(i64, Shape{})}, {mod(x(0), x(1))}, {Reduce::sum}, {0, 1}));
  parts.back().group.compute = i64;
  return parts;
}

TEST(GroupTexts, Compile) {
  for (const GroupPart& sample : samples())
    for (const bool vectors : {true, false}) expect_text_compiles(text_of(sample, vectors));
}

TEST(GroupTexts, SeveralGroupsShareAKernel) {
  std::vector<std::string> texts;
  std::vector<int> counts;
  for (const GroupPart& sample : samples()) {
    texts.push_back(group_text(plan_group(sample, true)[0]));
    counts.push_back(20);  // their arguments need more than the 4 KiB of older GPUs
  }
  expect_text_compiles(groups_kernel(texts, counts, 1 << 14), "sm_90");
}

TEST(GroupTexts, SizesAreArguments) {
  const auto scaled = [](std::int64_t n) {
    return text_of(part({n, 4096}, {port(f32, {n, 4096})}, {port(f32, {n, 4096})}, {x(0) * 3}));
  };
  EXPECT_EQ(scaled(600), scaled(700));
}

TEST(GroupTexts, IntegersRefuseWhatHasNoMeaningInThem) {
  EXPECT_EQ(formula_refusal(expr::flatten(1, {expr::exp(x(0))}), i64), "no exp in integers");
  EXPECT_EQ(formula_refusal(expr::flatten(1, {x(0) * 0.5}), i64), "the constant 0.5 is not an integer");
  EXPECT_EQ(formula_refusal(expr::flatten(1, {expr::exp(x(0)) * 0.5}), f32), "");
}

}  // namespace
}  // namespace varve::cuda
