#include <filesystem>
#include <iostream>

#include "base/cpu.h"
#include "base/text.h"
#include "bench/machine_facts.h"
#include "bench/study.h"
#include "bench_report.h"
#include "commands.h"
#include "text.h"
#include "varve/io.h"

namespace varve::cli {
namespace {

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

}  // namespace

int bench_study(const BenchStudyOptions& options) {
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

}  // namespace varve::cli
