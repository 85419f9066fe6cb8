#include "bench/report/runs.h"

#include <cmath>

#include "bench/report/facts.h"
#include "page/numbers.h"

namespace varve::bench {
namespace {

using nlohmann::ordered_json;

double number(const ordered_json& json, const char* field, double otherwise) {
  const auto at = json.find(field);
  if (at == json.end() || !at->is_number()) return otherwise;
  const double value = *at;
  return std::isfinite(value) && value >= 0 ? value : otherwise;
}

TrainingRun run_of(const ordered_json& json) {
  TrainingRun run{.train_seconds = number(json, "train_seconds", 0),
                  .test_seconds = number(json, "test_seconds", 0),
                  .test_accuracy = number(json, "test_accuracy", -1),
                  .seconds_to_target = number(json, "seconds_to_target", -1),
                  .epochs_to_target = number(json, "epochs_to_target", -1),
                  .joules = number(json, "energy_joules", -1)};
  const auto epochs = json.find("epochs");
  if (epochs == json.end() || !epochs->is_array()) return run;
  run.epochs = static_cast<int>(epochs->size());
  double elapsed = 0;
  for (const ordered_json& epoch : *epochs) {
    if (!epoch.is_object()) continue;
    elapsed += number(epoch, "seconds", 0);
    if (const double accuracy = number(epoch, "val_accuracy", -1); accuracy >= 0)
      run.points.push_back({elapsed, accuracy});
  }
  return run;
}

Cell missing_cell(const Record* record) {
  return absent(!record ? "not measured" : status_words(record->ok() ? "not measured" : record->status));
}

}  // namespace

std::vector<TrainingRun> runs_of(const Record& record) {
  std::vector<TrainingRun> runs;
  const auto list = record.details.find("runs");
  if (list != record.details.end() && list->is_array()) {
    for (const std::size_t turn : record.best_turns())
      if (turn < list->size() && (*list)[turn].is_object()) runs.push_back(run_of((*list)[turn]));
  } else if (record.details.contains("train_seconds")) {
    runs.push_back(run_of(record.details));
  }
  return runs;
}

std::vector<double> of_runs(const std::vector<TrainingRun>& runs, double TrainingRun::*member) {
  std::vector<double> values;
  const bool accuracy = member == &TrainingRun::test_accuracy;
  for (const TrainingRun& run : runs)
    if (run.*member > 0 || (accuracy && run.*member >= 0)) values.push_back(run.*member);
  return values;
}

Cell mean_cell(const std::vector<double>& values, int decimals) {
  if (values.empty()) return absent("not measured");
  const double middle = mean(values);
  if (decimals < 0) decimals = middle >= 99.95 ? 0 : middle >= 9.995 ? 1 : middle >= 0.9995 ? 2 : 3;
  const std::string text = middle >= 999.5 ? short_number(middle) : page::fixed(middle, decimals);
  return {text, values.size() > 1 ? "±" + page::fixed(deviation(values), decimals) : ""};
}

Cell seconds_cell(const Record* record, double TrainingRun::*member) {
  const std::vector<double> values = record && record->ok() ? of_runs(runs_of(*record), member) : std::vector<double>();
  return values.empty() ? missing_cell(record) : mean_cell(values);
}

Cell accuracy_cell(const Record* record) {
  std::vector<double> values =
      record && record->ok() ? of_runs(runs_of(*record), &TrainingRun::test_accuracy) : std::vector<double>();
  for (double& value : values) value *= 100;
  return values.empty() ? missing_cell(record) : mean_cell(values, 2);
}

}  // namespace varve::bench
