#include "cli/menu.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include "base/text.h"
#include "cli/subject.h"
#include "varve/train/config.h"
#include "varve/version.h"

namespace varve::cli {
namespace {

const auto kAllCommands = [](const CLI::App*) { return true; };

template <class T>
CLI::Option* add_typed(CLI::App& app, const std::string& name, T& to, const std::string& doc, const Accepts& accepts) {
  CLI::Option* option = app.add_option(name, to, doc)->required(accepts.required);
  if (to != T{}) option->capture_default_str();
  return option;
}

template <class T>
void add_number(CLI::App& app, const std::string& name, T& to, const std::string& doc, const Accepts& accepts) {
  constexpr T lowest = std::numeric_limits<T>::lowest(), highest = std::numeric_limits<T>::max();
  const T least = accepts.least <= static_cast<double>(lowest) ? lowest : static_cast<T>(accepts.least);
  const T most = accepts.most >= static_cast<double>(highest) ? highest : static_cast<T>(accepts.most);
  add_typed(app, name, to, doc, accepts)->check(CLI::Range(least, most));
}

}  // namespace

struct Menu::State {
  CLI::App* root = nullptr;
  std::string line;
  Run chosen;  // filled while the words are read, called when all were understood
  std::set<std::string> takes_names;
  std::set<std::string> networks, settings;          // names of the commands that take them
  std::map<std::string, std::string> programs = {};  // files of the commands that are programs of their own
  std::map<std::string, std::vector<std::string>*> starters = {};  // where the words of what they start go
};

Command& Command::flag(const std::string& name, bool& to, const std::string& doc) {
  app_->add_flag(name, to, doc);
  return *this;
}

Command& Command::option(const std::string& name, std::string& to, const std::string& doc, const Accepts& accepts) {
  add_typed(*app_, name, to, doc, accepts);
  return *this;
}

Command& Command::option(const std::string& name, std::vector<std::string>& to, const std::string& doc,
                         const Accepts& accepts) {
  CLI::Option* option = add_typed(*app_, name, to, doc, accepts);
  if (!accepts.words.empty())
    option->delimiter(',')->check(CLI::IsMember(std::set<std::string>(accepts.words.begin(), accepts.words.end())));
  return *this;
}

Command& Command::option(const std::string& name, int& to, const std::string& doc, const Accepts& accepts) {
  add_number(*app_, name, to, doc, accepts);
  return *this;
}

Command& Command::option(const std::string& name, std::int64_t& to, const std::string& doc, const Accepts& accepts) {
  add_number(*app_, name, to, doc, accepts);
  return *this;
}

Command& Command::option(const std::string& name, double& to, const std::string& doc, const Accepts& accepts) {
  add_number(*app_, name, to, doc, accepts);
  return *this;
}

Command& Command::exclusive(const std::string& one, const std::string& other) {
  app_->get_option(one)->excludes(app_->get_option(other));
  return *this;
}

Command& Command::hide() {
  app_->group("");
  return *this;
}

Command Menu::command(const CommandText& text, Run run) const {
  CLI::App* app = app_->add_subcommand(text.name, text.what);
  if (text.takes_names) state_->takes_names.insert(text.name);
  app->footer(text.examples);
  app->allow_extras();  // unknown words are answered below, with the nearest known one
  app->callback([state = state_, run] {
    if (!state->chosen) state->chosen = run;
  });
  return Command(*app);
}

Command Menu::network_command(const CommandText& text, RunSubject run) const {
  state_->networks.insert(text.name);
  auto words = std::make_shared<std::vector<std::string>>();
  Command added = settings_command(text, [=, name = text.name] { return run(subject_of(*words, name)); });
  added.option("network", *words, "a network file, a name of the zoo or a run's folder; then key=value…");
  return added;
}

Command Menu::settings_command(const CommandText& text, Run run) const {
  state_->settings.insert(text.name);
  return command(text, std::move(run));
}

Menu Menu::submenu(const CommandText& text) const {
  command(text, [parent = app_, name = text.name] {
    std::cout << parent->get_subcommand(name)->help();
    return kBadUsage;
  });
  CLI::App* app = app_->get_subcommand(text.name);
  app->require_subcommand(0, 1);
  return {*app, *state_};
}

Command Menu::starter_command(const CommandText& text, std::vector<std::string>& rest, Run run) const {
  state_->starters[text.name] = &rest;
  return command(text, std::move(run));
}

void Menu::program(const CommandText& text, const std::string& file) const {
  command(text, [] { return kFailure; });  // for --help alone: it is started before words are read
  state_->programs[text.name] = file;
}

const std::string& Menu::line() const { return state_->line; }

std::vector<CommandWords> Menu::words() const {
  std::vector<CommandWords> all;
  for (const CLI::App* app : state_->root->get_subcommands(kAllCommands)) {
    CommandWords words{app->get_name(), {}, state_->networks.count(app->get_name()) > 0};
    for (const CLI::Option* option : app->get_options())
      for (const std::string& name : option->get_lnames()) words.options.push_back("--" + name);
    all.push_back(words);
  }
  return all;
}

namespace {

// The innermost command that was named, and the words that lead to it.
struct Named {
  const CLI::App* app;
  std::string words;
};
Named innermost(const CLI::App& app, const std::string& before = "") {
  const std::string words = before + app.get_name();
  const std::vector<CLI::App*> used = app.get_subcommands();
  return used.empty() ? Named{&app, words} : innermost(*used.back(), words + " ");
}

// Answers the first word that no command knew.
void refuse_unknown(const CLI::App& root, const std::set<std::string>& with_settings) {
  const std::vector<std::string> extras = root.remaining(true);
  if (extras.empty()) return;
  const auto [at, words] = innermost(root);
  std::string word = extras.front();
  std::vector<std::string> known;
  if (word.starts_with("-")) {
    word.erase(0, word.find_first_not_of('-') == std::string::npos ? 0 : word.find_first_not_of('-'));
    word = "--" + word.substr(0, word.find('='));
    for (const CLI::Option* option : at->get_options())
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    if (with_settings.count(at->get_name()) > 0)
      for (const train::ConfigKey& key : train::config_keys()) known.push_back("--" + key.name);
    throw UsageError(cat("unknown option '", word, "'.", did_you_mean(word, known), " See: ", words, " --help"));
  }
  for (const CLI::App* sub : at->get_subcommands(kAllCommands)) known.push_back(sub->get_name());
  std::string text =
      cat("unknown ", known.empty() ? "argument" : "command", " '", word, "'.", did_you_mean(word, known));
  text += known.empty() ? cat(" See: ", words, " --help") : cat(" Known: ", quoted_list(known), ".");
  throw UsageError(text);
}

// CLI11's own words about the other mistakes are short of what to do.
std::string parse_message(const CLI::App& root, const CLI::ParseError& e) {
  const auto [at, words] = innermost(root);
  std::string what = e.what();
  if (const std::size_t end = what.find(" is required"); e.get_name() == "RequiredError" && end != std::string::npos) {
    const std::string name = what.substr(0, end);
    const CLI::Option* option = at->get_option_no_throw(name);
    what = cat(words, " needs ", option ? option->get_description() : name);
  } else {
    what = cat(words, ": ", what);
  }
  return cat(what, what.ends_with('.') ? "" : ".", " See: ", words, " --help");
}

// Whether the word after "--epochs" is its value.
bool is_value(const std::string& word) {
  return !word.starts_with("-") || (word.size() > 1 && (word[1] == '.' || (word[1] >= '0' && word[1] <= '9')));
}

// Options may be written threads=1 for --threads=1; where settings are part of the command, --epochs=3 and --epochs 3
// are epochs=3.
std::vector<std::string> prepared_words(const CLI::App& root, const Menu::State& state,
                                        const std::vector<std::string>& words) {
  if (words.empty()) return words;
  const CLI::App* app = nullptr;
  for (const CLI::App* sub : root.get_subcommands(kAllCommands))
    if (sub->get_name() == words.front()) app = sub;
  const bool takes_settings = state.settings.count(words.front()) > 0;
  const bool takes_names = state.takes_names.count(words.front()) > 0;
  std::vector<std::string> options;
  if (app)
    for (const CLI::Option* option : app->get_options())
      for (const std::string& name : option->get_lnames()) options.push_back(name);
  std::vector<std::string> prepared;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string word = words[i];
    const bool dashed = word.starts_with("--");
    const std::string bare = dashed ? word.substr(2) : word;
    const bool known = app && app->get_option_no_throw("--" + bare.substr(0, bare.find('='))) != nullptr;
    if (is_setting(bare)) {
      if (takes_settings && dashed && !known) word = bare;
      const bool named = takes_names && !known && nearest(bare.substr(0, bare.find('=')), options).empty();
      if (!dashed && !named && (!takes_settings || known)) word = "--" + word;
    } else if (takes_settings && dashed && !known && is_setting_name(bare)) {
      if (i + 1 == words.size() || !is_value(words[i + 1]))
        throw UsageError(cat(word, " needs a value: ", word, " VALUE or ", bare, "=VALUE."));
      word = bare + "=" + words[++i];
    }
    prepared.push_back(word);
  }
  return prepared;
}

// Takes the words from the first one on that is neither an option of the command nor the value of one.
std::vector<std::string> take_rest(const CLI::App& app, std::vector<std::string>& words) {
  std::size_t at = 1;
  for (; at < words.size() && words[at].starts_with("-") && words[at] != "--"; ++at) {
    const CLI::Option* option = app.get_option_no_throw(words[at]);  // of "--ranks=4" there is none: one word
    if (option && option->get_expected_min() > 0) ++at;
  }
  at = std::min(at, words.size());
  const std::size_t first = at < words.size() && words[at] == "--" ? at + 1 : at;
  const std::vector<std::string> rest(words.begin() + static_cast<std::ptrdiff_t>(first), words.end());
  words.resize(at);
  return rest;
}

// The program beside this one, in place of this one.
int start(const std::string& file, const std::vector<std::string>& words) {
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe").parent_path() / file;
  std::string name = "varve";
  std::vector<std::string> copies = words;
  std::vector<char*> arguments = {name.data()};
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::cout.flush();
  execv(path.c_str(), arguments.data());
  throw std::runtime_error(cat("varve ", words.front(), " is a program of its own, ", file, ", and cannot be started: ",
                               path.string(), ": ", std::strerror(errno), ". `make build` builds both."));
}

constexpr const char* kFirstExamples = R"(Examples:
  varve demo                          train a first network on digits that it draws itself
  varve zoo                           networks with names;  varve datasets: what to train them on
  varve train fnn-mnist epochs=3      train one of them; settings are key=value
  varve train net.toml                train your own network file (docs/network-files.md)
  varve predict runs/lenet5-1 7.png   ask a trained network
  varve summary resnet50 batch=16     layers, parameters, operations, memory
  varve schema conv2d                 what a layer of a network file accepts
  varve doctor                        is everything in order here?
  varve ops conv pool                 operators with "conv" or "pool" in name or family
  varve bench ops matmul threads=1    time some operators on one thread

Settings may be written epochs=3, --epochs=3 or --epochs 3.
Exit codes: 0 success, 1 something failed, 2 bad usage; 130 and the like: saved and ended by a signal.)";

}  // namespace

int run(std::vector<std::string> words) {
  CLI::App root{"Varve: a deep-learning framework. Trains, runs and measures neural networks.", "varve"};
  root.set_version_flag("--version", std::string("varve ") + version());
  root.footer(kFirstExamples);
  root.allow_extras();
  root.require_subcommand(0, 1);
  Menu::State state{.root = &root, .line = "varve"};
  for (const std::string& word : words) state.line += " " + word;
  Menu menu(root, state);
  add_commands(menu);

  if (!words.empty())
    if (const auto found = state.programs.find(words.front()); found != state.programs.end())
      return start(found->second, words);
  if (!words.empty())
    if (const auto found = state.starters.find(words.front()); found != state.starters.end())
      *found->second = take_rest(*root.get_subcommand(words.front()), words);
  words = prepared_words(root, state, words);
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  try {
    root.parse(std::move(words));
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return root.exit(e);  // help and version
    refuse_unknown(root, state.settings);
    throw UsageError(parse_message(root, e));
  }
  refuse_unknown(root, state.settings);
  if (!state.chosen) return std::cout << root.help(), kBadUsage;
  return state.chosen();
}

}  // namespace varve::cli
