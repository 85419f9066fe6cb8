// Generated groups: texts compile for every kind of GPU, and equal groups make equal texts.
#include <gtest/gtest.h>

#include "backends/cuda/claims.h"
#include "backends/cuda/context.h"
#include "backends/cuda/function.h"
#include "backends/cuda/groups.h"
#include "backends/cuda/groups_plan.h"
#include "backends/cuda/groups_text.h"

namespace varve::cuda {
namespace {

using backend::Port;
using backend::Reduce;

Port port(DType dtype, const Shape& shape) { return {{dtype, shape}, contiguous(shape), nullptr}; }

GroupPart part(const Shape& space, std::vector<Port> in, std::vector<Port> out, const std::vector<Expr>& formulas) {
  GroupPart part;
  part.group.shape = space;
  part.group.code = expr::flatten(static_cast<int>(in.size()), formulas);
  part.group.reduce.assign(out.size(), Reduce::none);
  part.group.reduced_axes.assign(static_cast<std::size_t>(space.rank()), false);
  part.in = std::move(in);
  part.out = std::move(out);
  return part;
}

Expr x(int i) { return Expr::input(i); }

std::string text_of(const GroupPart& part, bool vectors = true) {
  const std::vector<GroupPlan> plans = plan_group(part, vectors);
  EXPECT_EQ(plans.size(), 1u);
  return groups_kernel({group_text(plans[0])}, {1}, shared_bytes(plans[0]));
}

void expect_compiles(const GroupPart& part) {
  for (const bool vectors : {true, false})
    for (const char* arch : {"sm_80", "sm_90"})
      EXPECT_FALSE(compile(prelude() + text_of(part, vectors), arch).empty()) << arch;
}

std::vector<GroupPart> samples() {
  const Shape rows{64, 1000}, image{8, 16, 6, 6};
  std::vector<GroupPart> parts;
  parts.push_back(part(rows, {port(f32, rows), port(f32, {1000})}, {port(f32, rows)}, {max(x(0) + x(1), 0.0)}));
  parts.push_back(part(rows, {port(bf16, rows), port(f32, Shape{64, 1})}, {port(bf16, rows), port(boolean, rows)},
                       {exp(x(0)) * x(1), x(0) < x(1)}));
  parts.push_back(part({7, 5}, {port(f32, {7, 5}), port(f16, {5}), port(f32, Shape{})}, {port(f64, {7, 5})},
                       {tanh(x(0)) * erf(x(1)) + pow(x(0), x(2))}));
  GroupPart sums = part(rows, {port(bf16, rows)}, {port(bf16, rows), port(f32, {64}), port(f32, {64})},
                        {x(0) * 2, x(0), x(0) * x(0)});
  sums.group.reduce = {Reduce::none, Reduce::max, Reduce::sum};
  sums.group.reduced_axes = {false, true};
  parts.push_back(sums);
  sums.group.reduced_axes = {true, false};
  sums.out[1] = sums.out[2] = port(f32, {1000});
  parts.push_back(sums);
  GroupPart channels = part(image, {port(f32, image)}, {port(f32, {16})}, {x(0)});
  channels.group.reduce = {Reduce::sum};
  channels.group.reduced_axes = {true, false, true, true};
  parts.push_back(channels);
  GroupPart whole = part(rows, {port(i32, rows), port(u8, rows)}, {port(i64, Shape{})}, {mod(x(0), x(1))});
  whole.group.reduce = {Reduce::sum};
  whole.group.reduced_axes = {true, true};
  whole.group.compute = i64;
  parts.push_back(whole);
  return parts;
}

TEST(GroupTexts, Compile) {
  for (const GroupPart& sample : samples()) expect_compiles(sample);
}

TEST(GroupTexts, SeveralGroupsShareAKernel) {
  std::vector<std::string> texts;
  std::vector<int> counts;
  for (const GroupPart& sample : samples()) {
    texts.push_back(group_text(plan_group(sample, true)[0]));
    counts.push_back(3);
  }
  EXPECT_FALSE(compile(prelude() + groups_kernel(texts, counts, 1 << 14), "sm_90").empty());
}

TEST(GroupTexts, SizesAreArguments) {
  const auto scaled = [](std::int64_t n) {
    return text_of(part({n, 4096}, {port(f32, {n, 4096})}, {port(f32, {n, 4096})}, {x(0) * 3}));
  };
  EXPECT_EQ(scaled(600), scaled(700));
}

}  // namespace
}  // namespace varve::cuda
