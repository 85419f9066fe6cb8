#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "train/evaluator.h"
#include "train/run_folder.h"
#include "varve/compile.h"
#include "varve/distributed.h"
#include "varve/io.h"
#include "varve/train/run.h"
#include "varve/zoo.h"

namespace varve::train {
namespace {

bool has_classes(const data::Dataset& dataset) { return is_integer(dataset.y().dtype); }

// A zoo network takes its number of classes and the size of its vocabulary from the data, unless somebody says.
void fill_in_sizes(Config& config, const data::Dataset& train) {
  if (config.network.empty()) return;
  const zoo::Entry& entry = zoo::find(config.network);
  const auto& sizes = entry.sizes;
  const data::Info& info = train.info();
  if (info.vocabulary && std::find(sizes.begin(), sizes.end(), "vocabulary") != sizes.end())
    config.sizes.try_emplace("vocabulary", static_cast<double>(info.vocabulary->size()));
  if (!config.output_losses.empty() || train.targets().size() > 1) return;
  if (!has_classes(train) || train.y().shape.rank() != 0 || loss_by_name(config.loss).of_input) return;
  if (train.classes() != entry.classes) config.sizes.try_emplace("classes", static_cast<double>(train.classes()));
}

void check_inputs(const Config& config, const std::vector<Field>& wanted, const std::vector<Field>& given) {
  const std::vector<std::size_t> places = places_of(wanted, given, config.name + ": inputs from " + config.data);
  for (std::size_t i = 0; i < places.size(); ++i)
    if (const TensorType& type = given[places[i]].type; wanted[i].type != type)
      throw Error(config.name + " takes " + wanted[i].type.str() + " as '" + wanted[i].name + "', but " + config.data +
                  " gives " + type.str() + ".");
}

void check_input(const Config& config, const data::Dataset& train) {
  const std::vector<Field> inputs = network_inputs(config);
  if (inputs.size() > 1 || train.inputs().size() > 1) return check_inputs(config, inputs, train.inputs());
  const TensorType wanted = inputs[0].type, given = train.x();
  const bool fits = wanted.dtype == given.dtype && (config.network.empty() ? wanted.shape == given.shape : true);
  if (!fits)
    throw Error(config.name + " takes samples of " + wanted.str() + ", but " + config.data + " gives " + given.str() +
                ".");
}

std::int64_t rows_of(const Config& config, const data::Dataset& dataset) {
  return dataset.streams() > 0 ? dataset.streams() : config.batch;
}

Loss loss_of(const Config& config) {
  if (!config.output_losses.empty()) {
    std::vector<std::pair<std::string, Loss>> parts;
    for (const auto& [output, name] : config.output_losses)
      parts.emplace_back(output, config.label_smoothing > 0 && name == "cross_entropy"
                                     ? smoothed_cross_entropy(config.label_smoothing)
                                     : loss_by_name(name));
    if (!config.class_weights.empty() || config.ignore_index)
      throw Error("class_weights and ignore_index are of one loss, and each output has its own.");
    return losses(parts, config.loss_weights);
  }
  if (!config.loss_weights.empty())
    throw Error("loss_weights: are of a loss for each output, such as loss = {NAME = \"mse\"}.");
  const bool classes = config.loss == "cross_entropy";
  if (!classes && (!config.class_weights.empty() || config.ignore_index))
    throw Error("class_weights and ignore_index are of the loss cross_entropy, and the loss is " + config.loss + ".");
  if (classes)
    return cross_entropy_with({.class_weights = config.class_weights,
                               .ignore_index = config.ignore_index,
                               .smoothing = config.label_smoothing});
  return loss_by_name(config.loss);
}

std::vector<Metric> metrics_of(const Config& config) {
  std::vector<Metric> metrics;
  for (const std::string& name : config.metrics) metrics.push_back(metric_by_name(name));
  for (const auto& [output, names] : config.output_metrics)
    for (const std::string& name : names) metrics.push_back(of(output, metric_by_name(name)));
  return metrics;
}

// A run must find its files from any working folder. "csv:table.csv#price": the path is between the marks.
std::string absolute_data(const std::string& data) {
  const std::size_t colon = data.find(':');
  if (colon == std::string::npos) return data;
  const std::size_t mark = data.starts_with("csv:") || data.starts_with("jsonl:") || data.starts_with("shards:")
                               ? data.rfind('#')
                               : std::string::npos;
  const std::string path = data.substr(colon + 1, mark == std::string::npos ? mark : mark - colon - 1);
  return data.substr(0, colon + 1) + std::filesystem::absolute(path).lexically_normal().string() +
         (mark == std::string::npos ? "" : data.substr(mark));
}

// What would fail in the first step or after the first epoch is said now.
void check_fit(const Prepared& p) {
  const Loss loss = loss_of(p.config);
  check_targets(loss, p.data.train);
  objective_of(*p.model, p.data.train, loss, metrics_of(p.config), rows_of(p.config, p.data.train));
}

// Tells the caller when the first step is about to begin.
class Started : public Callback {
 public:
  Started(const Prepared& prepared, const RunOptions& options) : prepared_(prepared), options_(options) {}
  void begin(Session& session) override {
    if (options_.started) options_.started({prepared_, session.run(), session.history().peak_bytes});
  }

