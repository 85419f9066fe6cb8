// `varve bench report` and `varve bench study`.
#pragma once

#include <string>
#include <vector>

#include "bench_arguments.h"

namespace varve::cli {

struct BenchReportOptions {
  std::vector<std::string> files = {};
  std::string out = "";       // HTML
  std::string markdown = "";  // Markdown
  std::string title = "Varve benchmark";
};
int bench_report(const BenchReportOptions& options);

struct BenchStudyOptions {
  std::string name = "";
  std::string workloads = "", frameworks = "", threads = "", batch = "", device = "";  // lists with commas
  int runs = 0;                                                                        // 0: as many as the study made
  int epochs = 0;                                                                      // 0: the study's
  std::string json = "";      // records, kept and resumed; "": named after the study
  std::string markdown = "";  // the tables as a file
  bool plan = false;          // list what would be measured
  std::string command = "";
};
int bench_study(const BenchStudyOptions& options);

struct ReportArguments {
  BenchReportOptions report;
  BenchStudyOptions study;
  std::vector<std::string> submitted;  // files
};
void add_report_commands(CLI::App& bench, const AddCommand& add, ReportArguments& arguments);

}  // namespace varve::cli
