#include "arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <iostream>

#include "base/text.h"
#include "bench_arguments.h"
#include "bench_data.h"
#include "bench_report.h"
#include "commands.h"
#include "help.h"
#include "subject.h"

namespace varve::cli {
namespace {

// What was asked for: filled while the words are read, called when all of them were understood.
using Chosen = std::function<int()>;

struct Options {
  std::vector<std::string> words;  // of commands that take a network and settings
  TrainOptions train;
  EvalOptions eval;
  PredictOptions predict;
  DatasetsOptions datasets;
  ZooOptions zoo;
  RateOptions rate;
  ExportOptions exporting;
  SchemaOptions schema;
  CompletionOptions completion;
  OpsOptions ops;
  BenchOptions bench;
  BenchDataOptions bench_data;
  BenchArguments suite;
  ReportArguments report;
  InfoOptions info;
};

class Parser {
 public:
  Parser() {
    app_.set_version_flag("--version", std::string("varve ") + VARVE_VERSION);
    app_.footer(kExamples);
    app_.allow_extras();
    app_.require_subcommand(0, 1);
    add_training();
    add_using();
    add_looking();
    add_measuring();
  }

  int run(std::vector<std::string> words);

 private:
  CLI::App* command(CLI::App& parent, const std::string& name, const std::string& what, Chosen chosen,
                    const std::string& footer = "") {
    CLI::App* app = parent.add_subcommand(name, what);
    app->footer(footer);
    app->allow_extras();  // unknown words are answered below, with the nearest known one
    app->callback([this, chosen] {
      if (!chosen_) chosen_ = chosen;
    });
    return app;
  }
  // A command about a network, with key=value settings.
  CLI::App* configured(const std::string& name, const std::string& what, std::function<int(Subject)> go,
                       const std::string& footer) {
    configured_.push_back(name);
    CLI::App* app = command(
        app_, name, what, [this, name, go] { return go(subject_of(options_.words, name)); }, footer);
    app->add_option("network", options_.words, "a network file, a name of the zoo or a run's folder; then key=value…");
    return app;
  }

  void add_training();
  void add_using();
  void add_looking();
  void add_measuring();
  void add_machine_options(CLI::App& app, std::string& device, int& threads);
  void prepare_words(std::vector<std::string>& words) const;
  void refuse_unknown() const;
  std::vector<CommandWords> command_words() const;

