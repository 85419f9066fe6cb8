// Tables of parts, trainings and levers.
#include <algorithm>
#include <map>

#include "base/text.h"
#include "cli/bench/tables.h"
#include "cli/text.h"

namespace varve::cli {
namespace {

using bench::Record;
using Rows = std::vector<std::vector<std::string>>;

std::vector<double> numbers(const nlohmann::ordered_json& list) {
  std::vector<double> found;
  for (const auto& v : list)
    if (v.is_number()) found.push_back(v);
  return found;
}

std::string median_of(const Record& r, const char* field) {
  if (!r.details.contains(field)) return "-";
  const std::vector<double> samples = numbers(r.details[field]);
  return samples.empty() ? "-" : ms_text(bench::median(samples));
}

// A field of every run that counts: mean ± deviation.
std::vector<double> over_runs(const Record& r, const char* field) {
  std::vector<double> values;
  const auto runs = r.details.find("runs");
  if (runs == r.details.end()) return values;
  for (const std::size_t turn : r.best_turns()) {
    if (turn >= runs->size()) break;
    const auto value = runs->at(turn).find(field);
    if (value != runs->at(turn).end() && value->is_number()) values.push_back(*value);
  }
  return values;
}
std::string mean_text(const std::vector<double>& values, double scale, int digits) {
  if (values.empty()) return "-";
  const std::string middle = fixed(scale * bench::mean(values), digits);
  return values.size() < 2 ? middle : cat(middle, " ± ", fixed(scale * bench::deviation(values), digits));
}

// What the GPU used where there is one, else what the processor did.
std::vector<double> joules_of(const Record& r) {
  std::vector<double> values;
  for (const std::size_t turn : r.best_turns())
    if (const auto runs = r.details.find("runs"); runs != r.details.end() && turn < runs->size())
      if (const auto gpu = runs->at(turn).find("gpu"); gpu != runs->at(turn).end() && gpu->contains("joules"))
        values.push_back(gpu->at("joules"));
  return values.empty() ? over_runs(r, "energy_joules") : values;
}

std::string share(double value) { return value > 0 ? fixed(100 * value, 0) + "%" : "-"; }

}  // namespace

std::string parts_table(const std::vector<Record>& records) {
  Rows rows = {{"workload", "framework", "forward ms", "gradient", "update", "data loading", "status"}};
  for (const Record& r : records)
    rows.push_back({setting_of(r), r.framework, median_of(r, "forward_ms"), median_of(r, "gradient_ms"),
                    median_of(r, "update_ms"), median_of(r, "data_ms"), r.ok() ? "ok" : cat(r.status, ": ", r.reason)});
  return aligned(rows);
}

std::string layers_table(const std::vector<Record>& records) {
  std::string text;
  for (const Record& r : records) {
    if (!r.details.contains("layers")) continue;
    Rows rows = {{"layer", "forward ms", "gradient ms"}};
    for (const auto& layer : r.details["layers"])
      rows.push_back({layer.value("name", "?"), fixed(layer.value("forward_ms", 0.0), 3),
                      fixed(layer.value("gradient_ms", 0.0), 3)});
    text += cat("\n", setting_of(r), ", ", r.framework, "\n", aligned(rows, "  "));
  }
  return text;
}

std::string training_table(const std::vector<Record>& records) {
  Rows rows = {{"workload", "framework", "train s", "test s", "test accuracy %", "epochs to target", "seconds to it",
                "peak", "busy", "energy kJ", "train / varve"}};
  std::string notes;
  for (const Record& r : records) {
    if (!r.ok()) notes += cat("\n", setting_of(r), ", ", r.framework, " ", r.status, ": ", r.reason);
    rows.push_back({setting_of(r), r.framework, mean_text(over_runs(r, "train_seconds"), 1, 1),
                    mean_text(over_runs(r, "test_seconds"), 1, 2), mean_text(over_runs(r, "test_accuracy"), 100, 2),
                    mean_text(over_runs(r, "epochs_to_target"), 1, 1),
                    mean_text(over_runs(r, "seconds_to_target"), 1, 1),
                    r.peak_bytes > 0 ? human_bytes(static_cast<std::uint64_t>(r.peak_bytes)) : "-", share(r.busy()),
                    mean_text(joules_of(r), 1e-3, 2), r.ratio_to_varve > 0 ? fixed(r.ratio_to_varve, 2) : "-"});
  }
  return aligned(rows) + (notes.empty() ? "" : notes + "\n");
}

std::string ablation_table(const std::vector<Record>& records) {
  Rows rows = {{"workload", "without", "ms", "over the whole step", "95% interval"}};
  std::string notes;
  for (const Record& r : records) {
    const std::string without = r.details.value("without", "");
    if (!r.ok()) notes += cat("\n", setting_of(r), " without ", without, " ", r.status, ": ", r.reason);
    rows.push_back(
        {setting_of(r), without.empty() ? "(whole)" : without,
         r.ok() ? cat(ms_text(r.ms_median), " (", ms_text(r.ms_quartiles.low), "…", ms_text(r.ms_quartiles.high), ")")
                : r.status,
         r.ratio_to_varve > 0 ? fixed(r.ratio_to_varve, 3) : "",
         r.ratio_to_varve > 0 ? cat("[", fixed(r.ratio_interval.low, 3), ", ", fixed(r.ratio_interval.high, 3), "]")
                              : ""});
  }
  return aligned(rows) + (notes.empty() ? "" : notes + "\n");
}

}  // namespace varve::cli