 private:
  const Prepared& prepared_;
  const RunOptions& options_;
};

void test(RunResult& result, const Prepared& p) {
  const std::string best = best_weights(result.folder);
  result.tested_best = p.data.validation.defined() && std::filesystem::exists(best);
  if (result.tested_best) p.model->load(best);
  std::vector<Variable> variables;
  for (const nn::NamedVariable& named : p.model->named_variables()) variables.push_back(named.variable);
  distributed::broadcast_variables(variables);
  p.model->reset_state();
  result.test = evaluate(*p.model, p.data.test, evaluate_options(p.config, p.data.test));
  result.tested = true;
  if (distributed::rank() > 0) return;
  save_test(result.folder, result.test.values);
  const data::Dataset& held_out = p.data.validation.defined() ? p.data.validation : p.data.test;
  const std::vector<WorstSample> worst = worst_samples(*p.model, held_out, loss_of(p.config));
  std::string environment;
  if (const std::string path = result.folder + "/environment.json"; std::filesystem::exists(path))
    environment = load_text(path);
  write_run_page(result.folder, {.title = p.config.name,
                                 .history = result.history,
                                 .config = p.config.toml(),
                                 .summary = p.model->summarize({.batch = p.config.batch}).str(),
                                 .environment = environment,
                                 .confusion = result.test.confusion,
                                 .classes = p.data.test.info().classes,
                                 .test = result.test.values,
                                 .worst = worst});
}

// A new folder, and the one it is in, go again when the run did not come so far as to write into them.
class NewFolder {
 public:
  NewFolder(const Config& config, const std::string& given)
      : base_(std::filesystem::exists(config.runs) || !given.empty() ? "" : config.runs),
        folder_(given.empty() ? new_run_folder(config.runs, config.name) : given) {}
  ~NewFolder() {  // what is not empty stays
    std::error_code ignored;
    if (std::filesystem::is_directory(folder_, ignored)) std::filesystem::remove(folder_, ignored);
    if (!base_.empty()) std::filesystem::remove(base_, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  const std::string& path() const { return folder_; }

 private:
  std::string base_, folder_;
};

}  // namespace

void use_machine(const Config& config) {
  set_device(config.device);
  if (config.threads > 0) set_threads(config.threads);
  set_deterministic(config.deterministic);
}

Prepared prepare(const Config& config, const data::FetchOptions& fetch, const data::Info& like,
                 const data::Splits& samples) {
  use_machine(config);
  Prepared p{.config = config, .data = load_data(config, fetch, like, samples), .model = nullptr};
  p.config.data = absolute_data(config.data);
  if (!config.weights.empty()) p.config.weights = std::filesystem::absolute(config.weights).lexically_normal().string();
  check_input(config, p.data.train);
  fill_in_sizes(p.config, p.data.train);
  p.model = make_network(p.config);
  const data::Dataset& train = p.data.train;
  p.model->build_all(train.inputs(), {.dtype = train.x().dtype, .seed = config.seed, .batch = rows_of(config, train)});
  check_fit(p);
  if (!config.weights.empty()) p.model->load(config.weights, {.partial = config.reinitialize_mismatched});
  for (const std::string& pattern : config.freeze) p.model->freeze(pattern);
  return p;
}

FitOptions fit_options(const Prepared& prepared) {
  const Config& c = prepared.config;
  optim::Optimizer optimizer = optim::by_name(c.optimizer.name, c.optimizer.options);
  if (c.clip_norm > 0) optimizer.clip_norm(c.clip_norm);
  if (c.clip_value > 0) optimizer.clip_value(c.clip_value);
  optim::Schedule schedule = optim::schedule_by_name(c.schedule.name, c.schedule.options);
  if (c.warmup > 0) schedule = schedule.after_warmup(c.warmup);
  FitOptions options{.loss = loss_of(c),
                     .optimizer = optimizer,
                     .schedule = schedule,
                     .epochs = c.epochs,
                     .batch = rows_of(c, prepared.data.train),
                     .validation = prepared.data.validation,
                     .metrics = metrics_of(c),
                     .seed = c.seed,
                     .save_seconds = c.save_seconds,
                     .save_steps = c.save_steps,
                     .accumulate = c.accumulate,
                     .average = c.average,
                     .swa = c.swa,
                     .precision = parse_precision(c.precision),
                     .mixup = c.mixup,
                     .buckets = c.buckets,
                     .balanced = c.balanced,
                     .workers = c.workers,
                     .config = c.toml(),
                     .parallel = c.parallel};
  if (c.patience > 0) options.callbacks.push_back(early_stopping({.patience = c.patience}));
  if (c.tensorboard) options.callbacks.push_back(tensorboard());
  return options;
}

EvaluateOptions evaluate_options(const Config& config, const data::Dataset& dataset) {
  return {.loss = loss_of(config),
          .metrics = metrics_of(config),
          .batch = dataset.streams() > 0 ? dataset.streams() : std::max<std::int64_t>(config.batch, 256),
          .confusion = config.output_losses.empty() && config.loss == "cross_entropy" && has_matrix(dataset),
          .precision = parse_precision(config.precision),
          .workers = config.workers,
          .shards = config.parallel.shards,
          .buckets = config.buckets};
}

RunResult run(const Config& config, const RunOptions& given) {
  RunOptions options = given;
  // A launcher that starts again says where.
  if (const char* folder = std::getenv("VARVE_RUN"); folder && *folder && options.folder.empty()) {
    options.folder = folder;
    options.resume = true;
  }
  const bool first = distributed::rank() == 0;
  // A run that goes on keeps the scaling and the classes that it began with, whatever became of the file.
  const bool goes_on = options.resume && std::filesystem::exists(options.folder + "/model.json");
  const Prepared p = prepare(config, options.fetch, goes_on ? load_card(options.folder).info() : data::Info{.name = ""},
                             options.samples);
  std::optional<NewFolder> folder;  // the first rank's alone
  if (first) folder.emplace(config, options.folder);
  RunResult result{.config = p.config,
                   .history = {},
                   .test = {},
                   .parameters = p.model->parameter_count(),
                   .folder = folder ? folder->path() : "",
                   .page = {}};
  if (first) result.page = result.folder + "/index.html";
  FitOptions fitting = fit_options(p);
  fitting.run = first ? result.folder : "rank 0's";  // others keep nothing, and measure the same
  fitting.resume = options.resume;
  fitting.verbosity = options.verbosity;
  fitting.progress = options.progress;
  fitting.callbacks.push_back(std::make_shared<Started>(p, options));
  fitting.callbacks.insert(fitting.callbacks.end(), options.callbacks.begin(), options.callbacks.end());
  result.history = fit(*p.model, p.data.train, fitting);
  if (!result.history.interrupted && p.data.test.defined()) test(result, p);
  return result;
}

}  // namespace varve::train
