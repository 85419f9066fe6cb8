// `varve bench study`.
#include <filesystem>
#include <iostream>

#include "base/cpu.h"
#include "base/text.h"
#include "bench/machine_facts.h"
#include "bench/study.h"
#include "cli/menu.h"
#include "cli/text.h"
#include "varve/io.h"

namespace varve::cli {
namespace {

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

constexpr const char* kBenchStudyExamples =
    R"(Studies: shatnawi2018 (threads × data set, seconds to equal accuracy), kabakus2020 (training time, testing time and
accuracy of three networks over ten runs), shi2016 (six networks by threads and by batch size). What the json file
holds already is not measured again, so that a run which was stopped goes on where it was.

Examples:
  varve bench study shi2016 --plan                       what would be measured
  varve bench study kabakus2020 runs=3 workloads=fnn-mnist,lstm-imdb
  varve bench study shi2016 threads=1,2 frameworks=varve,torch json=shi.jsonl)";

bench::StudyChoices choices_of(const BenchStudyOptions& options) {
  bench::StudyChoices choices;
  choices.workloads = bench::words_of(options.workloads);
  choices.frameworks = bench::words_of(options.frameworks);
  choices.devices = bench::words_of(options.device);
  choices.batches = bench::whole_numbers(options.batch, "batch", 1 << 24);
  for (const std::int64_t count : bench::whole_numbers(options.threads, "threads", 1024))
    choices.threads.push_back(static_cast<int>(count));
  choices.runs = options.runs, choices.epochs = options.epochs;
  choices.cores = physical_cores();
  return choices;
}

struct Asked {
  const bench::Study& study;
  bench::StudyPlan plan;
};
Asked asked_for(const BenchStudyOptions& options) {
  try {
    const bench::Study& study = bench::find_study(options.name);
    return {study, bench::study_plan(study, choices_of(options))};
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
}

void print_plan(const bench::StudyPlan& plan, const std::vector<bench::StudyCell>& left) {
  std::cout << plan.cells.size() << " settings, " << left.size() << " to measure, each with ";
  for (std::size_t i = 0; i < plan.frameworks.size(); ++i) std::cout << (i == 0 ? "" : ", ") << plan.frameworks[i];
  std::cout << ":\n";
  for (const bench::StudyCell& cell : left) std::cout << "  " << cell.kind << "  " << cell.setting.str() << '\n';
}

void measure(const BenchStudyOptions& options, const bench::StudyPlan& plan, const std::vector<bench::StudyCell>& left,
             const std::string& path) {
  Progress progress(0);
  bench::RecordFile file(path);
  bench::Driver driver({.rounds = plan.rounds,
                        .limit_seconds = 24 * 3600,
                        .epochs = plan.epochs,
                        .command = options.command,
                        .say = [&](const std::string& line) { progress.show(line); },
                        .keep = [&](const bench::Record& record) { file.add(record); },
                        .so_far = [&](const std::vector<bench::Record>& records) { file.add_so_far(records); }});
  for (std::size_t i = 0; i < left.size(); ++i) {
    driver.at(i, left.size());
    driver.measure(left[i].kind, left[i].setting, plan.frameworks);
  }
}

int run_bench_study(const BenchStudyOptions& options) {
  const auto [study, plan] = asked_for(options);
  const std::string path = options.json.empty() ? study.name + ".jsonl" : options.json;
  const auto read = [&] {
    const bool there = std::filesystem::exists(path);
    bench::Collected found = there ? bench::collect({path}) : bench::Collected{};
    for (const std::string& problem : found.problems) std::cerr << "left out: " << problem << '\n';
    return found.records;
  };
  bench::Record here;
  here.machine = bench::machine_facts();
  const std::vector<bench::StudyCell> left = bench::still_to_measure(plan, read(), bench::machine_name(here));
  if (options.plan) return print_plan(plan, left), kOk;
  measure(options, plan, left, path);

  const bench::Facts facts(read());
  std::string text = study.citation + "\n" + study.asks + "\n\n",
              markdown = "# " + study.citation + "\n\n" + study.asks + "\n\n";
  std::vector<bench::Table> tables = study.tables(facts);
  tables.push_back(bench::tools_table(study));
  for (const bench::Table& table : tables)
    text += bench::table_text(table) + "\n", markdown += bench::table_markdown(table);
  std::cout << text;
  for (const std::string& finding : study.found) std::cout << "The study found: " << finding << '\n';
  if (!options.markdown.empty()) save_text(options.markdown, markdown);
  return kOk;
}

}  // namespace

void add_bench_study(Menu& bench) {
  auto options = std::make_shared<BenchStudyOptions>();
  options->command = bench.line();
  bench
      .command({.name = "study",
                .what = "Run a published study's whole protocol and print its tables",
                .examples = kBenchStudyExamples},
               [options] { return run_bench_study(*options); })
      .option("name", options->name, "shatnawi2018, kabakus2020 or shi2016", {.required = true})
      .option("--workloads", options->workloads, "some of the study's")
      .option("--frameworks", options->frameworks, "varve, torch and keras-tensorflow unless given")
      .option("--threads", options->threads, "the study's unless given, as far as there are cores")
      .option("--batch", options->batch, "sizes; the study's unless given, on a CPU up to four times its own")
      .option("--device", options->device, "cpu, cuda or both")
      .option("--runs", options->runs, "repetitions; as many as the study made unless given",
              {.least = 1, .most = 1000})
      .option("--epochs", options->epochs, "of each training; the study's unless given", {.least = 1, .most = 100000})
      .option("--json", options->json, "a file for the records; the study's name with .jsonl unless given")
      .option("--markdown", options->markdown, "a file for the tables")
      .flag("--plan", options->plan, "list what would be measured, measure nothing");
}

}  // namespace varve::cli
