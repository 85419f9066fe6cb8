// `varve bench submit`: checks files of records, and says how they come into the published results.
#include <iostream>

#include "base/text.h"
#include "bench/report/facts.h"
#include "bench/submit.h"
#include "cli/menu.h"
#include "varve/io.h"

namespace varve::cli {
namespace {

constexpr std::size_t kShownRefusals = 20;

void print_submission(const std::string& file, const bench::Submission& found) {
  if (!found.refusals.empty()) {
    std::cout << file << ": refused\n";
    for (std::size_t i = 0; i < std::min(found.refusals.size(), kShownRefusals); ++i)
      std::cout << "  " << found.refusals[i] << '\n';
    if (found.refusals.size() > kShownRefusals)
      std::cout << "  … and " << found.refusals.size() - kShownRefusals << " more\n";
    return;
  }
  const bench::Record& first = found.records.front();
  std::cout << file << ": " << found.records.size() << (found.records.size() == 1 ? " record" : " records") << " of "
            << bench::machine_name(first) << ", commit " << first.commit.substr(0, 12) << ": can be submitted\n";
}

void print_next_steps(const std::vector<std::pair<std::string, std::string>>& names) {
  std::cout << "\nWhat to do, in a clone of the sources:\n  git switch -c records\n";
  for (const auto& [from, to] : names) std::cout << "  cp " << from << " bench/results/" << to << '\n';
  std::cout << "  tools/results-page                      # writes docs/results.md and the README's table\n"
               "  git add bench/results docs README.md && git commit\n"
               "Add a line about the machine to bench/results/README.md, push the branch and open a pull request.\n";
}

constexpr const char* kSubmitExamples =
    R"(Asked of every record: the schema, the equity check, at least 3 processes and 10 samples, versions, the facts of the
machine; of a file: one machine, one commit without changes, Varve beside every peer. The exit code is 1 when a file is
refused; nothing is sent anywhere.

Example: varve bench submit records.jsonl)";

int submit(const std::vector<std::string>& files) {
  bool refused = false;
  std::vector<std::pair<std::string, std::string>> names;
  for (const std::string& file : files) {
    const bench::Submission found = bench::check_submission(load_text(file));
    print_submission(file, found);
    for (const std::string& remark : found.remarks) std::cout << "  remark: " << remark << '\n';
    refused = refused || !found.refusals.empty();
    names.emplace_back(file, found.file);
  }
  if (refused) return kFailure;
  print_next_steps(names);
  return kOk;
}

}  // namespace

void add_bench_submit(Menu& bench) {
  auto files = std::make_shared<std::vector<std::string>>();
  bench
      .command({.name = "submit",
                .what = "Check records before they join the published results",
                .examples = kSubmitExamples},
               [files] { return submit(*files); })
      .option("records", *files, "files of records, each of one machine", {.required = true});
}

}  // namespace varve::cli
