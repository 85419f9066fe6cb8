// `varve bench report`: records as a page that opens offline, and as Markdown.
#pragma once

#include <string>
#include <vector>

#include "bench/report/facts.h"

namespace varve::bench {

struct ReportOptions {
  std::string title = "Varve benchmark";
  std::vector<std::string> problems = {};  // lines that were no records: the page says so
  std::string root = "";                   // from the page's folder to that of the sources ("../../"); "": no links
};

// How the folder of `path` leads to that of the sources; "" when it lies outside of them.
std::string way_to_sources(const std::string& path);

std::string report_page(const Facts& facts, const ReportOptions& options = {});
// The same tables, machine by machine. The table of ratios stands between <!-- summary --> and <!-- /summary -->.
std::string report_markdown(const Facts& facts, const ReportOptions& options = {});

}  // namespace varve::bench
