// `varve runs`: the runs that are there; several of them side by side, in a table or on a page; and away with them.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/menu.h"
#include "cli/runs_page.h"
#include "cli/text.h"

namespace varve::cli {
namespace {

namespace fs = std::filesystem;

struct RunsOptions {
  std::vector<std::string> words;
  std::string out = "runs.html";
  bool json = false;
  bool yes = false;
};

constexpr const char* kRunsExamples =
    R"(A RUN is a run's folder; a folder of runs stands for all in it. Without one: runs.

Examples:
  varve runs                                     what there is, how far it came, and how well it did
  varve runs list elsewhere/runs --json
  varve runs compare runs/lenet5-1 runs/lenet5-2 settings that differ, and results
  varve runs plot runs --out compared.html       curves of all in one page
  varve runs delete runs/lenet5-1                asks first; --yes does not)";

std::string run_value(double value) {
  return std::isfinite(value) ? fixed(value, std::abs(value) >= 100 ? 2 : 4) : "-";
}

// Runs that were named, and those inside folders that were.
std::vector<std::string> folders_of(std::vector<std::string> words) {
  if (words.empty()) words = {"runs"};
  std::vector<std::string> folders;
  for (const std::string& word : words) {
    if (train::is_run_folder(word)) {
      folders.push_back(word);
      continue;
    }
    const std::vector<std::string> inside = train::run_folders(word);
    if (inside.empty())
      throw UsageError(cat(fs::exists(word) ? "there are no runs in '" : "there is no folder '", word,
                           "'. `varve train` makes runs, under runs/ unless told otherwise."));
    folders.insert(folders.end(), inside.begin(), inside.end());
  }
  return folders;
}

std::string best_text(const train::History& history) {
  if (history.best_epoch == 0) return "-";
  return cat(history.monitor, " ", run_value(history.best), " at epoch ", history.best_epoch);
}

std::string test_text(const train::RunInfo& run) {
  for (const auto& [name, value] : run.test)
    if (name != "loss" || run.test.size() == 1) return cat("test ", name, " ", run_value(value));
  return "";
}

nlohmann::ordered_json json_of(const train::RunInfo& run) {
  nlohmann::ordered_json json{{"run", run.folder},
                              {"name", run.config.name},
                              {"state", name(run.state)},
                              {"epochs", run.history.epochs.size()},
                              {"epochs_wanted", run.config.epochs},
                              {"seconds", run.history.seconds},
                              {"monitor", run.history.monitor},
                              {"best", nullptr},
                              {"best_epoch", run.history.best_epoch},
                              {"data", run.config.data}};
  if (run.history.best_epoch > 0) json["best"] = run.history.best;
  for (const auto& [metric, value] : run.test) json["test_" + metric] = value;
  return json;
}

int list_runs(const std::vector<std::string>& words, bool json) {
  auto all = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> rows = {{"run", "state", "epochs", "time", "best", ""}};
  for (const std::string& folder : folders_of(words)) {
    try {
      const train::RunInfo run = train::inspect_run(folder);
      all.push_back(json_of(run));
      rows.push_back({folder, name(run.state), cat(run.history.epochs.size(), "/", run.config.epochs),
                      fixed(run.history.seconds, 1) + " s", best_text(run.history), test_text(run)});
    } catch (const Error& e) {  // one that is damaged must not hide the others
      all.push_back({{"run", folder}, {"state", "damaged"}, {"error", e.what()}});
      rows.push_back({folder, "damaged", "", "", e.what()});
    }
  }
  std::cout << (json ? all.dump(1) + "\n" : aligned(rows));
  return kOk;
}

std::vector<train::RunInfo> runs_of(const std::vector<std::string>& words) {
  std::vector<train::RunInfo> runs;
  for (const std::string& folder : folders_of(words)) runs.push_back(train::inspect_run(folder));
  return runs;
}

int compare(const std::vector<std::string>& words, bool json) {
  const std::vector<train::RunInfo> runs = runs_of(words);
  const std::vector<std::vector<std::string>> rows = comparison(runs);
  if (!json) {
    std::cout << aligned(rows);
    return kOk;
  }
  auto all = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto object = nlohmann::ordered_json::object();
    for (const auto& row : rows) object[row[0].empty() ? "run" : row[0]] = row[i + 1];
    all.push_back(object);
  }
  std::cout << all.dump(1) << '\n';
  return kOk;
}

int plot(const std::vector<std::string>& words, const std::string& out) {
  save_runs_page(out, runs_of(words));
  std::cout << out << '\n';
  return kOk;
}

bool agreed(const std::string& question) {
  std::cout << printable(question) << " [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

int delete_runs(const std::vector<std::string>& words, bool yes) {
  if (words.empty()) throw UsageError("delete needs the folders of runs: varve runs delete runs/lenet5-1");
  std::vector<train::RunInfo> runs;
  for (const std::string& word : words) {
    if (!train::is_run_folder(word))
      throw UsageError(cat("'", word, "' is not the folder of a run: config.toml and last.safetensors are expected in ",
                           "it. Nothing was deleted."));
    runs.push_back(train::inspect_run(word));
    if (!runs.back().holder.empty())
      throw Error(cat(word, " is being written by ", runs.back().holder, ": stop it first. Nothing was deleted."));
  }
  if (!yes && !isatty(STDIN_FILENO))
    throw UsageError("delete asks before it deletes, and nobody can answer: add --yes.");
  for (const train::RunInfo& run : runs) {
    const std::size_t epochs = run.history.epochs.size();
    if (!yes && !agreed(cat("delete ", run.folder, " (", name(run.state), ", ", epochs,
                            epochs == 1 ? " epoch)?" : " epochs)?")))
      continue;
    fs::remove_all(run.folder);
    std::cout << "deleted " << printable(run.folder) << '\n';
  }
  return kOk;
}

int run_runs(const RunsOptions& options) {
  std::vector<std::string> words = options.words;
  const std::vector<std::string> actions = {"list", "compare", "plot", "delete"};
  std::string action = "list";
  if (!words.empty() && std::find(actions.begin(), actions.end(), words[0]) != actions.end()) {
    action = words[0];
    words.erase(words.begin());
  } else if (!words.empty() && !fs::exists(words[0])) {
    throw UsageError(cat("'", words[0], "' is neither a folder nor one of ", joined(actions, ", "), ".",
                         did_you_mean(words[0], actions)));
  }
  if (action == "compare") return compare(words, options.json);
  if (action == "plot") return plot(words, options.out);
  if (action == "delete") return delete_runs(words, options.yes);
  return list_runs(words, options.json);
}

}  // namespace

void add_runs(Menu& menu) {
  auto options = std::make_shared<RunsOptions>();
  menu.command({.name = "runs", .what = "List runs, compare, plot or delete them", .examples = kRunsExamples},
               [options] { return run_runs(*options); })
      .option("words", options->words, "list, compare, plot or delete; then RUN…")
      .option("--out", options->out, "the page that plot writes")
      .flag("--json", options->json, "the list or the comparison as one JSON array")
      .flag("--yes", options->yes, "delete without asking");
}

}  // namespace varve::cli
