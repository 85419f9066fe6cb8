// `varve bench` from end to end, with small networks and a framework that is Varve in disguise.
#ifdef VARVE_CLI_PATH
#include <gtest/gtest.h>

#include "base/levers.h"
#include "bench/compare.h"
#include "bench/record.h"
#include "cli/command.h"
#include "fake_peer.h"

namespace varve::bench {
namespace {

using test::contains;
using test::FakePeer;
using test::Result;
using test::varve_command;

const std::string kSmall = " fcn-scaling-1x16 batch=8 threads=1 repeat=2 samples=2 seconds=0 ";

TEST(BenchCommand, StepOfVarveAlone) {
  const test::Folder folder;
  const Result result = varve_command(
      "bench step fnn-mnist batch=8 threads=1 repeat=2 samples=5 seconds=0"
      " frameworks=varve json=r.jsonl");
  ASSERT_EQ(result.code, 0) << result.out;
  EXPECT_TRUE(contains(result.out, "fnn-mnist b8 t1")) << result.out;
  const std::vector<Record> records = load_records("r.jsonl");
  ASSERT_EQ(records.size(), 1u);
  const Record& r = records[0];
  EXPECT_EQ(r.status, "ok") << r.reason;
  EXPECT_EQ(r.processes.size(), 2u);
  EXPECT_GE(r.samples().size(), 10u);
  EXPECT_EQ(r.parameters, 669706);
  EXPECT_GT(r.peak_bytes, 1 << 20);
  EXPECT_GT(r.flops, 0);
  EXPECT_FALSE(r.algorithms.empty());
  EXPECT_TRUE(contains(r.command, "bench step fnn-mnist")) << r.command;
}

TEST(BenchCommand, APeerStandsBeside) {
  const test::Folder folder;
  const FakePeer fake("honest");
  const Result result = varve_command("bench step" + kSmall + "frameworks=varve,torch,jax json=r.jsonl");
  ASSERT_EQ(result.code, 0) << result.out;
  const std::vector<Record> records = load_records("r.jsonl");
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[1].framework, "torch");
  EXPECT_EQ(records[1].version, "9.9");
  EXPECT_GT(records[1].ratio_to_varve, 0);
  EXPECT_EQ(records[2].status, "missing");
  EXPECT_TRUE(contains(result.out, "jax missing")) << result.out;
}

TEST(BenchCommand, AnotherNetworkIsNotCompared) {
  const test::Folder folder;
  for (const char* behaviour : {"wrong-loss", "wrong-count"}) {
    const FakePeer fake(behaviour);
    const Result verified = varve_command("bench verify fcn-scaling-1x16 threads=1 frameworks=torch");
    EXPECT_EQ(verified.code, 1) << verified.out;
    EXPECT_TRUE(contains(verified.out, "mismatch")) << verified.out;
    const Result compared = varve_command("bench step" + kSmall + "frameworks=varve,torch json=r.jsonl");
    EXPECT_EQ(compared.code, 1) << compared.out;
    const std::vector<Record> records = load_records("r.jsonl");
    EXPECT_EQ(records.back().status, "failed");
    EXPECT_TRUE(contains(records.back().reason, "not the same network")) << records.back().reason;
  }
}

TEST(BenchCommand, VerificationIsRemembered) {
  const test::Folder folder;
  const FakePeer fake("honest");
  const std::string step = "bench step" + kSmall + "frameworks=varve,torch";
  EXPECT_TRUE(contains(varve_command(step).out, "verify fcn-scaling-1x16: torch"));
  EXPECT_FALSE(contains(varve_command(step).out, "verify fcn-scaling-1x16: torch"));
}

TEST(BenchCommand, LeversAreLeftOutOneByOne) {
  const test::Folder folder;
  const Result result = varve_command("bench ablate" + kSmall + "json=r.jsonl");
  ASSERT_EQ(result.code, 0) << result.out;
  const std::vector<Record> records = load_records("r.jsonl");
  const auto here = std::count_if(levers().begin(), levers().end(), [](const Lever& l) { return !l.gpu_only; });
  ASSERT_EQ(records.size(), here + 1u);  // as it is, each lever of processors but bf16 left out, the least workspace
  EXPECT_EQ(records[0].details.at("without"), "");
  for (std::size_t i = 1; i < records.size(); ++i) EXPECT_GT(records[i].ratio_to_varve, 0) << result.out;
  const auto update = std::find_if(records.begin(), records.end(),
                                   [](const Record& r) { return r.details.at("without") == "update-in-gemm"; });
  ASSERT_NE(update, records.end());
  EXPECT_NE(update->algorithms, records[0].algorithms);  // another program than the whole
}

TEST(BenchCommand, PredictionsAndPartsHaveTables) {
  const Result infer = varve_command("bench infer" + kSmall + "frameworks=varve", test::Streams::out);
  EXPECT_EQ(infer.code, 0);
  EXPECT_TRUE(contains(infer.out, "p99")) << infer.out;
  const Result parts = varve_command("bench parts" + kSmall, test::Streams::out);
  EXPECT_EQ(parts.code, 0);
  EXPECT_TRUE(contains(parts.out, "data loading")) << parts.out;
}

TEST(BenchCommand, CompareFailsOnARegression) {
  const test::Folder folder;
  Record before;
  before.kind = "step", before.workload = "fcn5", before.framework = "varve", before.batch = 64, before.threads = 2;
  before.processes = {{10, 10, 10.1}}, before.modes = {"plain"};
  summarize(before);
  Record after = before;
  after.processes = {{13, 13, 13.1}};
  summarize(after);
  RecordFile("old.jsonl").add(before);
  RecordFile("new.jsonl").add(after);
  EXPECT_EQ(varve_command("bench compare old.jsonl old.jsonl").code, 0);
  EXPECT_EQ(varve_command("bench compare new.jsonl old.jsonl").code, 0);
  const Result worse = varve_command("bench compare old.jsonl new.jsonl");
  EXPECT_EQ(worse.code, 1);
  EXPECT_TRUE(contains(worse.out, "WORSE")) << worse.out;
  EXPECT_EQ(varve_command("bench compare old.jsonl new.jsonl tolerance=0.5").code, 0);
  EXPECT_EQ(varve_command("bench compare old.jsonl missing.jsonl").code, 1);
}

TEST(BenchCommand, BadWordsAreUsageErrors) {
  for (const char* words : {"step nosuch", "step fcn5 threads=0", "step fcn5 frameworks=tourch", "step precision=f8",
                            "explain", "train fcn5"})
    EXPECT_EQ(varve_command(std::string("bench ") + words).code, 2) << words;
}

}  // namespace
}  // namespace varve::bench
#endif
