// The profiler: rows with their origin, a table, a trace that other tools read.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ir/node.h"
#include "runtime/training.h"

namespace varve::runtime {
namespace {

TEST(Profiler, RowsCarryOriginAndCost) {
  Variable w("w", normal({64, 32}, {.seed = 1}).eval());
  auto step = compile([&](const Tensor& x) {
    return value_and_grad(
               [&] {
                 const ir::OriginScope scope({"net/fc1", ""});
                 return sum(softmax(matmul(x, w)));
               },
               {w})
        .second[0];
  });
  const Profile profile = step.profile(3, ones({16, 64}));
  ASSERT_FALSE(profile.rows.empty());
  bool forward = false, backward = false;
  double total = 0;
  for (const ProfileRow& row : profile.rows) {
    EXPECT_EQ(row.calls, 3);
    EXPECT_GE(row.ms, 0);
    total += row.ms;
    forward = forward || row.origin == "net/fc1";
    backward = backward || contains(row.origin, "net/fc1 gradient of");
    if (contains(row.op, "matmul")) {
      EXPECT_EQ(row.flops, 2.0 * 16 * 64 * 32) << row.op;
    }
  }
  EXPECT_TRUE(forward) << profile.table();
  EXPECT_TRUE(backward) << profile.table();
  EXPECT_NEAR(profile.total_ms, total, 1e-9);
  EXPECT_TRUE(contains(profile.table(), "total"));
  EXPECT_TRUE(contains(profile.table(), "net/fc1"));
  EXPECT_THROW(step.profile(0, ones({16, 64})), Error);
}

TEST(Profiler, TheTraceIsJson) {
  const ir::OriginScope scope({"quote \" back \\ line \n tab \t", ""});
  auto f = compile([](const Tensor& x) { return sum(matmul(x, x)); });
  const auto json = nlohmann::json::parse(f.profile(2, ones({8, 8})).chrome_trace());
  ASSERT_TRUE(json["traceEvents"].is_array());
  ASSERT_FALSE(json["traceEvents"].empty());
  double end = 0;
  for (const auto& event : json["traceEvents"]) {
    EXPECT_EQ(event["ph"], "X");
    EXPECT_GE(event["ts"].get<double>(), end - 1e-2);
    end = event["ts"].get<double>() + event["dur"].get<double>();
    EXPECT_TRUE(event["args"]["shape"].is_string());
  }
}

TEST(Profiler, StateMovesAsInAnyOtherCall) {
  Variable v("v", zeros({}));
  auto f = compile([&] { v.assign(v + 1); });
  f.profile(3);
  EXPECT_EQ(v.value().item<float>(), 4.f);  // one to warm up
}

TEST(Profiler, TextGraphvizAndPeak) {
  auto f = compile([](const Tensor& x) { return softmax(x); });
  EXPECT_TRUE(contains(f.text(ones({2, 3})), "return %"));
  EXPECT_TRUE(contains(f.graphviz(ones({2, 3})), "digraph"));
  EXPECT_GE(f.peak_bytes(ones({2, 3})), 2 * 6 * 4);
  EXPECT_EQ(f.programs(), 1u);
}

}  // namespace
}  // namespace varve::runtime
