// The seven principles, each with the files that enforce it and what the records at hand say.
#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "bench/report/qualities.h"
#include "bench/report/runs.h"
#include "bench/submit.h"
#include "bench/workloads.h"

namespace varve::bench {
namespace {

std::size_t count(const Facts& facts, const std::string& kind) {
  return facts.where([&](const Record& r) { return r.kind == kind && r.ok(); }).size();
}

Evidence relevance(const Facts& facts) {
  std::set<std::string> measured;
  for (const Record& r : facts.all())
    if (r.ok() && workload_place(r.workload) < workload_names().size()) measured.insert(r.workload);
  if (measured.empty()) return {};
  return {Holds::yes, cat(measured.size(), " of the suite's ", workload_names().size(), " workloads; ",
                          count(facts, "parts"), " records of parts, ", count(facts, "infer"), " of predictions")};
}

Evidence representativeness(const Facts& facts) {
  const std::size_t steps = count(facts, "step"), trainings = count(facts, "train");
  if (steps + trainings == 0) return {};
  return {steps > 0 && trainings > 0 ? Holds::yes : Holds::unknown,
          cat(steps, " records of steps on synthetic data, ", trainings, " of trainings on real data")};
}

// The driver refuses a mismatch before it measures; the report looks again.
Evidence equity(const Facts& facts) {
  std::size_t same = 0, different = 0;
  for (const char* kind : {"step", "train"})
    for (const Place& place : facts.places(kind))
      for (const Comparison& row : facts.comparisons(kind, place)) {
        std::set<std::int64_t> counts;
        for (const auto& [name, record] : row.records)
          if (record->ok() && record->parameters > 0) counts.insert(record->parameters);
        same += counts.size() == 1 && row.records.size() > 1;
        different += counts.size() > 1;
      }
  if (same + different == 0) return {};
  return {different == 0 ? Holds::yes : Holds::no,
          different == 0
              ? cat("equal numbers of parameters in all ", same, " comparisons")
              : cat("numbers of parameters differ in ", different, " of ", same + different, " comparisons")};
}

Evidence repeatability(const Facts& facts) {
  std::size_t fewest = SIZE_MAX, records = 0;
  for (const Record& r : facts.all())
    if (r.kind == "step" && r.ok()) fewest = std::min(fewest, r.samples().size()), ++records;
  if (records == 0) return {};
  return {fewest >= kFewestSamples ? Holds::yes : Holds::no,
          cat("at least ", fewest, " samples in each of ", records, " records of steps (", kFewestSamples, " wanted)")};
}

Evidence economy(const Facts& facts) {
  double seconds = 0;
  for (const Record& r : facts.all()) {
    const auto per = r.details.find("steps_per_sample");
    const double steps = per != r.details.end() && per->is_number() ? per->get<double>() : 1;
    for (const double ms : r.samples()) seconds += ms * steps / 1e3;
    for (const TrainingRun& run : runs_of(r)) seconds += run.train_seconds + run.test_seconds;
  }
  if (!(seconds > 0)) return {};
  return {Holds::yes, cat("the samples of these records took ", short_number(seconds / 60), " minutes")};
}

Evidence scalability(const Facts& facts) {
  std::set<int> threads, ranks;
  std::set<std::int64_t> batches;
  std::map<std::string, std::set<std::int64_t>> by_workload;
  for (const Record& r : facts.all())
    if (r.kind == "step" && r.ok()) {
      threads.insert(r.threads), ranks.insert(r.ranks);
      by_workload[r.workload].insert(r.batch);
    } else if (r.kind == "scale" && r.ok()) {
      threads.insert(r.threads), ranks.insert(r.ranks);
    }
  std::size_t swept = 0;
  for (const auto& [name, sizes] : by_workload) swept += sizes.size() > 1;
  if (threads.empty()) return {};
  return {threads.size() > 1 ? Holds::yes : Holds::unknown,
          cat(threads.size(), threads.size() == 1 ? " number" : " numbers", " of threads, batch size swept in ", swept,
              " workloads, ", facts.machines().size(), facts.machines().size() == 1 ? " machine" : " machines",
              ", at most ", *ranks.rbegin(), *ranks.rbegin() == 1 ? " rank" : " ranks")};
}

Evidence transparency(const Facts& facts) {
  if (facts.all().empty()) return {};
  const std::size_t bare = facts
                               .where([](const Record& r) {
                                 return r.command.empty() || r.commit.empty() || r.machine.empty() ||
                                        (r.ok() && r.framework != "varve" && r.version.empty());
                               })
                               .size();
  const std::size_t gaps = facts.where([](const Record& r) { return !r.ok(); }).size();
  return {bare == 0 ? Holds::yes : Holds::no,
          bare == 0 ? cat("every record has command, commit, version and machine; ", gaps,
                          gaps == 1 ? " that did not run is a row" : " that did not run are rows")
                    : cat(bare, " of ", facts.all().size(), " records lack command, commit, version or machine")};
}

}  // namespace

const std::vector<Principle>& principles() {
  static const std::vector<Principle> all = {
      {"Relevance",
       "measure what matters",
       "the studies' networks end to end, and their parts alone; latency apart from throughput",
       {"bench/workloads.cpp", "tests/bench/workloads_test.cpp"},
       relevance},
      {"Representativeness",
       "metrics that industry and academia accept",
       "time to train, time to test, accuracy, memory, utilisation; real data for accuracy, synthetic for step time",
       {"bench/worker_train.cpp", "tests/bench/worker_test.cpp"},
       representativeness},
      {"Equity",
       "all systems compared fairly",
       "same parameters, operations and first five losses from the same weights, checked before every comparison",
       {"bench/verify.cpp", "tests/bench/command_test.cpp"},
       equity},
      {"Repeatability",
       "results can be verified",
       "warm-up apart, rounds of fresh processes, ten samples or more, every raw sample kept, seeds recorded",
       {"bench/driver.cpp", "tests/bench/statistics_test.cpp"},
       repeatability},
      {"Cost-effectiveness",
       "tests are economical",
       "a quick tier that ends in minutes, beside the full one",
       {"cli/bench/suite.cpp", "docs/benchmarks.md"},
       economy},
      {"Scalability",
       "from one server to many",
       "sweeps over threads, batch size, devices, ranks and hosts; machines side by side",
       {"bench/sweep.cpp", "bench/scale.cpp", "tests/bench/sweep_test.cpp", "tests/bench/scale_test.cpp"},
       scalability},
      {"Transparency",
       "metrics are easy to understand",
       "each record carries command, commit, versions, machine and load; a median that its samples deny is refused",
       {"bench/record.cpp", "tests/bench/record_test.cpp", "tests/bench/report/report_test.cpp"},
       transparency}};
  return all;
}

}  // namespace varve::bench
