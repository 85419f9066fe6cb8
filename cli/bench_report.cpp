#include "bench_report.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>

#include "base/text.h"
#include "bench/report/report.h"
#include "bench_submit.h"
#include "commands.h"
#include "varve/io.h"

namespace varve::cli {
namespace {

constexpr const char* kReportHelp =
    R"(The page opens without a network: step times with intervals, ratios to the best peer, scaling, memory, accuracy against
time, the studies' tables. Each machine has its own tables. A line that is no record is left out and named; records that
were measured without the equity check are listed, and used for no figure.

Examples:
  varve bench report records.jsonl                       writes report.html
  varve bench report bench/results/*.jsonl markdown=report.md          the tables of docs/results.md)";

constexpr const char* kStudyHelp =
    R"(Studies: shatnawi2018 (threads × data set, seconds to equal accuracy), kabakus2020 (training time, testing time and
accuracy of three networks over ten runs), shi2016 (six networks by threads and by batch size). What the json file
holds already is not measured again, so that a run which was stopped goes on where it was.

Examples:
  varve bench study shi2016 --plan                       what would be measured
  varve bench study kabakus2020 runs=3 workloads=fnn-mnist,lstm-imdb
  varve bench study shi2016 threads=1,2 frameworks=varve,torch json=shi.jsonl)";

}  // namespace

int bench_report(const BenchReportOptions& options) {
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

void add_report_commands(CLI::App& bench, const AddCommand& add, ReportArguments& arguments) {
  BenchReportOptions& report = arguments.report;
  CLI::App* report_app = add(
      bench, "report", "Make a page and Markdown tables of records", [&] { return bench_report(report); }, kReportHelp);
  report_app->add_option("records", report.files, "files of records, as json= writes them")->required();
  report_app->add_option("--out", report.out, "the page; report.html unless markdown= is asked for alone");
  report_app->add_option("--markdown", report.markdown, "the tables as Markdown");
  report_app->add_option("--title", report.title, "of the page")->capture_default_str();

  CLI::App* submit_app = add(
      bench, "submit", "Check records before they join the published results",
      [&] { return bench_submit(arguments.submitted); }, kSubmitHelp);
  submit_app->add_option("records", arguments.submitted, "files of records, each of one machine")->required();

  BenchStudyOptions& study = arguments.study;
  CLI::App* study_app = add(
      bench, "study", "Run a published study's whole protocol and print its tables", [&] { return bench_study(study); },
      kStudyHelp);
  study_app->add_option("name", study.name, "shatnawi2018, kabakus2020 or shi2016")->required();
  study_app->add_option("--workloads", study.workloads, "some of the study's");
  study_app->add_option("--frameworks", study.frameworks, "varve, torch and keras-tensorflow unless given");
  study_app->add_option("--threads", study.threads, "the study's unless given, as far as there are cores");
  study_app->add_option("--batch", study.batch, "sizes; the study's unless given, on a CPU up to four times its own");
  study_app->add_option("--device", study.device, "cpu, cuda or both");
  study_app->add_option("--runs", study.runs, "repetitions; as many as the study made unless given")
      ->check(CLI::Range(1, 1000));
  study_app->add_option("--epochs", study.epochs, "of each training; the study's unless given")
      ->check(CLI::Range(1, 100000));
  study_app->add_option("--json", study.json, "a file for the records; the study's name with .jsonl unless given");
  study_app->add_option("--markdown", study.markdown, "a file for the tables");
  study_app->add_flag("--plan", study.plan, "list what would be measured, measure nothing");
}

}  // namespace varve::cli
