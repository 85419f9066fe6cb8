#include "arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <iostream>

#include "base/text.h"
#include "commands.h"

namespace varve::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  varve demo                          train a first network on data it makes itself
  varve demo device=reference         the same on the slow, exact backend
  varve ops                           every operator, and what each can do
  varve ops conv pool                 those with "conv" or "pool" in name or family
  varve bench ops                     time operators against the machine's measured peak
  varve bench ops matmul threads=1    some of them, on one thread
  varve bench ops --json > ops.jsonl  one JSON object a line
  varve info                          what this build and this machine offer

Settings may be written --threads 1, --threads=1 or threads=1.
Exit codes: 0 well, 1 something failed, 2 bad usage.)";

CLI::App* command(CLI::App& parent, const std::string& name, const std::string& what, const std::string& footer = "") {
  CLI::App* app = parent.add_subcommand(name, what);
  app->footer(footer);
  app->allow_extras();  // unknown words are answered below, with the nearest known one
  return app;
}

void add_machine_options(CLI::App& app, std::string& device, int& threads) {
  app.add_option("--device", device, "where to compute: cpu, reference")->capture_default_str();
  app.add_option("--threads", threads, "how many threads; the physical cores unless given")->check(CLI::Range(1, 1024));
}

void add_demo(CLI::App& app, DemoOptions& options, std::function<int()>& chosen) {
  CLI::App* demo_app = command(app, "demo", "Train a first network: interleaved spirals, told apart by a perceptron",
                               "Example: varve demo steps=300 device=reference");
  add_machine_options(*demo_app, options.device, options.threads);
  demo_app->add_option("--steps", options.steps, "training steps")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1000000}))
      ->capture_default_str();
  demo_app->add_option("--seed", options.seed, "another seed, other data and weights")->capture_default_str();
  demo_app->callback([&] { chosen = [&] { return demo(options); }; });
}

void add_ops(CLI::App& app, OpsOptions& options, std::function<int()>& chosen) {
  CLI::App* ops_app = command(app, "ops", "List the operators: what each computes, its gradient, who runs it",
                              "Example: varve ops --markdown > docs/operators.md");
  ops_app->add_option("filter", options.filters, "only operators with one of these words in name or family");
  ops_app->add_flag("--json", options.json, "one JSON array");
  ops_app->add_flag("--markdown", options.markdown, "the page docs/operators.md")->excludes("--json");
  ops_app->callback([&] { chosen = [&] { return ops(options); }; });
}

void add_bench(CLI::App& app, BenchOptions& options, std::function<int()>& chosen) {
  CLI::App* bench = command(app, "bench", "Measure speed");
  bench->require_subcommand(0, 1);
  bench->callback([&] {
    if (!chosen) chosen = [&app] { return std::cout << app.help(), kBadUsage; };  // of what was named: bench
  });
  CLI::App* ops_app =
      command(*bench, "ops", "Time operators, each as a compiled program, against the machine's measured peak",
              "The peak is measured first: fused multiply-adds in registers, and a triad over memory. A row is the\n"
              "median of at least ten runs after warm-up. Example: varve bench ops conv2d threads=1");
  ops_app->add_option("filter", options.filters, "only cases with one of these words in operator or shape");
  ops_app->add_flag("--json", options.json, "one JSON object a line");
  ops_app->add_flag("--list", options.list, "name the cases, measure nothing");
  add_machine_options(*ops_app, options.device, options.threads);
  ops_app->callback([&] { chosen = [&] { return bench_ops(options); }; });
}

void add_info(CLI::App& app, InfoOptions& options, std::function<int()>& chosen) {
  CLI::App* info_app = command(app, "info", "Say what this build and this machine offer");
  info_app->add_flag("--json", options.json, "one JSON object");
  info_app->callback([&] { chosen = [&] { return info(options); }; });
}

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

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  const std::string meant = nearest(word, known);
  return meant.empty() ? "" : cat(" Did you mean '", meant, "'?");
}

// Answers the first word that no command knew.
void refuse_unknown(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining(true);
  if (extras.empty()) return;
  const auto [at, words] = innermost(app);
  std::string word = extras.front();
  std::vector<std::string> known;
  if (word.starts_with("-")) {
    word.erase(0, word.find_first_not_of('-') == std::string::npos ? 0 : word.find_first_not_of('-'));
    word = word.substr(0, word.find('='));
    for (const CLI::Option* option : at->get_options())
      for (const std::string& name : option->get_lnames()) known.push_back(name);
    throw UsageError(cat("unknown option '", word, "'.", did_you_mean(word, known), " See: ", words, " --help"));
  }
  for (const CLI::App* sub : at->get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(sub->get_name());
  std::string text =
      cat("unknown ", known.empty() ? "argument" : "command", " '", word, "'.", did_you_mean(word, known));
  if (!known.empty()) text += cat(" Known: ", quoted_list(known), ".");
  throw UsageError(text);
}

// threads=1 is --threads=1.
bool is_setting(const std::string& word) {
  const std::size_t equals = word.find('=');
  return equals != std::string::npos && equals > 0 &&
         std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals),
                     [](char c) { return (c >= 'a' && c <= 'z') || c == '-' || c == '_'; }) &&
         word[0] != '-';
}

}  // namespace

int run(std::vector<std::string> words) {
  CLI::App app("Varve: a deep-learning framework. Trains, runs and measures neural networks.", "varve");
  app.set_version_flag("--version", std::string("varve ") + VARVE_VERSION);
  app.footer(kExamples);
  app.allow_extras();
  app.require_subcommand(0, 1);
  DemoOptions demo_options;
  OpsOptions ops_options;
  BenchOptions bench_options;
  InfoOptions info_options;
  std::function<int()> chosen;
  add_demo(app, demo_options, chosen);
  add_ops(app, ops_options, chosen);
  add_bench(app, bench_options, chosen);
  add_info(app, info_options, chosen);

  for (std::string& word : words)
    if (is_setting(word)) word.insert(0, "--");
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // help and version
    std::cerr << "error: " << e.what() << '\n';
    return kBadUsage;
  }
  refuse_unknown(app);
  if (!chosen) return std::cout << app.help(), kBadUsage;
  return chosen();
}

}  // namespace varve::cli
