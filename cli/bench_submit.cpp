#include "bench_submit.h"

#include <iostream>

#include "base/text.h"
#include "bench/report/facts.h"
#include "bench/submit.h"
#include "commands.h"
#include "varve/io.h"

namespace varve::cli {
namespace {

constexpr std::size_t kShown = 20;

void print(const std::string& file, const bench::Submission& found) {
  if (!found.refusals.empty()) {
    std::cout << file << ": refused\n";
    for (std::size_t i = 0; i < std::min(found.refusals.size(), kShown); ++i)
      std::cout << "  " << found.refusals[i] << '\n';
    if (found.refusals.size() > kShown) std::cout << "  … and " << found.refusals.size() - kShown << " more\n";
    return;
  }
  const bench::Record& first = found.records.front();
  std::cout << file << ": " << found.records.size() << (found.records.size() == 1 ? " record" : " records") << " of "
            << bench::machine_name(first) << ", commit " << first.commit.substr(0, 12) << ": can be submitted\n";
}

void print_what_to_do(const std::vector<std::pair<std::string, std::string>>& names) {
  std::cout << "\nWhat to do, in a clone of the sources:\n  git switch -c records\n";
  for (const auto& [from, to] : names) std::cout << "  cp " << from << " bench/results/" << to << '\n';
  std::cout << "  tools/results-page                      # writes docs/results.md and the README's table\n"
               "  git add bench/results docs README.md && git commit\n"
               "Add a line about the machine to bench/results/README.md, push the branch and open a pull request.\n";
}

}  // namespace

const char* const kSubmitHelp =
    R"(Asked of every record: the schema, the equity check, at least 3 processes and 10 samples, versions, the facts of the
machine; of a file: one machine, one commit without changes, Varve beside every peer. The exit code is 1 when a file is
refused; nothing is sent anywhere.

Example: varve bench submit records.jsonl)";

int bench_submit(const std::vector<std::string>& files) {
  bool refused = false;
  std::vector<std::pair<std::string, std::string>> names;
  for (const std::string& file : files) {
    const bench::Submission found = bench::check_submission(load_text(file));
    print(file, found);
    for (const std::string& remark : found.remarks) std::cout << "  remark: " << remark << '\n';
    refused = refused || !found.refusals.empty();
    names.emplace_back(file, found.file);
  }
  if (refused) return kFailure;
  print_what_to_do(names);
  return kOk;
}

}  // namespace varve::cli
