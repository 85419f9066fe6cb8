// Whole trainings on real data: time, accuracy, and how one grows with the other.
#include <algorithm>

#include "base/text.h"
#include "bench/report/runs.h"
#include "bench/report/sections.h"
#include "page/chart.h"
#include "page/numbers.h"

namespace varve::bench {
namespace {

std::string accuracy_chart(const Comparison& row, const Place& place) {
  std::vector<page::Series> series;
  for (const auto& [framework, record] : row.records) {
    const std::vector<TrainingRun> runs = runs_of(*record);
    if (!record->ok() || runs.empty() || runs.front().points.empty()) continue;
    page::Series line{label(framework), {}, {}, style_of(framework)};
    for (const EpochPoint& point : runs.front().points) {
      line.x.push_back(point.seconds);
      line.y.push_back(100 * point.accuracy);
    }
    series.push_back(std::move(line));
  }
  if (series.empty()) return "";
  std::sort(series.begin(), series.end(), [](const auto& a, const auto& b) { return a.style < b.style; });
  return page::line_chart_svg(series, {.title = row.workload + ", " + place.str(),
                                       .x_label = "seconds of training",
                                       .y_label = "validation accuracy, %"});
}

Cell target_cell(const Record& record) {
  const std::vector<TrainingRun> runs = runs_of(record);
  Cell cell = mean_cell(of_runs(runs, &TrainingRun::seconds_to_target));
  const std::vector<double> epochs = of_runs(runs, &TrainingRun::epochs_to_target);
  if (cell.tone == Tone::absent) return absent("not reached");
  if (!epochs.empty()) cell.small = page::general(mean(epochs), 3) + " epochs";
  return cell;
}

std::vector<Cell> training_row(const Comparison& row, const Record& record) {
  std::vector<Cell> cells = {row.workload, label(record.framework)};
  const std::vector<TrainingRun> runs = runs_of(record);
  if (!record.ok() || runs.empty()) {
    cells.push_back(absent(status_words(record.ok() ? "not measured" : record.status)));
    cells.resize(10);
    return cells;
  }
  const std::vector<double> joules = of_runs(runs, &TrainingRun::joules);
  cells.push_back(std::to_string(runs.size()));
  cells.push_back(std::to_string(runs.front().epochs));
  cells.push_back(seconds_cell(&record, &TrainingRun::train_seconds));
  cells.push_back(seconds_cell(&record, &TrainingRun::test_seconds));
  cells.push_back(accuracy_cell(&record));
  cells.push_back(target_cell(record));
  cells.push_back(record.peak_bytes > 0 ? Cell(short_number(static_cast<double>(record.peak_bytes) / 1e6))
                                        : absent("not measured"));
  cells.push_back(record.busy() > 0 ? Cell(page::fixed(100 * record.busy(), 0) + "%") : absent("not measured"));
  if (!joules.empty()) cells.back().small = short_number(mean(joules)) + " J";
  return cells;
}

}  // namespace

Section training_section(const Facts& facts) {
  Section section{.id = "training",
                  .title = "Training to the end",
                  .intro =
                      "Real data, the same epochs, batch and seeds for all. Mean of the runs with their standard "
                      "deviation; the chart shows the first run of each."};
  for (const Place& place : facts.places("train")) {
    Table table{.caption = "Training and testing, " + place.str(),
                .head = {"workload", "framework", "runs", "epochs", "training s", "testing s", "accuracy %",
                         "s to target", "peak MB", "utilisation"},
                .words = 2,
                .grouped = true};
    std::string charts;
    for (const Comparison& row : facts.comparisons("train", place)) {
      charts += accuracy_chart(row, place);
      for (const std::string& name : facts.frameworks("train"))
        if (const Record* record = row.of(name)) table.rows.push_back(training_row(row, *record));
    }
    section.blocks.push_back(
        {.table = table, .html = machine_heading(facts, place.machine) + (charts.empty() ? "" : grid_html(charts))});
  }
  return section;
}

}  // namespace varve::bench
