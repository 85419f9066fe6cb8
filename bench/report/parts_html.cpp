// Pieces of HTML that several sections use.
#include <algorithm>

#include "bench/report/sections.h"
#include "page/chart.h"
#include "page/markup.h"
#include "page/numbers.h"

namespace varve::bench {

using page::escaped;

std::vector<std::string> framework_labels(const std::vector<std::string>& frameworks) {
  std::vector<std::string> labels;
  for (const std::string& name : frameworks) labels.push_back(label(name));
  return labels;
}

std::string legend_html(const std::vector<std::string>& frameworks) {
  std::string html = "<ul class=\"legend\">\n";
  for (const std::string& name : frameworks)
    html += "<li>" + page::swatch_svg(style_of(name)) + escaped(label(name)) + "</li>\n";
  return html + "</ul>\n";
}

std::string grid_html(const std::string& charts) { return "<div class=\"charts\">\n" + charts + "</div>\n"; }

std::string machine_heading(const Facts& facts, const std::string& machine) {
  return facts.machines().size() < 2 ? "" : "<h3>" + escaped(machine) + "</h3>\n";
}

std::string bars_html(const std::string& title, const std::vector<BarRow>& rows) {
  double most = 0;
  for (const BarRow& row : rows) most = std::max(most, row.value);
  std::string html = "<div class=\"card\"><h4>" + escaped(title) + "</h4>\n<ul class=\"bars\">\n";
  for (const BarRow& row : rows) {
    html += "<li><span>" + escaped(row.name) + "</span>";
    if (row.value > 0)
      html += "<span class=\"meter\"><i class=\"c" + std::to_string(row.style) +
              "\" style=\"width:" + page::fixed(100 * row.value / most, 1) + "%\"></i></span><b>" + escaped(row.words) +
              "</b>";
    else
      html += "<em>" + escaped(row.words) + "</em>";
    html += "</li>\n";
  }
  return html + "</ul></div>\n";
}

}  // namespace varve::bench
