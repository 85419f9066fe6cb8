#include "cli/subject.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <set>

#include "base/cpu.h"
#include "base/text.h"
#include "runtime/devices.h"
#include "varve/compile.h"
#include "varve/data.h"
#include "varve/train/run.h"
#include "varve/version.h"
#include "varve/zoo.h"

namespace varve::cli {

bool is_setting(const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0 || !(word[0] >= 'a' && word[0] <= 'z')) return false;
  return std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  });
}

bool is_setting_name(const std::string& word) {
  static const std::set<std::string> known = [] {
    std::set<std::string> names = {"rate", "name", "classes", "steps", "from", "to", "sizes"};
    for (const train::ConfigKey& key : train::config_keys()) names.insert(key.name);
    for (const zoo::Entry& entry : zoo::entries()) names.insert(entry.sizes.begin(), entry.sizes.end());
    for (const char* kind :
         {"digits", "imdb", "ptb", "folder:", "csv:", "chars:", "text:", "audio:", "voc:", "jsonl:", "shards:"})
      for (const std::string& option : data::options_of(kind)) names.insert(option);
    return names;
  }();
  return known.count(word.substr(0, word.find('.'))) > 0;
}

namespace {

// Commands that take data without a network, and choose one for it.
bool chooses_networks(const std::string& command) { return command == "train" || command == "lr-find"; }

}  // namespace

Subject subject_of(const std::vector<std::string>& words, const std::string& command) {
  Subject subject;
  for (const std::string& word : words) {
    if (is_setting(word))
      subject.settings.push_back(word);
    else if (subject.what.empty())
      subject.what = word;
    else
      throw UsageError(cat("unexpected argument '", word, "' after '", subject.what,
                           "'. Settings are written key=value; ", "see: varve ", command, " --help"));
  }
  const bool has_data = std::any_of(subject.settings.begin(), subject.settings.end(),
                                    [](const std::string& setting) { return setting.starts_with("data="); });
  if (subject.what.empty() && !(has_data && chooses_networks(command)))
    throw UsageError(
        cat(command, " needs a network file, a name of the zoo (`varve zoo`) or the folder of a run. See: ", "varve ",
            command, " --help"));
  return subject;
}

bool is_run(const std::string& what) {
  std::error_code ignored;
  return std::filesystem::is_directory(what, ignored);
}

train::Config config_of(const Subject& subject, std::string* chosen) {
  if (subject.what.empty()) {
    const train::Chosen made = train::choose_network(subject.settings);
    if (chosen) *chosen = made.what;
    use_device(made.config.device, made.config.threads);
    return made.config;
  }
  std::error_code ignored;
  const bool file = std::filesystem::exists(subject.what, ignored) || subject.what.ends_with(".toml");
  // Twice, to tell apart what the file says wrongly and what the user asked for wrongly.
  try {
    train::load_config(subject.what);
  } catch (const Error& e) {
    if (file) throw;
    throw UsageError(e.what());
  }
  train::Config config;
  try {
    config = train::load_config(subject.what, subject.settings);
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
  use_device(config.device, config.threads);
  return config;
}

void use_device(const std::string& device, int thread_count) {
  if (!runtime::is_device_name(device)) {
    const std::vector<std::string> known = runtime::device_names();
    throw UsageError(
        cat("unknown device '", device, "'.", did_you_mean(device, known), " Known: ", quoted_list(known), "."));
  }
  set_device(device);
  if (thread_count <= 0) return;
  set_threads(thread_count);
  if (threads() < thread_count)
    std::cerr << "note: the system does not let this process start " << thread_count << " threads: it goes on with "
              << threads() << ".\n";
}

std::string machine_line() {
  return cat("varve ", version(), " · ", device(), ", ", threads(), threads() == 1 ? " thread, " : " threads, ",
             isa_name());
}

}  // namespace varve::cli
