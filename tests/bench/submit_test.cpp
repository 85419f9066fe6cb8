// A file that joins the published results is whole, and one that is not is told why, row by row.
#include "bench/submit.h"

#include <gtest/gtest.h>

#include "cli/command.h"
#include "varve/io.h"

namespace varve::bench {
namespace {

Record whole_record(const std::string& framework) {
  Record r;
  r.kind = "step", r.workload = "fcn5", r.framework = framework, r.batch = 64, r.threads = 2;
  r.processes = {{10, 10.1, 9.9, 10}, {10, 10.1, 9.9, 10}, {10, 10.2, 9.9, 10}}, r.modes = {"plain", "plain", "plain"};
  r.command = "varve bench step fcn5", r.commit = "c7e7042e0c25", r.version = "1.0", r.time = "2026-11-16T00:00:00Z";
  r.machine = {{"cpu", "AMD EPYC"}, {"isa", "AVX-512"}, {"cores", 2}, {"memory_bytes", 8000000000}, {"os", "Debian"}};
  summarize(r);
  return r;
}
std::string lines_of(const std::vector<Record>& records) {
  std::string text;
  for (const Record& record : records) text += to_json(record).dump() + "\n";
  return text;
}
// The only reason why Varve's good record and this one are refused.
std::string refusal(const Record& second) {
  const Submission found = check_submission(lines_of({whole_record("varve"), second}));
  return found.refusals.size() == 1 ? found.refusals[0] : std::to_string(found.refusals.size()) + " refusals";
}
bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Submit, AWholeFileIsTaken) {
  const Submission found = check_submission(lines_of({whole_record("varve"), whole_record("torch")}));
  EXPECT_EQ(found.refusals, std::vector<std::string>{});
  EXPECT_EQ(found.remarks, std::vector<std::string>{});
  EXPECT_EQ(found.file, "step-amd-epyc-2-cores.jsonl");
  EXPECT_EQ(found.records.size(), 2u);
}

TEST(Submit, EachLackIsNamed) {
  Record r = whole_record("torch");
  r.verified = false;
  EXPECT_TRUE(says(refusal(r), "line 2, step fcn5 torch: measured without the equity check")) << refusal(r);
  r = whole_record("torch"), r.command = "varve bench step fcn5 --unverified";  // records of before the field
  EXPECT_TRUE(says(refusal(r), "equity check")) << refusal(r);
  r = whole_record("torch"), r.processes.pop_back(), r.modes.pop_back(),
  r.processes[0] = r.processes[1] = {10, 10, 10, 10, 10};
  summarize(r);
  EXPECT_TRUE(says(refusal(r), "expected at least 3 processes, got 2")) << refusal(r);
  r = whole_record("torch"), r.processes = {{10, 10}, {10, 10}, {10}};
  summarize(r);
  EXPECT_TRUE(says(refusal(r), "expected at least 10 samples, got 5")) << refusal(r);
  r = whole_record("torch"), r.version = "";
  EXPECT_TRUE(says(refusal(r), "version")) << refusal(r);
  r = whole_record("torch"), r.machine.erase("isa");
  EXPECT_TRUE(says(refusal(r), "machine.isa is missing")) << refusal(r);
  r = whole_record("torch"), r.commit = "20d1941";
  EXPECT_TRUE(says(refusal(r), "line 2: expected one commit in a file, got c7e7042e0c25 in line 1")) << refusal(r);
  r = whole_record("torch"), r.machine["cpu"] = "Another";
  EXPECT_TRUE(says(refusal(r), "expected one machine")) << refusal(r);
  r = whole_record("torch"), r.batch = 65;
  EXPECT_TRUE(says(refusal(r), "no record of varve at the same setting")) << refusal(r);
  r = whole_record("torch"), r.status = "failed", r.processes.clear(), r.modes.clear(), r.ms_median = 0,
  r.ms_quartiles = {};
  EXPECT_TRUE(says(refusal(r), "gives no reason")) << refusal(r);
  r.reason = "no such operator";
  EXPECT_EQ(refusal(r), "0 refusals");
}

TEST(Submit, ChangedSourcesAndAGpuWithoutFactsAreRefused) {
  Record varve = whole_record("varve"), torch = whole_record("torch");
  varve.commit = torch.commit = "c7e7042e0c25+";
  EXPECT_EQ(check_submission(lines_of({varve, torch})).refusals.size(), 2u);
  varve = whole_record("varve"), torch = whole_record("torch");
  varve.device = torch.device = "cuda";
  torch.gpu = varve.gpu = {{"name", "NVIDIA H200"}, {"driver", "580"}, {"cuda", "13.0"}, {"memory_bytes", 1}};
  EXPECT_EQ(check_submission(lines_of({varve, torch})).refusals.size(), 0u);
  torch.gpu.erase("driver");
  EXPECT_EQ(check_submission(lines_of({varve, torch})).refusals.size(), 1u);
}

TEST(Submit, WhatIsNoRecordIsRefusedByItsLine) {
  const Submission found = check_submission(lines_of({whole_record("varve")}) + "\n{\"schema\": 1}\nnonsense\n");
  ASSERT_EQ(found.refusals.size(), 2u);
  EXPECT_TRUE(found.refusals[0].starts_with("line 3: ")) << found.refusals[0];
  EXPECT_TRUE(found.refusals[1].starts_with("line 4: ")) << found.refusals[1];
  EXPECT_EQ(check_submission("\n").refusals, std::vector<std::string>{"no records"});
}

TEST(Submit, RemarksDoNotRefuse) {
  Record busy = whole_record("varve");
  busy.load = {7, 1, 1};
  const Submission found = check_submission(lines_of({busy}));
  EXPECT_TRUE(found.refusals.empty());
  EXPECT_EQ(found.remarks.size(), 2u);  // other work, nobody beside it
}

#ifdef VARVE_CLI_PATH
TEST(Submit, TheCommandSaysWhatToDo) {
  const test::Folder folder;
  save_text("good.jsonl", lines_of({whole_record("varve"), whole_record("torch")}));
  const test::Result taken = test::varve_command("bench submit good.jsonl");
  EXPECT_EQ(taken.code, 0) << taken.out;
  EXPECT_TRUE(says(taken.out, "cp good.jsonl bench/results/step-amd-epyc-2-cores.jsonl")) << taken.out;
  Record bad = whole_record("torch");
  bad.verified = false;
  save_text("bad.jsonl", lines_of({whole_record("varve"), bad}));
  const test::Result refused = test::varve_command("bench submit good.jsonl bad.jsonl");
  EXPECT_EQ(refused.code, 1) << refused.out;
  EXPECT_TRUE(says(refused.out, "bad.jsonl: refused")) << refused.out;
  EXPECT_FALSE(says(refused.out, "git switch")) << refused.out;
}
#endif

}  // namespace
}  // namespace varve::bench
