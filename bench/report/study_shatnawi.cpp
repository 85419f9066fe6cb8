// Threads × data set: seconds to train to equal accuracy, then memory, utilisation and epochs.
#include <algorithm>
#include <array>

#include "base/text.h"
#include "bench/report/runs.h"
#include "bench/report/studies.h"
#include "bench/report/study_tables.h"
#include "page/numbers.h"

namespace varve::bench {
namespace {

// CNTK, TensorFlow, Theano.
struct ShatnawiRow {
  const char* workload;
  const char* data;
  std::array<std::array<double, 3>, 6> threads;  // as kStudyThreads
  std::array<double, 3> gpu;
};
constexpr ShatnawiRow kShatnawi[] = {{"cnn-mnist",
                                      "MNIST",
                                      {{{847, 5130, 3560},
                                        {630, 3180, 2500},
                                        {574, 2070, 2260},
                                        {560, 1740, 2060},
                                        {567, 1920, 2050},
                                        {588, 2010, 2050}}},
                                      {66.67, 328.93, 377.86}},
                                     {"cnn-cifar",
                                      "CIFAR-10",
                                      {{{20196, 25905, 26700},
                                        {14520, 16610, 18700},
                                        {13662, 11550, 17250},
                                        {11484, 9955, 15800},
                                        {11550, 10340, 15850},
                                        {11649, 10835, 15750}}},
                                      {926, 2166.4, 2386.1}}};

double training_seconds(const Record* record) {
  if (!record || !record->ok()) return 0;
  const std::vector<TrainingRun> runs = runs_of(*record);
  for (const auto member : {&TrainingRun::seconds_to_target, &TrainingRun::train_seconds})
    if (const std::vector<double> values = of_runs(runs, member); !values.empty()) return mean(values);
  return 0;
}

Cell training_cell(const Record* record) {
  if (!record->ok()) return absent(status_words(record->status));
  Cell cell = seconds_cell(record, &TrainingRun::seconds_to_target);
  if (cell.tone != Tone::absent) return cell;
  cell = seconds_cell(record, &TrainingRun::train_seconds);
  if (cell.tone != Tone::absent) cell.small = "accuracy not reached";
  return cell;
}

struct Layout {
  const Facts& facts;
  const ShatnawiRow& theirs;
  std::string machine;
  std::vector<std::string> frameworks;

  const Record* at(const std::string& framework, int threads, const std::string& device = "cpu") const {
    return find(facts, {"train", machine, theirs.workload, framework, device, 0, threads});
  }
};

void add_speedups(const Layout& layout, Table& table) {
  std::vector<Cell> row = {"GPU over best CPU"};
  for (const std::string& name : layout.frameworks) {
    double best = 0;
    for (const int threads : kStudyThreads)
      if (const double s = training_seconds(layout.at(name, threads)); s > 0) best = best > 0 ? std::min(best, s) : s;
    const double gpu = training_seconds(layout.at(name, 0, "cuda"));
    row.push_back(best > 0 && gpu > 0 ? Cell(times(best / gpu)) : absent("not measured"));
  }
  for (std::size_t tool = 0; tool < 3; ++tool) {
    double best = layout.theirs.threads[0][tool];
    for (const auto& each : layout.theirs.threads) best = std::min(best, each[tool]);
    row.push_back(theirs(times(best / layout.theirs.gpu[tool])));
  }
  table.rows.push_back(std::move(row));
}

Table seconds_table(const Layout& layout) {
  Table table{
      .caption = cat(layout.theirs.data, " (", layout.theirs.workload, "): seconds to train to the target accuracy",
                     layout.machine.empty() ? "" : ", " + layout.machine),
      .head = {"threads"}};
  for (const std::string& name : layout.frameworks) table.head.push_back(label(name));
  table.head.insert(table.head.end(), {"CNTK 2018†", "TensorFlow 2018†", "Theano 2018†"});
  for (std::size_t i = 0; i <= kStudyThreads.size(); ++i) {
    const bool gpu = i == kStudyThreads.size();
    std::vector<Cell> row = {gpu ? std::string("GPU") : std::to_string(kStudyThreads[i])};
    for (const std::string& name : layout.frameworks) {
      const Record* record = gpu ? layout.at(name, 0, "cuda") : layout.at(name, kStudyThreads[i]);
      row.push_back(record ? training_cell(record)
                    : gpu  ? absent("not measured")
                           : empty_cell(layout.facts, layout.machine, kStudyThreads[i]));
    }
    for (const double seconds : gpu ? layout.theirs.gpu : layout.theirs.threads[i])
      row.push_back(theirs(short_number(seconds)));
    table.rows.push_back(std::move(row));
  }
  add_speedups(layout, table);
  explain_dashes(table);
  return table;
}

Table resource_table(const Layout& layout) {
  Table table{.caption = cat(layout.theirs.data, ": what the training took",
                             layout.machine.empty() ? "" : ", " + layout.machine),
              .head = {"framework", "threads", "epochs", "to target", "accuracy %", "peak MB", "CPU utilisation"},
              .grouped = true};
  for (const std::string& name : layout.frameworks)
    for (const int threads : kStudyThreads) {
      const Record* record = layout.at(name, threads);
      if (!record || !record->ok()) continue;
      const std::vector<TrainingRun> runs = runs_of(*record);
      if (runs.empty()) continue;
      const std::vector<double> epochs = of_runs(runs, &TrainingRun::epochs_to_target);
      table.rows.push_back(
          {label(name), std::to_string(threads), std::to_string(runs.front().epochs),
           epochs.empty() ? absent("not reached") : Cell(page::general(mean(epochs), 3)), accuracy_cell(record),
           record->peak_bytes > 0 ? Cell(short_number(static_cast<double>(record->peak_bytes) / 1e6))
                                  : absent("not measured"),
           record->utilisation > 0 ? Cell(page::fixed(100 * record->utilisation, 0) + "%") : absent("not measured")});
    }
  return table;
}

}  // namespace

std::vector<Table> shatnawi_tables(const Facts& facts) {
  std::vector<Table> tables;
  for (const ShatnawiRow& theirs : kShatnawi)
    for (const std::string& machine : machines_with(facts, "train", {theirs.workload})) {
      Layout layout{facts, theirs, machine, facts.frameworks("train")};
      if (layout.frameworks.empty()) layout.frameworks = {"varve"};
      tables.push_back(seconds_table(layout));
      if (Table more = resource_table(layout); !more.rows.empty()) tables.push_back(std::move(more));
    }
  return tables;
}

}  // namespace varve::bench
