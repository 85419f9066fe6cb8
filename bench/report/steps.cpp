// Times of training steps: the table with quartiles, and the best of the others over Varve, wins and losses alike.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "bench/report/sections.h"
#include "bench/workloads.h"
#include "page/markup.h"
#include "page/numbers.h"

namespace varve::bench {
namespace {

using page::escaped;
using page::fixed;

std::string verdict_word(const Comparison& row) {
  const Verdict result = verdict(row);
  return result == Verdict::ahead ? "faster" : result == Verdict::behind ? "slower" : "level";
}

std::string verdict_words(const Comparison& row) {
  return verdict_word(row) + (verdict(row) == Verdict::level ? " with " : " than ") + label(row.best_peer()->framework);
}

Cell ratio_cell(const Comparison& row) {
  if (!row.both()) return absent("no comparison");
  const Interval sure = row.interval();
  const Verdict result = verdict(row);
  const Tone tone = result == Verdict::ahead ? Tone::ahead : result == Verdict::behind ? Tone::behind : Tone::plain;
  return {times(row.ratio()), sure.high > 0 ? fixed(sure.low, 2) + "–" + fixed(sure.high, 2) : "", tone};
}

std::string missing_note(const std::vector<Comparison>& rows) {
  std::string names;
  for (const std::string& name : workload_names())
    if (std::none_of(rows.begin(), rows.end(), [&](const Comparison& row) { return row.workload == name; }))
      names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "" : "Not measured here: " + names + ". ";
}

Table step_table(const Facts& facts, const Place& place, const std::vector<Comparison>& rows) {
  std::vector<std::string> frameworks;
  for (const std::string& name : facts.frameworks("step"))
    if (std::any_of(rows.begin(), rows.end(), [&](const Comparison& row) { return row.of(name); }))
      frameworks.push_back(name);
  Table table{.caption = cat("Milliseconds a step, ", place.str()), .head = {"workload", "batch"}};
  for (const std::string& name : frameworks) table.head.push_back(label(name));
  table.head.insert(table.head.end(), {"best peer ÷ Varve", "Varve is"});
  for (const Comparison& row : rows) {
    std::vector<Cell> cells = {row.workload, std::to_string(row.batch)};
    for (const std::string& name : frameworks) cells.push_back(milliseconds(row.of(name)));
    cells.push_back(ratio_cell(row));
    cells.push_back(row.both() ? Cell(verdict_word(row)) : Cell(""));
    table.rows.push_back(std::move(cells));
  }
  table.note = missing_note(rows) +
               "Median, with the quartiles of all samples. The ratio's interval is a 95% bootstrap over processes and "
               "samples; \"level\" means that it holds 1.";
  return table;
}

std::string percent(double share) { return fixed(100 * std::clamp(share, 0.0, 1.0), 2) + "%"; }

// One row of the chart: a bar from 1× to the ratio, on a logarithmic axis from 1/most to most.
std::string ratio_row(const Comparison& row, double most) {
  const auto place = [&](double ratio) { return 0.5 + std::log(ratio) / std::log(most) / 2; };
  const double at = place(row.ratio());
  const Interval sure = row.interval();
  const Verdict result = verdict(row);
  const char* kind = result == Verdict::ahead ? "ahead" : result == Verdict::behind ? "behind" : "level";
  std::string html =
      cat("<li class=\"", kind, "\"><span class=\"what\">", escaped(row.workload), " <small>batch ", row.batch,
          "</small></span><span class=\"track\"><i class=\"bar\" style=\"left:", percent(std::min(at, 0.5)),
          ";width:", percent(std::abs(at - 0.5)), "\"></i>");
  if (sure.high > 0 && sure.low > 0)
    html += cat("<i class=\"whisker\" style=\"left:", percent(place(sure.low)),
                ";width:", percent(place(sure.high) - place(sure.low)), "\"></i>");
  html += "</span><span class=\"ratio\">" + times(row.ratio());
  if (sure.high > 0) html += " <small>" + fixed(sure.low, 2) + "–" + fixed(sure.high, 2) + "</small>";
  return html + "</span><span class=\"verdict\">" + escaped(verdict_words(row)) + "</span></li>\n";
}

std::string ratio_chart(const std::vector<Comparison>& rows, const std::string& title) {
  double most = 2;
  std::vector<Comparison> drawn;
  for (const Comparison& row : rows)
    if (row.both()) {
      drawn.push_back(row);
      const Interval sure = row.interval();
      for (const double ratio : {row.ratio(), sure.high > 0 ? sure.high : 1, sure.low > 0 ? sure.low : 1})
        most = std::max({most, ratio * 1.05, 1.05 / ratio});
    }
  if (drawn.empty()) return "";
  std::string html = "<figure>\n<figcaption>" + escaped(title) + "</figcaption>\n<ol class=\"ratios\">\n" +
                     "<li class=\"axis\" aria-hidden=\"true\"><span class=\"track\"><span>◀ Varve slower</span>" +
                     "<span>1×</span><span>Varve faster ▶</span></span></li>\n";
  for (const Comparison& row : drawn) html += ratio_row(row, most);
  return html + "</ol>\n</figure>\n";
}

Block block(const Facts& facts, const Place& place, const std::vector<Comparison>& rows) {
  return {.table = step_table(facts, place, rows),
          .html = ratio_chart(rows, "Best peer's time over Varve's, " + place.str())};
}

// Ratios of several machines and precisions, which must not be mixed, beside each other.
Table side_by_side(const Facts& facts, const std::vector<Place>& places) {
  Table table{.caption = "Best peer's time over Varve's, everywhere", .head = {"workload"}};
  std::vector<std::string> workloads;
  for (const Place& place : places) {
    table.head.push_back(place.machine + ", " + place.str());
    for (const Comparison& row : facts.main_comparisons("step", place))
      if (std::find(workloads.begin(), workloads.end(), row.workload) == workloads.end())
        workloads.push_back(row.workload);
  }
  for (const std::string& workload : workloads) {
    std::vector<Cell> cells = {workload};
    for (const Place& place : places) {
      const auto rows = facts.main_comparisons("step", place);
      const auto at = std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.workload == workload; });
      cells.push_back(at == rows.end() ? absent("not measured") : ratio_cell(*at));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

}  // namespace

Section step_section(const Facts& facts) {
  Section section{.id = "steps",
                  .title = "Training step",
                  .intro =
                      "Forward, loss, gradient and update on synthetic data. Frameworks take turns in fresh "
                      "processes; a peer's figure is the best of its modes and processes, Varve's is the median of all "
                      "of its samples."};
  const std::vector<Place> chosen = facts.main_places("step");
  if (chosen.size() > 1) section.blocks.push_back({.table = side_by_side(facts, chosen)});
  std::string machine;
  for (const Place& place : facts.places("step")) {
    const std::vector<Comparison> all = facts.comparisons("step", place), rows = facts.main_comparisons("step", place);
    const bool main = std::find(chosen.begin(), chosen.end(), place) != chosen.end();
    const std::string heading = main && place.machine != machine ? machine_heading(facts, place.machine) : "";
    const std::string where = facts.machines().size() > 1 ? ", " + place.machine : "";
    if (main) machine = place.machine;
    section.blocks.push_back(block(facts, place, rows));
    section.blocks.back().html = heading + section.blocks.back().html;
    if (!main) section.blocks.back().folded = "With " + place.str() + where;
    if (all.size() > rows.size()) {
      section.blocks.push_back(block(facts, place, all));
      section.blocks.back().folded = "All batch sizes, " + place.str() + where;
    }
  }
  return section;
}

}  // namespace varve::bench
