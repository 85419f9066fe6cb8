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

std::vector<Section> sections_of(const Facts& facts, const ReportOptions& options) {
  std::vector<Section> sections = {step_section(facts),      thread_section(facts),      batch_section(facts),
                                   memory_section(facts),    utilisation_section(facts), training_section(facts),
                                   inference_section(facts), parts_section(facts),       ablation_section(facts),
                                   gaps_section(facts),      studies_section(facts)};
  for (Section& section : qualities(facts, options.root)) sections.push_back(std::move(section));
  sections.push_back(origins_section(facts));
  std::erase_if(sections, [](const Section& section) { return section.blocks.empty(); });
  return sections;
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
  for (const Place& place : facts.main_places("step")) {
    const Tally tally = tally_of(facts.main_comparisons("step", place));
    text += cat("- ", markdown_text(place.machine + ", " + place.str()), ": ");
    text += tally.compared() == 0 ? "no other framework to compare with\n"
                                  : cat("ahead of the best peer in ", tally.ahead, ", level in ", tally.level,
                                        ", behind in ", tally.behind, " of ", tally.compared(), " workloads\n");
  }
  for (const std::string& problem : options.problems)
    text += "- left out: " + markdown_text(page::shortened(problem, 300)) + "\n";
  text += "\n";
  for (const Section& section : sections_of(facts, options)) {
    const bool steps = section.id == "steps";
    text += (steps ? "<!-- steps -->\n" : "") + section_markdown(section) + (steps ? "<!-- /steps -->\n\n" : "");
  }
  return text;
}

}  // namespace varve::bench
