// Studies: what is measured, what is left after a stop, and the tables in their own layout.
#include "bench/study.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "bench/report/made_up.h"
#include "text_checks.h"
#include "varve/error.h"

namespace varve::bench {
namespace {

using test::contains;

std::vector<std::string> settings(const std::vector<StudyCell>& cells) {
  std::vector<std::string> list;
  for (const StudyCell& cell : cells) list.push_back(cell.kind + " " + cell.setting.str());
  return list;
}

TEST(Study, SweepsThreadsAsFarAsThereAreCores) {
  const StudyPlan plan = study_plan(find_study("shatnawi2018"), {.workloads = {"cnn-mnist"}, .cores = 6});
  EXPECT_EQ(settings(plan.cells), (std::vector<std::string>{"train cnn-mnist · batch 128 · 1 thread · f32",
                                                            "train cnn-mnist · batch 128 · 2 threads · f32",
                                                            "train cnn-mnist · batch 128 · 4 threads · f32"}));
}

TEST(Study, SweepsBatchSizesOnceEach) {
  const StudyPlan plan = study_plan(find_study("shi2016"), {.workloads = {"alexnet"}, .cores = 2});
  EXPECT_EQ(settings(plan.cells),
            (std::vector<std::string>{
                "step alexnet · batch 16 · 1 thread · f32", "step alexnet · batch 16 · 2 threads · f32",
                "step alexnet · batch 32 · 2 threads · f32", "step alexnet · batch 64 · 2 threads · f32"}));
  EXPECT_EQ(study_plan(find_study("shi2016"), {.cores = 2}).cells.size(), 6u * 2 + 3 + 3 + 2 + 3 + 2 + 2);
}

TEST(Study, TenRunsOfTheSecond) {
  const StudyPlan plan = study_plan(find_study("kabakus2020"), {.cores = 2});
  EXPECT_EQ(plan.cells.size(), 3u);
  EXPECT_EQ(plan.rounds, 10);
  EXPECT_EQ(study_plan(find_study("kabakus2020"), {.runs = 2}).rounds, 2);
}

TEST(Study, UnknownNamesAreRefused) {
  EXPECT_THROW(find_study("shi2017"), Error);
  EXPECT_THROW(study_plan(find_study("shi2016"), {.workloads = {"fnn-mnist"}}), Error);
}

TEST(Study, GoesOnWhereItWasStopped) {
  const StudyPlan plan =
      study_plan(find_study("shi2016"), {.workloads = {"alexnet"}, .frameworks = {"varve", "torch"}, .cores = 2});
  std::vector<Record> records;
  const auto add = [&](const std::string& framework, int threads, const std::string& status) {
    Record r = plain_record();
    r.workload = "alexnet", r.batch = 16, r.framework = framework, r.threads = threads, r.status = status;
    records.push_back(r);
  };
  const std::string machine = machine_name(plain_record());
  add("varve", 1, "ok"), add("torch", 1, "out_of_memory");
  EXPECT_EQ(still_to_measure(plan, records, machine).size(), plan.cells.size() - 1);
  add("varve", 2, "ok"), add("torch", 2, "failed");  // a failure is tried again
  EXPECT_EQ(still_to_measure(plan, records, machine).size(), plan.cells.size() - 1);
  EXPECT_EQ(still_to_measure(plan, records, "another machine").size(), plan.cells.size());
}

TEST(Study, MoreRunsOrOtherEpochsAreMeasuredAnew) {
  const auto left = [](const StudyChoices& choices) {
    return still_to_measure(study_plan(find_study("kabakus2020"), choices), made_up_records(),
                            machine_name(plain_record()))
        .size();
  };
  // Two runs of twenty epochs each are there.
  const StudyChoices done = {.workloads = {"fnn-mnist"}, .frameworks = {"varve", "torch"}, .runs = 2, .cores = 2};
  EXPECT_EQ(left(done), 0u);
  StudyChoices more = done, shorter = done;
  more.runs = 3, shorter.epochs = 5;
  EXPECT_EQ(left(more), 1u);
  EXPECT_EQ(left(shorter), 1u);
}

TEST(Study, TablesHoldTheirFiguresMarkedAndOurs) {
  const Facts facts(made_up_records());
  const std::string a = table_text(shatnawi_tables(facts).at(0)), b = table_text(kabakus_tables(facts).at(0)),
                    d = table_text(shi_tables(facts).at(0));
  for (const char* part : {"847†", "5,130†", "377.86", "GPU over best CPU", "8.40×†"})
    EXPECT_TRUE(contains(a, part == std::string("377.86") ? "378†" : part)) << part << '\n' << a;
  for (const char* part : {"97.24†", "3.8 × Keras†", "98.15 (±0.07)", "not measured"})
    EXPECT_TRUE(contains(b, part)) << part << '\n' << b;
  for (const char* part : {"cannot be installed today", "Caffe 2016†", "resnet50", "1 thread"})
    EXPECT_TRUE(contains(d, part)) << part << '\n' << d;
  EXPECT_TRUE(contains(table_text(shi_tables(facts).at(1)), "out of memory"));
}

TEST(Study, ToolsThatAreGoneSaySo) {
  const std::vector<std::string> gone = {"CNTK", "Theano", "Caffe", "Torch7"};
  for (const Study& study : studies())
    for (const Tool& tool : study.tools) {
      const bool expected = std::find(gone.begin(), gone.end(), tool.name) != gone.end();
      EXPECT_EQ(tool.today.starts_with("cannot be installed"), expected) << tool.name;
    }
}

}  // namespace
}  // namespace varve::bench
