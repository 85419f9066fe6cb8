// Runs that are there already.
#include <algorithm>
#include <filesystem>

#include "train/checkpoint.h"
#include "train/run_folder.h"
#include "train/run_lock.h"
#include "varve/train/run.h"

namespace varve::train {
namespace {

namespace fs = std::filesystem;

RunState state_of(const RunInfo& run) {
  if (!run.holder.empty()) return RunState::training;
  if (!run.history.stopped.empty()) return RunState::stopped;
  return static_cast<int>(run.history.epochs.size()) >= run.config.epochs ? RunState::finished : RunState::interrupted;
}

// lenet5-2 before lenet5-10.
struct Numbered {
  std::string stem;
  std::size_t number_length;
  std::string number;
  explicit Numbered(const std::string& name) {
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;
    stem = name.substr(0, digits);
    number = name.substr(digits);
    number_length = number.size();
  }
  auto operator<=>(const Numbered&) const = default;
};

}  // namespace

std::string name(RunState state) {
  switch (state) {
    case RunState::training:
      return "training";
    case RunState::finished:
      return "finished";
    case RunState::stopped:
      return "stopped early";
    case RunState::interrupted:
      return "interrupted";
  }
  return "";
}

bool is_run_folder(const std::string& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder + "/config.toml", ignored) && fs::is_regular_file(last_checkpoint(folder), ignored);
}

RunInfo inspect_run(const std::string& folder) {
  if (!is_run_folder(folder))
    throw Error(folder + ": is not the folder of a run: config.toml and last.safetensors are expected in it.");
  RunInfo run{.folder = folder, .holder = holder_of(folder), .config = load_config(folder), .history = {}, .test = {}};
  run.history = peek_checkpoint(last_checkpoint(folder)).history;
  run.history.run = folder;
  run.test = load_test(folder);
  run.state = state_of(run);
  return run;
}

std::vector<std::string> run_folders(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (is_run_folder(at->path().string())) found.push_back(at->path().string());
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return Numbered(a) < Numbered(b); });
  return found;
}

}  // namespace varve::train
