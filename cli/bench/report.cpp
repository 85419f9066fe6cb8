// `varve bench report`.

#include <filesystem>
#include <iostream>

#include "base/text.h"
#include "bench/report/report.h"
#include "cli/menu.h"
#include "varve/io.h"

namespace varve::cli {
namespace {

struct BenchReportOptions {
  std::vector<std::string> files = {};
  std::string out = "";       // HTML
  std::string markdown = "";  // Markdown
  std::string title = "Varve benchmark";
};

constexpr const char* kBenchReportExamples =
    R"(The page opens without a network: step times with intervals, ratios to the best peer, scaling, memory, accuracy against
time, the studies' tables. Each machine has its own tables. A line that is no record is left out and named; records that
were measured without the equity check are listed, and used for no figure.

Examples:
  varve bench report records.jsonl                       writes report.html
  varve bench report bench/results/*.jsonl markdown=report.md          the tables of docs/results.md)";

int run_bench_report(const BenchReportOptions& options) {
  const bench::Collected found = bench::collect(options.files);
  for (const std::string& problem : found.problems) std::cerr << "left out: " << problem << '\n';
  if (found.records.empty())
    throw Error(cat("no records in ", quoted_list(options.files), ". Make some: varve bench step json=records.jsonl"));
  const std::string out = options.out.empty() && options.markdown.empty() ? "report.html" : options.out;
  const bench::Facts facts(found.records);
  bench::ReportOptions how{.title = options.title, .problems = found.problems};
  if (!out.empty()) {
    how.root = bench::way_to_sources(out);
    save_text(out, bench::report_page(facts, how));
    std::cout << out << ": " << facts.all().size() << " records\n";
  }
  if (!options.markdown.empty()) {
    how.root = bench::way_to_sources(options.markdown);
    save_text(options.markdown, bench::report_markdown(facts, how));
    std::cout << options.markdown << ": " << facts.all().size() << " records\n";
  }
  return kOk;
}

}  // namespace

void add_bench_report(Menu& bench) {
  auto options = std::make_shared<BenchReportOptions>();
  bench
      .command(
          {.name = "report", .what = "Make a page and Markdown tables of records", .examples = kBenchReportExamples},
          [options] { return run_bench_report(*options); })
      .option("records", options->files, "files of records, as json= writes them", {.required = true})
      .option("--out", options->out, "the page; report.html unless markdown= is asked for alone")
      .option("--markdown", options->markdown, "the tables as Markdown")
      .option("--title", options->title, "of the page");
}

}  // namespace varve::cli
