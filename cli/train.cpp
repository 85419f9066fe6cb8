// `varve train`: a network from its file, its name or its run, trained, tested and kept.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/text.h"
#include "cli/menu.h"
#include "cli/subject.h"
#include "cli/text.h"
#include "cli/watch.h"
#include "varve/compile.h"
#include "varve/distributed.h"
#include "varve/train/run.h"

namespace varve::cli {
namespace {

struct TrainOptions {
  bool resume = false;
  bool json = false;
  bool quiet = false;
  bool watch = false;
};

constexpr const char* kTrainExamples =
    R"(Settings are the keys of a file's [train] table; `varve schema` lists them. Values are TOML, bare words are strings,
and dots reach inside: optimizer.beta1=0.95, data.words=10000. rate=… is optimizer.rate=….

Examples:
  varve train lenet5                              digits drawn by the program, nothing to download
  varve train lenet.toml epochs=3 rate=1e-3       a network file; --epochs 3 and --epochs=3 are the same
  varve train data=houses.csv                     a table or folder of your own: a network is chosen for it
  varve train cnn-cifar schedule=cosine augment=flip,crop batch=256
  varve train resnet20 data=folder:photos         one folder of pictures for each class
  varve train vgg16-cifar weights=old.safetensors freeze='features.*'
  varve train runs/lenet5-1 --resume              go on where that run was stopped
  varve train runs/lenet5-1 seed=2                the same again, with another seed
  varve train fnn-mnist --json | jq .test_accuracy

The run's folder holds the weights, the settings, all figures, and index.html to look at.)";

using nlohmann::ordered_json;

std::string samples_line(const data::Splits& data) {
  const auto part = [](const char* name, const data::Dataset& d) {
    return d.defined() ? cat(", ", thousands(d.size()), " ", name) : std::string();
  };
  return cat(thousands(data.train.size()), " samples", part("to validate", data.validation),
             part("to test", data.test));
}

// A regression from a table is trained on scaled targets.
std::string scaling_line(const train::Prepared& prepared) {
  const auto& table = prepared.data.train.info().table;
  if (!table || !table->regression() || (table->target.mean == 0 && table->target.deviation == 1)) return "";
  const data::TableColumn& target = table->target;
  return cat("the loss is of scaled targets, (", target.name, " - ", target.mean, ") / ", target.deviation,
             "; metrics and predictions are in the unit of ", target.name, "\n");
}

// A line for each column of a table that lacked values.
std::string missing_lines(const train::Prepared& prepared) {
  const auto& table = prepared.data.train.info().table;
  std::string lines;
  if (table)
    for (const data::TableColumn& column : table->inputs)
      if (const std::string text = column.missing_text(); !text.empty()) lines += text + "\n";
  return lines;
}

// " · 8 ranks on 2 hosts, gloo".
std::string ranks_text() {
  const int ranks = distributed::size();
  if (ranks == 1) return "";
  const int hosts = std::max(1, ranks / std::max(1, distributed::local_size()));
  return cat(" · ", ranks, " ranks", hosts > 1 ? cat(" on ", hosts, " hosts") : "", ", ", distributed::engine());
}

void print_header(std::ostream& out, const train::RunStart& start) {
  const train::Config& config = start.prepared.config;
  out << machine_line() << ranks_text() << " · " << config.name << " "
      << thousands(start.prepared.model->parameter_count()) << " parameters";
  if (start.peak_bytes > 0)
    out << " · " << bytes(start.peak_bytes) << " peak in a step" << (distributed::size() > 1 ? ", each" : "");
  out << '\n' << printable(config.data) << ": " << samples_line(start.prepared.data) << '\n';
  out << printable(scaling_line(start.prepared)) << printable(missing_lines(start.prepared))
      << skipped_line(start.prepared.data.train.info());
  if (!start.prepared.data.validation.defined())
    out << "no samples are held out, so the last weights are kept and tested"
        << (start.prepared.data.train.streams() > 0 ? "\n" : " (validation=0.1 holds out a tenth)\n");
  out << std::flush;
}

std::string value_text(double value) { return std::abs(value) >= 100 ? fixed(value, 2) : fixed(value, 4); }

void print_end(std::ostream& out, const train::RunResult& result) {
  const train::History& history = result.history;
  if (history.interrupted) {
    out << "interrupted and saved. To go on: varve train " << printable(result.folder) << " --resume\n";
    return;
  }
  std::string line;
  if (!history.stopped.empty()) line += cat("stopped: ", history.stopped, " · ");
  if (history.best_epoch > 0 && history.monitor.starts_with("val_"))
    line += cat("best ", history.monitor, " ", value_text(history.best), " at epoch ", history.best_epoch, " · ");
  if (result.tested)
    for (const auto& [name, value] : result.test.values)
      if (name != "loss" || result.test.values.size() == 1) line += cat("test ", name, " ", value_text(value), " · ");
  out << line << fixed(history.seconds, 1) << " s\n" << printable(result.page) << '\n';
}

// Everything of one run in one object. What was not measured is null.
ordered_json result_json(const train::RunResult& result) {
  const train::History& history = result.history;
  ordered_json json{{"name", result.config.name},
                    {"network", result.config.network.empty() ? result.config.name : result.config.network},
                    {"data", result.config.data},
                    {"device", device()},
                    {"threads", threads()},
                    {"parameters", result.parameters},
                    {"batch", result.config.batch},
                    {"seed", result.config.seed},
                    {"epochs", history.epochs.size()}};
  json["test_accuracy"] = nullptr;
  json["test_loss"] = nullptr;
  if (result.tested)
    for (const auto& [name, value] : result.test.values) json["test_" + name] = value;
  json["train_seconds"] = history.seconds;
  json["test_seconds"] = result.tested ? ordered_json(result.test.seconds) : ordered_json(nullptr);
  json["peak_bytes"] = history.peak_bytes;
  json["monitor"] = history.monitor;
  json["best"] = history.best;
  json["best_epoch"] = history.best_epoch;
  json["interrupted"] = history.interrupted;
  json["stopped"] = history.stopped;
  json["run"] = result.folder;
  json["page"] = result.page;
  for (const train::Epoch& epoch : history.epochs) {
    ordered_json row{{"epoch", epoch.epoch}, {"seconds", epoch.seconds}, {"rate", epoch.rate}};
    for (const auto& [name, value] : epoch.values) row[name] = value;
    json["history"].push_back(row);
  }
  return json;
}

// A browser that looks asks every second: it shall see the last page before this process ends.
void let_it_be_seen(const PageServer& server) {
  const std::int64_t before = server.answered();
  if (before == 0) return;
  for (int i = 0; i < 30 && server.answered() < before + 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

int run_train(const TrainOptions& given, const Subject& subject) {
  TrainOptions options = given;
  const bool first = distributed::rank() == 0;  // speaks for all ranks
  if (!first) {
    options.quiet = true;
    options.json = options.watch = false;
  }
  std::string chosen;
  const train::Config config = config_of(subject, &chosen);
  if (options.resume && !is_run(subject.what))
    throw UsageError(cat("--resume goes on with a run: give its folder, such as runs/", config.name,
                         "-1, in place of '", subject.what, "'."));
  std::ostream& out = options.json ? std::cerr : std::cout;
  if (!chosen.empty() && !options.quiet) out << "chosen network: " << chosen << std::endl;
  train::RunOptions run{.folder = options.resume ? subject.what : "",
                        .resume = options.resume,
                        .verbosity = options.quiet ? train::Verbosity::quiet : train::Verbosity::automatic,
                        .fetch = {.quiet = options.quiet}};
  std::unique_ptr<PageServer> server;
  run.started = [&](const train::RunStart& start) {
    if (!options.quiet) print_header(out, start);
    if (!options.watch) return;
    server = watch_run(start.folder, kWatchPort);
    out << "watch it at " << server->url() << std::endl;
  };
  const train::RunResult result = train::run(config, run);
  if (server) let_it_be_seen(*server);
  if (!options.quiet || (first && result.history.interrupted)) print_end(out, result);
  if (options.json) std::cout << result_json(result).dump() << std::endl;
  return result.history.interrupted ? kSignal + result.history.signal : kOk;
}

}  // namespace

void add_train(Menu& menu) {
  auto options = std::make_shared<TrainOptions>();
  menu.network_command(
          {.name = "train", .what = "Train a network, test it, and keep the run", .examples = kTrainExamples},
          [options](const Subject& subject) { return run_train(*options, subject); })
      .flag("--resume", options->resume, "go on with the run in this folder")
      .flag("--json", options->json, "one JSON object at the end on stdout; the rest goes to stderr")
      .flag("--quiet", options->quiet, "say nothing while it goes")
      .flag("--watch", options->watch, "serve the run's page on this machine, refreshed as epochs end");
}

void add_demo(Menu& menu) {
  auto options = std::make_shared<TrainOptions>();
  auto words = std::make_shared<std::vector<std::string>>();
  const auto train_lenet5 = [options, words] {
    words->insert(words->begin(), "lenet5");
    return run_train(*options, subject_of(*words, "demo"));
  };
  menu.settings_command({.name = "demo",
                         .what = "Train a first network: LeNet-5 on digits that the program draws itself",
                         .examples = "The same as: varve train lenet5\nExample:     varve demo epochs=1 seed=7"},
                        train_lenet5)
      .option("settings", *words, "key=value…")
      .flag("--json", options->json, "one JSON object at the end on stdout")
      .flag("--quiet", options->quiet, "say nothing while it goes");
}

}  // namespace varve::cli
