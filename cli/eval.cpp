// `varve eval`: the test data of a run, or of a network with given weights.
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/menu.h"
#include "cli/subject.h"
#include "cli/text.h"
#include "varve/compile.h"
#include "varve/train/run.h"

namespace varve::cli {
namespace {

struct EvalOptions {
  bool json = false;
  bool classes = false;  // a line for each class
};

constexpr const char* kEvalExamples = R"(Examples:
  varve eval runs/lenet5-1                        the run's own test data
  varve eval runs/lenet5-1 data=mnist --classes   other data, class by class
  varve eval resnet20 weights=resnet20.safetensors --json)";

struct Ready {
  nn::Layer model;
  data::Dataset test;
};

Ready ready(const train::Config& config, const std::string& what) {
  if (is_run(what) && config.weights.empty()) {
    train::use_machine(config);
    const train::TrainedModel run = train::load_run(what);
    return {run.model, train::test_data(config, {run.config.data, run.info(), run.input})};
  }
  if (config.weights.empty())
    throw UsageError(cat("'", what, "' has no trained weights: add weights=FILE.safetensors, or name a run's folder."));
  const train::TrainedWith trained = train::trained_with(config.weights);
  const train::Prepared prepared = train::prepare(config, {}, trained.info);
  return {prepared.model, train::test_data(prepared.config, trained)};
}

void print_classes(const train::Score& score, const data::Info& info) {
  std::size_t classes = 0;
  while (classes * classes < score.confusion.size()) ++classes;
  std::vector<std::vector<std::string>> rows = {{"", "precision", "recall", "f1", "samples"}};
  const auto all = train::class_scores(score.confusion, static_cast<std::int64_t>(classes));
  for (std::size_t i = 0; i < all.size(); ++i)
    rows.push_back({i < info.classes.size() ? info.classes[i] : cat(i), fixed(all[i].precision, 4),
                    fixed(all[i].recall, 4), fixed(all[i].f1, 4),
                    thousands(static_cast<std::int64_t>(all[i].support))});
  std::cout << aligned(rows);
}

int run_eval(const EvalOptions& options, const Subject& subject) {
  const train::Config config = config_of(subject);
  const Ready made = ready(config, subject.what);
  if (!made.test.defined()) throw Error(cat(config.data, " has no test part."));
  std::cerr << skipped_line(made.test.info());
  made.model->reset_state();
  const train::Score score = train::evaluate(*made.model, made.test, train::evaluate_options(config, made.test));
  if (options.json) {
    nlohmann::ordered_json json{{"name", config.name},
                                {"data", config.data},
                                {"samples", made.test.size()},
                                {"parameters", made.model->parameter_count()},
                                {"test_accuracy", nullptr}};
    for (const auto& [name, value] : score.values) json["test_" + name] = value;
    json["test_seconds"] = score.seconds;
    json["confusion"] = score.confusion;
    std::cout << json.dump() << '\n';
    return kOk;
  }
  std::string line;
  for (const auto& [name, value] : score.values) line += cat(name, " ", fixed(value, 4), " · ");
  std::cout << line << thousands(made.test.size()) << " samples · " << fixed(score.seconds, 2) << " s\n";
  if (options.classes && !score.confusion.empty()) print_classes(score, made.test.info());
  return kOk;
}

}  // namespace

void add_eval(Menu& menu) {
  auto options = std::make_shared<EvalOptions>();
  menu.network_command({.name = "eval", .what = "Score a trained network on its test data", .examples = kEvalExamples},
                       [options](const Subject& subject) { return run_eval(*options, subject); })
      .flag("--json", options->json, "one JSON object")
      .flag("--classes", options->classes, "precision and recall of each class as well");
}

}  // namespace varve::cli