  CLI::App app_{"Varve: a deep-learning framework. Trains, runs and measures neural networks.", "varve"};
  Options options_;
  std::vector<std::string> configured_ = {"demo"};
  Chosen chosen_;
};

void Parser::add_training() {
  CLI::App* train_app = configured(
      "train", "Train a network, test it, and keep the run",
      [this](const Subject& subject) {
        options_.train.subject = subject;
        return train(options_.train);
      },
      kTrainHelp);
  train_app->add_flag("--resume", options_.train.resume, "go on with the run in this folder");
  train_app->add_flag("--json", options_.train.json, "one JSON object at the end on stdout; the rest goes to stderr");
  train_app->add_flag("--quiet", options_.train.quiet, "say nothing while it goes");

  CLI::App* demo = command(
      app_, "demo", "Train a first network: LeNet-5 on digits that the program draws itself",
      [this] {
        options_.words.insert(options_.words.begin(), "lenet5");
        options_.train.subject = subject_of(options_.words, "demo");
        return train(options_.train);
      },
      "The same as: varve train lenet5\nExample:     varve demo epochs=1 seed=7");
  demo->add_option("settings", options_.words, "key=value…");
  demo->add_flag("--json", options_.train.json, "one JSON object at the end on stdout");
  demo->add_flag("--quiet", options_.train.quiet, "say nothing while it goes");

  CLI::App* rate_app = configured(
      "lr-find", "Find a rate to learn with: the loss as the rate rises step by step",
      [this](const Subject& subject) {
        options_.rate.subject = subject;
        return find_rate(options_.rate);
      },
      kRateHelp);
  rate_app->add_option("--out", options_.rate.out, "where the chart goes: .svg or .html")->capture_default_str();
}

void Parser::add_using() {
  CLI::App* eval_app = configured(
      "eval", "Score a trained network on its test data",
      [this](const Subject& subject) {
        options_.eval.subject = subject;
        return eval(options_.eval);
      },
      kEvalHelp);
  eval_app->add_flag("--json", options_.eval.json, "one JSON object");
  eval_app->add_flag("--classes", options_.eval.classes, "precision and recall of each class as well");

  CLI::App* predict_app = command(
      app_, "predict", "Ask a trained network about pictures or text", [this] { return predict(options_.predict); },
      kPredictHelp);
  predict_app->add_option("run", options_.predict.run, "the run's folder")->required();
  predict_app->add_option("files", options_.predict.files, "pictures, text files or text");
  predict_app->add_option("--top", options_.predict.top, "how many classes")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  predict_app->add_flag("--json", options_.predict.json, "one JSON array");

  CLI::App* export_app = command(
      app_, "export", "Write a run's weights for other programs", [this] { return export_weights(options_.exporting); },
      kExportHelp);
  export_app->add_option("run", options_.exporting.run, "the run's folder")->required();
  export_app->add_option("out", options_.exporting.out, "a file that ends in .safetensors or .npz")->required();
  export_app->add_option("--dtype", options_.exporting.dtype, "f32, f16 or bf16")->capture_default_str();
  export_app->add_option("--layout", options_.exporting.layout, "of the weights: varve or pytorch")
      ->capture_default_str();
  export_app->add_flag("--last", options_.exporting.last, "the last weights in place of the best");
}

void Parser::add_looking() {
  configured(
      "summary", "Print a network's layers, shapes, parameters, operations and memory",
      [](const Subject& subject) { return summary({subject}); }, kSummaryHelp);

  CLI::App* zoo_app = command(
      app_, "zoo", "List the networks that have names", [this] { return zoo(options_.zoo); },
      "Example: varve zoo resnet       those with \"resnet\" in name or description\n"
      "Then:    varve summary resnet20, varve train resnet20");
  zoo_app->add_option("filter", options_.zoo.filters, "only networks with one of these words");
  zoo_app->add_flag("--json", options_.zoo.json, "one JSON array");

  CLI::App* data_app = command(
      app_, "datasets", "List the data sets, get one, or look at its samples",
      [this] { return datasets(options_.datasets); }, kDatasetsHelp);
  data_app->add_option("name", options_.datasets.name, "one of them");
  data_app->add_option("settings", options_.datasets.settings, "its options, key=value");
  data_app->add_option("--sheet", options_.datasets.sheet, "write samples as one PNG");
  data_app->add_flag("--get", options_.datasets.get, "download it when it is not here");
  data_app->add_flag("--json", options_.datasets.json, "the list as one JSON array");
  configured_.push_back("datasets");

  CLI::App* schema_app = command(
      app_, "schema", "Say what network files and settings may contain", [this] { return schema(options_.schema); },
      "Examples: varve schema conv     layers and keys with \"conv\" in their names\n"
      "          varve schema batch    what batch= means, and its standard value");
  schema_app->add_option("filter", options_.schema.filters, "only layers and keys with one of these words");
  schema_app->add_flag("--markdown", options_.schema.markdown, "the tables of docs/network-files.md");

  CLI::App* ops_app = command(
      app_, "ops", "List the operators: what each computes, its gradient, who runs it",
      [this] { return ops(options_.ops); }, "Example: varve ops --markdown > docs/operators.md");
  ops_app->add_option("filter", options_.ops.filters, "only operators with one of these words in name or family");
  ops_app->add_flag("--json", options_.ops.json, "one JSON array");
  ops_app->add_flag("--markdown", options_.ops.markdown, "the page docs/operators.md")->excludes("--json");
}

void Parser::add_machine_options(CLI::App& app, std::string& device, int& threads) {
  app.add_option("--device", device, "where to compute: cpu, reference")->capture_default_str();
  app.add_option("--threads", threads, "how many threads; the physical cores unless given")->check(CLI::Range(1, 1024));
}

void Parser::add_measuring() {
  CLI::App* bench = command(app_, "bench", "Measure speed",
                            [this] { return std::cout << app_.get_subcommand("bench")->help(), kBadUsage; });
  bench->require_subcommand(0, 1);
  CLI::App* ops_app = command(
      *bench, "ops", "Time operators, each as a compiled program, against the machine's measured peak",
      [this] { return bench_ops(options_.bench); },
      "The peak is measured first: fused multiply-adds in registers, and a triad over memory. A row is the\n"
      "median of at least ten runs after warm-up. Example: varve bench ops conv2d threads=1");
  ops_app->add_option("filter", options_.bench.filters, "only cases with one of these words in operator or shape");
  ops_app->add_flag("--json", options_.bench.json, "one JSON object a line");
  ops_app->add_flag("--list", options_.bench.list, "name the cases, measure nothing");
  add_machine_options(*ops_app, options_.bench.device, options_.bench.threads);

  CLI::App* data_app = command(
      *bench, "data", "Time the loader, with more and more threads that read ahead, beside a step that is played",
      [this] { return bench_data(options_.bench_data); }, "Example: varve bench data cifar10 batch=128 workers=4");
  data_app->add_option("name", options_.bench_data.name, "the data set")->capture_default_str();
  data_app->add_option("--batch", options_.bench_data.batch, "samples in a batch")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1000000}))
      ->capture_default_str();
  data_app->add_option("--workers", options_.bench_data.workers, "threads at most")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  data_app->add_option("--step", options_.bench_data.step, "milliseconds of the step that is played")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  data_app->add_flag("--json", options_.bench_data.json, "one JSON object a line");

  const AddCommand add = [this](CLI::App& parent, const std::string& name, const std::string& what, Chosen chosen,
                                const std::string& footer) {
    return command(parent, name, what, std::move(chosen), footer);
  };
  add_bench_commands(*bench, add, options_.suite);
  add_report_commands(*bench, add, options_.report);

  CLI::App* info_app = command(
      app_, "info", "Say what this build and this machine offer", [this] { return info(options_.info); },
      "Example: varve info --json");
  info_app->add_flag("--json", options_.info.json, "one JSON object");
  command(
      app_, "doctor", "Check the installation: processor, libraries, memory, disk, data, and that it learns",
      [] { return doctor(); }, "Example: varve doctor\nThe exit code is 1 when something does not work.");
  CLI::App* completion_app = command(
      app_, "completion", "Print a script that completes varve's words in a shell",
      [this] { return completion(options_.completion, command_words()); },
      "Example: eval \"$(varve completion bash)\"     in ~/.bashrc");
  completion_app->add_option("shell", options_.completion.shell, "bash, zsh or fish")->required();
}

