// Records survive the way to a file and back; wrong ones are refused with the field's name.
#include "bench/record.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "temporary_folder.h"
#include "varve/error.h"

namespace varve::bench {
namespace {

Record example(const std::string& framework = "varve") {
  Record r;
  r.kind = "step", r.workload = "fcn5", r.framework = framework, r.mode = "plain";
  r.batch = 64, r.threads = 2;
  r.processes = {{10, 11, 12}, {8, 9, 10}};
  r.modes = {"plain", "xla"};
  r.peak_bytes = 123456789, r.utilisation = 0.93, r.parameters = 117997696, r.flops = 3.8e10;
  r.ratio_to_varve = 1.5, r.ratio_interval = {1.4, 1.6};
  r.details["first_ms"] = 30.5;
  r.command = "varve bench step fcn5", r.commit = "abc", r.version = "0.1.0", r.time = "2026-11-15T00:00:00Z";
  r.flags["plain"] = {{"channels_last", true}};
  r.machine = {{"cpu", "a processor"}};
  r.algorithms = {{"matmul", 3}};
  r.load = {0.5, 0.4, 0.3};
  r.seeds = {7};
  summarize(r);
  return r;
}

TEST(Records, VarveIsJudgedByAllProcessesAPeerByItsBest) {
  EXPECT_EQ(example().ms_median, 10);
  EXPECT_EQ(example("torch").ms_median, 9);
  EXPECT_EQ(example("torch").samples().size(), 6u);
  Record training = example("torch");
  training.kind = "train";
  summarize(training);
  EXPECT_EQ(training.ms_median, 9);
  training.processes = {{40}, {30}, {32}}, training.modes = {"plain", "xla", "xla"};
  summarize(training);
  EXPECT_EQ(training.ms_median, 31);
}

TEST(Records, RoundTrip) {
  const test::WorkingFolder folder;
  for (const char* framework : {"varve", "torch"}) {
    RecordFile("r.jsonl").add(example(framework));
  }
  const std::vector<Record> read = load_records("r.jsonl");
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(to_json(read[0]), to_json(example("varve")));
  EXPECT_EQ(to_json(read[1]), to_json(example("torch")));
}

TEST(Records, OlderOnesTellByTheirCommandWhetherTheyWereChecked) {
  nlohmann::json json = nlohmann::json::parse(to_json(example()).dump());
  EXPECT_TRUE(record_from_json(json).verified);
  json["verified"] = false;
  EXPECT_FALSE(record_from_json(json).verified);
  json["verified"] = "yes";
  EXPECT_THROW(record_from_json(json), Error);
  json.erase("verified");
  EXPECT_TRUE(record_from_json(json).verified);
  json["command"] = "varve bench step fcn5 --unverified";
  EXPECT_FALSE(record_from_json(json).verified);
}

TEST(Records, RowsWithoutFiguresStay) {
  Record r = example("torch");
  r.processes.clear(), r.modes.clear(), r.ms_median = 0, r.ms_quartiles = {};
  r.status = "missing", r.reason = "not installed";
  const Record again = record_from_json(nlohmann::json::parse(to_json(r).dump()));
  EXPECT_EQ(again.status, "missing");
  EXPECT_TRUE(to_json(r)["ms_median"].is_null());
  EXPECT_EQ(to_json(again), to_json(r));
}

// Field, wrong value, what the message must name.
struct Lie {
  const char* field;
  nlohmann::json value;
  const char* named;
};

TEST(Records, LiesAreRefused) {
  using nlohmann::json;
  const Lie lies[] = {{"schema", 2, "schema"},
                      {"schema", nullptr, "schema"},
                      {"kind", "steps", "kind"},
                      {"status", "fine", "status"},
                      {"workload", nullptr, "workload"},
                      {"framework", 3, "framework"},
                      {"batch", -1, "batch"},
                      {"batch", 1.5, "batch"},
                      {"batch", 18446744073709551615u, "batch"},
                      {"threads", "two", "threads"},
                      {"ms_median", 5, "ms_median"},
                      {"ms_median", -1, "ms_median"},
                      {"ms_median", "fast", "ms_median"},
                      {"ms_median", nullptr, "ms_median"},
                      {"ms_quartiles", {1, 2}, "ms_quartiles"},
                      {"ms_quartiles", {9, 2}, "ms_quartiles"},
                      {"ms_quartiles", {1}, "ms_quartiles"},
                      {"samples_ms", {1, 2, 3}, "samples_ms"},
                      {"processes", {1, 2}, "processes"},
                      {"processes", {{1, "x"}}, "processes"},
                      {"processes", "none", "processes"},
                      {"process_modes", {"plain"}, "process_modes"},
                      {"process_modes", {1, 2}, "process_modes"},
                      {"ratio_interval", {2, 1}, "ratio_interval"},
                      {"peak_bytes", -5, "peak_bytes"},
                      {"details", {1}, "details"},
                      {"machine", "big", "machine"},
                      {"machine", {{"cpu", 4}}, "machine.cpu"}};
  for (const Lie& lie : lies) {
    json told = json::parse(to_json(example()).dump());
    told[lie.field] = lie.value;
    try {
      record_from_json(told);
      ADD_FAILURE() << lie.field << " = " << lie.value << " was believed";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(lie.named), std::string::npos) << e.what();
    }
  }
  EXPECT_THROW(record_from_json(json::array()), Error);
}

TEST(Records, WhatIsNotCompleteGivesWayToWhatComesNext) {
  const test::WorkingFolder folder;
  const auto names = [] {
    std::string all;
    for (const Record& record : load_records("r.jsonl")) all += record.framework + " ";
    return all;
  };
  RecordFile file("r.jsonl");
  file.add(example("first"));
  file.add_so_far({example("a"), example("b")});
  EXPECT_EQ(names(), "first a b ");
  file.add_so_far({example("c")});
  EXPECT_EQ(names(), "first c ");
  file.add(example("last"));
  file.add(example("more"));
  EXPECT_EQ(names(), "first last more ");
  file.add_so_far({example("d")});
  RecordFile("r.jsonl").add(example("another's"));
  file.add(example("e"));
  EXPECT_EQ(names(), "first last more d another's e ");  // what another program has added is not lost
  file.add_so_far({example("f")});
  std::filesystem::remove("r.jsonl");
  file.add(example("g"));
  EXPECT_EQ(names(), "g ");
  RecordFile("").add_so_far({example("nowhere")});
}

TEST(Records, ADamagedFileIsNamedWithItsLine) {
  const test::WorkingFolder folder;
  RecordFile("r.jsonl").add(example());
  std::ofstream("r.jsonl", std::ios::app) << "\n{\"schema\": 1, \"kind\": \"st";
  try {
    load_records("r.jsonl");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("r.jsonl, line 3"), std::string::npos) << e.what();
  }
  EXPECT_THROW(RecordFile("no/such/folder/r.jsonl"), Error);
}

}  // namespace
}  // namespace varve::bench
