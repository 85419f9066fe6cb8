// Memory and processor time that a step takes.
#include <algorithm>

#include "base/text.h"
#include "bench/report/sections.h"
#include "page/numbers.h"

namespace varve::bench {
namespace {

std::string row_title(const Comparison& row) { return cat(row.workload, ", batch ", row.batch); }

std::string memory_cards(const Facts& facts, const std::vector<Comparison>& rows) {
  std::string cards;
  for (const Comparison& row : rows) {
    std::vector<BarRow> bars;
    for (const std::string& name : facts.frameworks("step"))
      if (const Record* record = row.of(name)) {
        const bool known = record->ok() && record->peak_bytes > 0;
        bars.push_back({label(name), style_of(name), known ? static_cast<double>(record->peak_bytes) : 0,
                        known ? megabytes(static_cast<double>(record->peak_bytes)) : status_words(record->status)});
      }
    if (std::any_of(bars.begin(), bars.end(), [](const BarRow& bar) { return bar.value > 0; }))
      cards += bars_html(row_title(row), bars);
  }
  return cards.empty() ? "" : "<div class=\"cards\">\n" + cards + "</div>\n";
}

template <class Value>
Table per_framework(const Facts& facts, const Place& place, const std::string& caption, const Value& value) {
  Table table{.caption = caption, .head = {"workload", "batch"}};
  const std::vector<std::string> frameworks = facts.frameworks("step");
  for (const std::string& name : frameworks) table.head.push_back(label(name));
  for (const Comparison& row : facts.main_comparisons("step", place)) {
    std::vector<Cell> cells = {row.workload, std::to_string(row.batch)};
    for (const std::string& name : frameworks) {
      const Record* record = row.of(name);
      cells.push_back(!record        ? absent("not measured")
                      : record->ok() ? value(*record, row)
                                     : absent(status_words(record->status)));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

Cell memory_cell(const Record& record, const Comparison& row) {
  if (record.peak_bytes <= 0) return absent("not measured");
  const Record* torch = row.of("torch");
  std::string share;
  if (record.framework == "varve" && torch && torch->ok() && torch->peak_bytes > 0)
    share = page::fixed(static_cast<double>(record.peak_bytes) / static_cast<double>(torch->peak_bytes), 2) +
            " of PyTorch's";
  return {short_number(static_cast<double>(record.peak_bytes) / 1e6), share};
}

Cell busy_cell(const Record& record, const Comparison&) {
  const double busy = record.busy();
  if (!(busy > 0)) return absent("not measured");
  std::string rate;
  if (record.flops > 0 && record.ms_median > 0) rate = short_number(record.flops / record.ms_median / 1e6) + " GFLOP/s";
  return {page::fixed(100 * busy, 0) + "%", rate};
}

}  // namespace

Section memory_section(const Facts& facts) {
  Section section{.id = "memory",
                  .title = "Memory",
                  .intro =
                      "On a processor the most memory that the whole process held at once, interpreter and libraries "
                      "included; on a GPU the most of its memory that the framework had given to tensors."};
  for (const Place& place : facts.main_places("step")) {
    const std::string cards = memory_cards(facts, facts.main_comparisons("step", place));
    if (cards.empty()) continue;
    const bool usual = place.precision == "f32";
    section.blocks.push_back({.html = (usual ? machine_heading(facts, place.machine) : "") + cards,
                              .folded = usual ? "" : cat("With ", place.str(), ", ", place.machine)});
    section.blocks.push_back({.table = per_framework(facts, place, "Megabytes at most, " + place.str(), memory_cell),
                              .folded = "As a table, " + place.str()});
  }
  return section;
}

Section utilisation_section(const Facts& facts) {
  Section section{
      .id = "utilisation",
      .title = "Use of the processor",
      .intro =
          "Share of the threads' time in which they ran, or of the time in which a GPU ran any kernel, and the step's "
          "counted operations a second. A busy thread is not a useful one: spinning counts as busy."};
  for (const Place& place : facts.main_places("step")) {
    const auto rows = facts.main_comparisons("step", place);
    const bool usual = place.precision == "f32";
    const bool any = std::any_of(rows.begin(), rows.end(), [](const Comparison& row) {
      return std::any_of(row.records.begin(), row.records.end(),
                         [](const auto& each) { return each.second->busy() > 0; });
    });
    if (any)
      section.blocks.push_back({.table = per_framework(facts, place, "Utilisation, " + place.str(), busy_cell),
                                .html = usual ? machine_heading(facts, place.machine) : "",
                                .folded = usual ? "" : cat("With ", place.str(), ", ", place.machine)});
  }
  return section;
}

}  // namespace varve::bench
