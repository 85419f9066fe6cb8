#include "bench/report/report.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/text.h"
#include "bench/report/sections.h"
#include "bench/report/style.h"
#include "page/document.h"
#include "page/markup.h"
#include "page/numbers.h"

namespace varve::bench {
namespace {

using page::escaped;

struct Tally {
  int ahead = 0, level = 0, behind = 0, alone = 0;
  double logs = 0;
  int compared() const { return ahead + level + behind; }
};

// Of the main settings: one number of threads on each machine, every precision.
Tally tally_of(const std::vector<Comparison>& rows) {
  Tally tally;
  for (const Comparison& row : rows) {
    if (!row.both()) {
      ++tally.alone;
      continue;
    }
    const Verdict result = verdict(row);
    ++(result == Verdict::ahead ? tally.ahead : result == Verdict::behind ? tally.behind : tally.level);
    tally.logs += std::log(row.ratio());
  }
  return tally;
}

std::string tally_tiles(const Tally& tally) {
  const auto of = cat(" of ", tally.compared());
  std::string html = "<ul class=\"tiles\">\n";
  if (tally.compared() > 0) {
    html += "<li class=\"ahead\"><b>" + cat(tally.ahead) + "</b><span>" + of + " ahead of the best peer</span></li>\n";
    html += "<li class=\"behind\"><b>" + cat(tally.behind) + "</b><span>" + of + " behind it</span></li>\n";
    html += page::tile(cat(tally.level), of + " level with it");
    html += page::tile(times(std::exp(tally.logs / tally.compared())), "geometric mean ratio");
  }
  if (tally.alone > 0) html += page::tile(cat(tally.alone), "without a peer to compare");
  return html + "</ul>\n";
}

std::string span_of_times(const Facts& facts) {
  std::string first, last;
  for (const Record& r : facts.all()) {
    const std::string day = r.time.substr(0, 10);
    if (day.empty()) continue;
    if (first.empty() || day < first) first = day;
    last = std::max(last, day);
  }
  return first == last ? first : first + " to " + last;
}

std::string opening(const Facts& facts, const ReportOptions& options) {
  std::string html = "<header>\n<h1>" + escaped(options.title) + "</h1>\n";
  std::vector<std::string> names = framework_labels(facts.frameworks());
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  html += "<p>" +
          escaped(cat(facts.all().size(), facts.all().size() == 1 ? " record" : " records", ", ", span_of_times(facts),
                      ". ", list)) +
          "</p>\n";
  html += "<div class=\"places\">\n";
  for (const Place& place : facts.main_places("step"))
    html += "<div><h2>" + escaped(place.machine) + " <small>training step, " + escaped(place.str()) +
            "</small></h2>\n" + tally_tiles(tally_of(facts.main_comparisons("step", place))) + "</div>\n";
  html += "</div>\n";
  return html + "</header>\n";
}

std::string problems_html(const std::vector<std::string>& problems) {
  if (problems.empty()) return "";
  std::string html =
      cat("<div class=\"problems\" role=\"note\"><b>", problems.size(),
          problems.size() == 1 ? " line was no record" : " lines were no records", "</b> and left out:\n<ul>\n");
  for (std::size_t i = 0; i < std::min<std::size_t>(problems.size(), 20); ++i)
    html += "<li>" + escaped(page::shortened(problems[i], 300)) + "</li>\n";
  return html + "</ul></div>\n";
}

std::vector<Section> with_blocks(std::vector<Section> sections) {
  std::erase_if(sections, [](const Section& section) { return section.blocks.empty(); });
  return sections;
}

std::vector<Section> measured_sections(const Facts& facts) {
  return with_blocks({step_section(facts), thread_section(facts), batch_section(facts), rank_section(facts),
                      memory_section(facts), utilisation_section(facts), training_section(facts),
                      inference_section(facts), parts_section(facts), ablation_section(facts), gaps_section(facts),
                      unchecked_section(facts)});
}

// What is said of all machines at once.
std::vector<Section> general_sections(const Facts& facts, const ReportOptions& options) {
  std::vector<Section> sections = {studies_section(facts)};
  for (Section& section : qualities(facts, options.root)) sections.push_back(std::move(section));
  sections.push_back(origins_section(facts));
  return with_blocks(std::move(sections));
}

std::vector<Section> sections_of(const Facts& facts, const ReportOptions& options) {
  std::vector<Section> sections = measured_sections(facts);
  for (Section& section : general_sections(facts, options)) sections.push_back(std::move(section));
  return sections;
}

std::string isa_of(const Facts& facts, const std::string& machine) {
  for (const Record& r : facts.of_machine(machine))
    if (const auto at = r.machine.find("isa"); at != r.machine.end() && at->is_string()) return at->get<std::string>();
  return "";
}

// One row for each machine and setting with a peer; what is slower is named.
Table summary_table(const Facts& facts) {
  Table table{.head = {"machine", "setting", "workloads", "faster", "level", "slower", "mean ratio", "least", "most"},
              .words = 2};
  for (const Place& place : facts.places("step")) {
    std::vector<Comparison> rows = facts.main_comparisons("step", place);
    std::erase_if(rows, [](const Comparison& row) { return !row.both(); });
    if (rows.empty()) continue;
    const auto by_ratio = [](const Comparison& a, const Comparison& b) { return a.ratio() < b.ratio(); };
    const auto cell = [](const Comparison& row) { return Cell(times(row.ratio()), row.workload); };
    const auto [least, most] = std::minmax_element(rows.begin(), rows.end(), by_ratio);
    const Tally tally = tally_of(rows);
    const std::string isa = isa_of(facts, place.machine);
    table.rows.push_back({Cell(place.machine, isa), place.str(), cat(tally.compared()), cat(tally.ahead),
                          cat(tally.level), cat(tally.behind), times(std::exp(tally.logs / tally.compared())),
                          cell(*least), cell(*most)});
  }
  table.note =
      "A ratio is the best peer's time of a training step over Varve's: above 1 Varve is faster. \"Level\": the 95% "
      "interval holds 1. The mean is geometric.";
  return table;
}

std::string contents(const std::vector<Section>& sections) {
  std::string html = "<nav aria-label=\"Contents\"><ul>\n";
  for (const Section& section : sections)
    html += "<li><a href=\"#" + escaped(section.id) + "\">" + escaped(section.id) + "</a></li>\n";
  return html + "</ul></nav>\n";
}

}  // namespace

std::string way_to_sources(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path sources = fs::weakly_canonical(VARVE_SOURCE_DIR, error),
                 folder = fs::weakly_canonical(fs::absolute(path), error).parent_path();
  if (error || !fs::exists(sources / "bench/report", error)) return "";
  const fs::path inside = folder.lexically_relative(sources);
  if (inside.empty() || inside.begin()->string() == "..") return "";
  const std::string way = sources.lexically_relative(folder).generic_string();
  return way + "/";
}

std::string report_page(const Facts& facts, const ReportOptions& options) {
  const std::vector<Section> sections = sections_of(facts, options);
  std::string body = opening(facts, options) + problems_html(options.problems) + contents(sections);
  for (const Section& section : sections) body += section_html(section);
  return page::html_document({.title = options.title, .style = kReportStyle, .body = body});
}

std::string report_markdown(const Facts& facts, const ReportOptions& options) {
  std::string text = "# " + markdown_text(options.title) + "\n\n";
  if (const Table summary = summary_table(facts); !summary.rows.empty())
    text += "<!-- summary -->\n" + table_markdown(summary) + "<!-- /summary -->\n\n";
  else
    text += "No other framework to compare with.\n\n";
  for (const std::string& problem : options.problems)
    text += "- left out: " + markdown_text(page::shortened(problem, 300)) + "\n";
  text += options.problems.empty() ? "" : "\n";
  for (const std::string& machine : facts.machines()) {
    const std::string isa = isa_of(facts, machine);
    text += "## " + markdown_text(machine) + (isa.empty() ? "" : " (" + markdown_text(isa) + ")") + "\n\n";
    const Facts here(facts.of_machine(machine));
    for (const Section& section : measured_sections(here)) text += section_markdown(section, 3);
  }
  for (const Section& section : general_sections(facts, options)) text += section_markdown(section);
  return text;
}

}  // namespace varve::bench
