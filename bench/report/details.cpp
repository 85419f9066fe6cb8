// Predictions, the parts of a step, and what each lever is worth.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "bench/report/sections.h"
#include "page/numbers.h"

namespace varve::bench {
namespace {

Table latency_table(const Facts& facts, const Place& place) {
  Table table{.caption = "Milliseconds of a prediction of one sample, " + place.str(),
              .head = {"workload", "framework", "50%", "90%", "99%", "mean"},
              .words = 2,
              .grouped = true};
  for (const Comparison& row : facts.comparisons("infer", place)) {
    if (row.batch != 1) continue;
    for (const std::string& name : facts.frameworks("infer")) {
      const Record* record = row.of(name);
      if (!record) continue;
      std::vector<Cell> cells = {row.workload, label(name)};
      const std::vector<double> samples = pooled(record->best_processes());
      if (!record->ok() || samples.empty())
        cells.push_back(absent(status_words(record->ok() ? "not measured" : record->status))), cells.resize(6);
      else
        for (const double value :
             {quantile(samples, 0.5), quantile(samples, 0.9), quantile(samples, 0.99), mean(samples)})
          cells.push_back(short_number(value));
      table.rows.push_back(std::move(cells));
    }
  }
  return table;
}

Table throughput_table(const Facts& facts, const Place& place) {
  const std::vector<std::string> frameworks = facts.frameworks("infer");
  Table table{.caption = "Predictions a second, " + place.str(), .head = {"workload", "batch"}};
  for (const std::string& name : frameworks) table.head.push_back(label(name));
  for (const Comparison& row : facts.comparisons("infer", place)) {
    if (row.batch == 1) continue;
    std::vector<Cell> cells = {row.workload, std::to_string(row.batch)};
    for (const std::string& name : frameworks) {
      const Record* record = row.of(name);
      cells.push_back(!record || !record->ok() || !(record->ms_median > 0)
                          ? absent(record && !record->ok() ? status_words(record->status) : "not measured")
                          : Cell(short_number(static_cast<double>(row.batch) / record->ms_median * 1e3)));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

// The median of a list of numbers in the details; negative when there is none.
double detail_median(const Record& record, const char* field) {
  const auto at = record.details.find(field);
  if (at == record.details.end()) return -1;
  if (at->is_number()) return *at;
  std::vector<double> values;
  if (at->is_array())
    for (const auto& value : *at)
      if (value.is_number() && std::isfinite(value.get<double>())) values.push_back(value);
  return values.empty() ? -1 : median(values);
}

std::string detail_of(const Record& record, const char* field) {
  const auto at = record.details.find(field);
  return at == record.details.end() || !at->is_string() ? "" : at->get<std::string>();
}

}  // namespace

Section inference_section(const Facts& facts) {
  Section section{.id = "prediction", .title = "Prediction", .intro = "Latency at batch 1, throughput at larger ones."};
  for (const Place& place : facts.main_places("infer")) {
    std::string heading = machine_heading(facts, place.machine);
    for (Table table : {latency_table(facts, place), throughput_table(facts, place)}) {
      if (table.rows.empty()) continue;
      section.blocks.push_back({.table = std::move(table), .html = heading});
      heading = "";
    }
  }
  return section;
}

Section parts_section(const Facts& facts) {
  Section section{
      .id = "parts",
      .title = "Parts of a step",
      .intro =
          "Forward, gradient, update and the loading of a batch, each alone. Their sum is more than a whole step "
          "where a framework fuses them."};
  for (const Place& place : facts.main_places("parts")) {
    Table table{.caption = "Milliseconds, " + place.str(),
                .head = {"workload", "framework", "batch", "forward", "gradient", "update", "data"},
                .words = 2,
                .grouped = true};
    for (const Comparison& row : facts.comparisons("parts", place))
      for (const std::string& name : facts.frameworks("parts")) {
        const Record* record = row.of(name);
        if (!record) continue;
        std::vector<Cell> cells = {row.workload, label(name), std::to_string(row.batch)};
        for (const char* part : {"forward_ms", "gradient_ms", "update_ms", "data_ms"}) {
          const double ms = record->ok() ? detail_median(*record, part) : -1;
          cells.push_back(ms >= 0 ? Cell(short_number(ms))
                                  : absent(record->ok() ? "not measured" : status_words(record->status)));
        }
        table.rows.push_back(std::move(cells));
      }
    section.blocks.push_back({.table = std::move(table), .html = machine_heading(facts, place.machine)});
  }
  return section;
}

Section ablation_section(const Facts& facts) {
  Section section{
      .id = "ablations",
      .title = "What each lever is worth",
      .intro = "Varve's own step with everything on, and with one lever off. Below 1 the lever costs time there."};
  const auto records = facts.where([](const Record& r) { return r.kind == "ablate"; });
  Table table{.caption = "Milliseconds a step",
              .head = {"workload", "lever", "on", "off", "off ÷ on"},
              .words = 2,
              .grouped = true};
  for (const Record* off : records) {
    const std::string lever = detail_of(*off, "without");
    if (lever.empty()) continue;
    const auto base = std::find_if(records.begin(), records.end(), [&](const Record* on) {
      return detail_of(*on, "without").empty() && on->workload == off->workload && on->batch == off->batch &&
             place_of(*on) == place_of(*off);
    });
    const Record* on = base == records.end() ? nullptr : *base;
    std::vector<Cell> row = {Cell(off->workload, cat("batch ", off->batch, ", ", place_of(*off).str())), lever,
                             milliseconds(on), milliseconds(off)};
    const bool both = on && on->ok() && on->ms_median > 0 && off->ok() && off->ms_median > 0;
    if (!both) {
      row.push_back(absent("no comparison"));
    } else {
      Cell ratio(times(off->ms_median / on->ms_median));
      if (!on->samples().empty() && !off->samples().empty()) {
        const Interval sure = ratio_interval(off->processes, on->processes);
        ratio.small = page::fixed(sure.low, 2) + "–" + page::fixed(sure.high, 2);
        ratio.tone = sure.low > 1 ? Tone::ahead : sure.high < 1 ? Tone::behind : Tone::plain;
      }
      row.push_back(ratio);
    }
    table.rows.push_back(std::move(row));
  }
  if (!table.rows.empty()) section.blocks.push_back({.table = std::move(table)});
  return section;
}

}  // namespace varve::bench
