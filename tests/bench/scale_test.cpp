// Several ranks, measured: the sweep from end to end, and what is made of the answers.
#include "bench/scale.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/cpu.h"
#include "bench/hosts.h"
#include "bench/report/sections.h"
#include "bench/together.h"
#include "cli/command.h"
#include "fake_peer.h"

namespace varve::bench {
namespace {

using test::contains;

Record timed(const std::string& framework, int ranks, bool connected, std::int64_t batch, double ms) {
  Record r;
  r.kind = "scale", r.workload = "fcn5", r.framework = framework, r.threads = 1;
  r.ranks = ranks, r.batch = batch;
  r.details["connected"] = connected;
  r.processes = {{ms, ms}}, r.modes = {"plain"};
  summarize(r);
  return r;
}

TEST(Scale, EfficiencyIsOfTheSameRanksApart) {
  std::vector<Record> records = {timed("varve", 1, true, 64, 100), timed("varve", 2, false, 128, 120),
                                 timed("varve", 2, true, 128, 150), timed("torch", 2, true, 128, 300)};
  fill_scaling(records);
  const Scaling here(records[2]);
  EXPECT_DOUBLE_EQ(here.efficiency, 0.8);
  EXPECT_DOUBLE_EQ(here.samples_per_second, 128 / 0.150);
  EXPECT_DOUBLE_EQ(here.speed_up, 2 * 100 / 150.0);
  EXPECT_EQ(Scaling(records[1]).efficiency, 0);
  EXPECT_DOUBLE_EQ(records[3].ratio_to_varve, 2);
  EXPECT_EQ(Scaling(records[3]).efficiency, 0) << "PyTorch's ranks apart were not measured";
}

TEST(Scale, TheReportHasALineForEachRecord) {
  std::vector<Record> records = {timed("varve", 1, true, 64, 100), timed("varve", 2, false, 128, 120),
                                 timed("varve", 2, true, 128, 150), timed("varve", 4, true, 256, 160)};
  records[2].details["wire"] = {
      {"engine", "gloo"}, {"busy_ms", 40.0}, {"waited_ms", 10.0}, {"bytes", 472e6}, {"messages", 9.0}};
  fill_scaling(records);
  const Section section = rank_section(Facts(records));
  ASSERT_EQ(section.blocks.size(), 2u) << "a chart of three numbers of ranks, and the table";
  const std::string text = section_markdown(section);
  for (const char* part : {"2 × 1 apart", "80%", "75%", "472", "1.33×"})
    EXPECT_TRUE(contains(text, part)) << part << text;
  EXPECT_TRUE(rank_section(Facts({})).blocks.empty());
}

TEST(Scale, ConnectedAndApartAreDifferentSettings) {
  EXPECT_NE(timed("varve", 2, true, 128, 1).key(), timed("varve", 2, false, 128, 1).key());
}

nlohmann::json said(const std::vector<double>& samples, double busy, std::int64_t peak) {
  return {{"schema", 1},
          {"status", "ok"},
          {"samples_ms", samples},
          {"peak_bytes", peak},
          {"cpu_seconds", 1.},
          {"wall_seconds", 2.0},
          {"losses", {1.0, 0.5}},
          {"wire", {{"engine", "gloo"}, {"busy_ms", busy}, {"waited_ms", 1.0}, {"bytes", 8.0}, {"messages", 2.0}}}};
}

TEST(Scale, TheSlowestRankCounts) {
  const std::vector<nlohmann::json> answers = {said({1, 4}, 2, 10), said({3, 2}, 4, 30)};
  const nlohmann::json ranks = merged(answers, true), apart = merged(answers, false);
  EXPECT_EQ(ranks["samples_ms"], (std::vector<double>{3, 4}));
  EXPECT_EQ(apart["samples_ms"], (std::vector<double>{1, 4, 3, 2}));
  EXPECT_EQ(ranks["peak_bytes"], 30);
  EXPECT_EQ(ranks["wire"]["busy_ms"], 3);
  EXPECT_EQ(ranks["cpu_seconds"], 1);
}

TEST(Scale, OneThatFailsFailsForAll) {
  std::vector<nlohmann::json> answers = {said({1}, 1, 1), said({1}, 1, 1)};
  answers[1] = {{"schema", 1}, {"status", "failed"}, {"reason", "no memory left"}};
  EXPECT_EQ(merged(answers, true)["reason"], "no memory left");
  answers = {said({1}, 1, 1), said({1}, 1, 1)};
  answers[1]["losses"] = {1.0, 0.25};
  EXPECT_TRUE(contains(merged(answers, true)["reason"], "do not agree"));
}

TEST(Scale, PlansAreChecked) {
  EXPECT_EQ(make_scale_plan({.ranks = "1,4"}).ranks, (std::vector<int>{1, 4}));
  EXPECT_THROW(make_scale_plan({.ranks = "0"}), Error);
  EXPECT_THROW(make_scale_plan({.compress = "zip"}), Error);
  EXPECT_THROW(make_scale_plan({.wire = "200mbit"}), Error);
}

#ifdef VARVE_CLI_PATH

const std::string kSmall = "bench scale fcn-scaling-1x16 batch=8 threads=1 repeat=1 samples=10 seconds=0 json=r.jsonl ";

TEST(ScaleCommand, RanksStandBesideRanksApart) {
  if (physical_cores() < 2) GTEST_SKIP() << "two ranks need two processors";
  const test::Folder folder;
  const test::Result result = test::varve_command(kSmall + "frameworks=varve ranks=1,2 weak=true");
  ASSERT_EQ(result.code, 0) << result.out;
  const std::vector<Record> records = load_records("r.jsonl");
  ASSERT_EQ(records.size(), 3u) << result.out;
  const Record& connected = records[2];
  ASSERT_EQ(connected.status, "ok") << connected.reason;
  EXPECT_EQ(connected.ranks, 2);
  EXPECT_EQ(connected.batch, 16);
  EXPECT_GE(connected.samples().size(), 10u);
  const Scaling s(connected);
  EXPECT_EQ(s.engine, "gloo");
  EXPECT_GT(s.efficiency, 0);
  EXPECT_GT(s.busy_ms, 0);
  // Each rank sends its part of the gradients to the other, and gets that one's.
  EXPECT_GE(s.bytes, 4.0 * static_cast<double>(connected.parameters));
  EXPECT_LE(s.bytes, 4.0 * static_cast<double>(connected.parameters) + 4096);
  EXPECT_FALSE(Scaling(records[1]).has_wire);
}

// Strong scaling; and the ranks' losses are compared with one rank's.
TEST(ScaleCommand, OtherLossesOfRanksAreRefused) {
  if (physical_cores() < 2) GTEST_SKIP() << "two ranks need two processors";
  const test::Folder folder;
  const test::FakePeer fake("wrong-loss");
  const test::Result result = test::varve_command(kSmall + "frameworks=varve,torch ranks=2");
  EXPECT_EQ(result.code, 1) << result.out;
  const std::vector<Record> records = load_records("r.jsonl");
  EXPECT_EQ(records[2].batch, 8);
  EXPECT_EQ(records[2].status, "ok") << records[2].reason;
  EXPECT_TRUE(contains(records.back().reason, "not the same network")) << records.back().reason;
}

TEST(ScaleCommand, TooManyRanksAreARow) {
  const test::Folder folder;
  const test::Result result = test::varve_command(kSmall + "frameworks=varve ranks=512 weak=true unverified=true");
  EXPECT_EQ(result.code, 1) << result.out;
  EXPECT_TRUE(contains(load_records("r.jsonl").back().reason, "need 512 processors"));
}

#endif

}  // namespace
}  // namespace varve::bench