std::vector<CommandWords> Parser::command_words() const {
  std::vector<CommandWords> all;
  for (const CLI::App* app : app_.get_subcommands([](const CLI::App*) { return true; })) {
    CommandWords words{app->get_name(), {}, false};
    for (const CLI::Option* option : app->get_options())
      for (const std::string& name : option->get_lnames()) words.options.push_back("--" + name);
    const std::string& name = words.name;
    words.configured = name == "train" || name == "eval" || name == "summary" || name == "lr-find";
    all.push_back(words);
  }
  return all;
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
void Parser::refuse_unknown() const {
  const std::vector<std::string> extras = app_.remaining(true);
  if (extras.empty()) return;
  const auto [at, words] = innermost(app_);
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

// Options may be written threads=1 for --threads=1; where settings are part of the command, --epochs=3 is epochs=3.
void Parser::prepare_words(std::vector<std::string>& words) const {
  if (words.empty()) return;
  const CLI::App* app = nullptr;
  for (const CLI::App* sub : app_.get_subcommands([](const CLI::App*) { return true; }))
    if (sub->get_name() == words.front()) app = sub;
  const bool takes_settings = std::find(configured_.begin(), configured_.end(), words.front()) != configured_.end();
  for (std::string& word : words) {
    const bool dashed = word.starts_with("--");
    if (!is_setting(dashed ? word.substr(2) : word)) continue;
    const std::string option = (dashed ? "" : "--") + word.substr(0, word.find('='));
    const bool known = app && app->get_option_no_throw(option) != nullptr;
    if (takes_settings && dashed && !known) word.erase(0, 2);
    if (!dashed && (!takes_settings || known)) word.insert(0, "--");
  }
}

int Parser::run(std::vector<std::string> words) {
  options_.suite.suite.command = "varve";
  for (const std::string& word : words) options_.suite.suite.command += " " + word;
  options_.report.study.command = options_.suite.suite.command;
  prepare_words(words);
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  try {
    app_.parse(std::move(words));
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app_.exit(e);  // help and version
    refuse_unknown();
    std::cerr << "error: " << e.what() << '\n';
    return kBadUsage;
  }
  refuse_unknown();
  if (!chosen_) return std::cout << app_.help(), kBadUsage;
  return chosen_();
}

}  // namespace

int run(std::vector<std::string> words) { return Parser().run(std::move(words)); }

}  // namespace varve::cli
