// `varve bench step`, `infer`, `parts`, `train`, `quick`, `ablate`, `verify` and `worker`.
#include "cli/bench/suite.h"

#include <algorithm>
#include <iostream>

#include "base/text.h"
#include "bench/ablate.h"
#include "bench/driver.h"
#include "bench/verify.h"
#include "bench/worker.h"
#include "cli/bench/tables.h"
#include "cli/menu.h"
#include "cli/text.h"

namespace varve::cli {
namespace {

// Whom Varve is compared with unless somebody says.
std::vector<std::string> standard(const SuiteOptions& options) {
  const bool gpu_only = options.sweep.device == "cuda";
  return gpu_only ? std::vector<std::string>{"varve", "torch", "jax"}
                  : std::vector<std::string>{"varve", "torch", "keras-tensorflow"};
}

}  // namespace

Run::Run(const SuiteOptions& options) : file_(options.json), driver(driver_options(options)) {}

std::vector<bench::Record> Run::measure(const std::string& kind, const bench::Sweep& sweep) {
  std::vector<bench::Record> records = driver.measure(kind, sweep);
  clear();
  return records;
}

bench::DriverOptions Run::driver_options(const SuiteOptions& options) {
  return {.rounds = options.repeat,
          .samples = options.samples,
          .min_seconds = options.seconds,
          .max_seconds = options.most,
          .limit_seconds = options.limit,
          .verify = !options.unverified,
          .all_modes = options.budget == 0,
          .modes = options.modes,
          .epochs = options.epochs,
          .budget_seconds = options.budget,
          .seed = options.seed,
          .command = options.command,
          .say = [this](const std::string& line) { progress_.show(line); },
          .keep = [this](const bench::Record& record) { file_.add(record); },
          .so_far = [this](const std::vector<bench::Record>& records) { file_.add_so_far(records); }};
}

int exit_code(const std::vector<bench::Record>& records) {
  const bool failed = std::any_of(records.begin(), records.end(), [](const bench::Record& r) {
    return (r.framework == "varve" && !r.ok()) || r.reason.starts_with("not the same network");
  });
  return failed ? kFailure : kOk;
}

namespace {

int step(const SuiteOptions& options) {
  const bench::Sweep sweep = sweep_of(options, standard(options));
  const std::vector<bench::Record> records = Run(options).measure("step", sweep);
  std::cout << comparison_table(records);
  return exit_code(records);
}

int parts(const SuiteOptions& options) {
  const bench::Sweep sweep = sweep_of(options, {"varve"});
  const std::vector<bench::Record> records = Run(options).measure("parts", sweep);
  std::cout << parts_table(records) << layers_table(records);
  return exit_code(records);
}

int train(const SuiteOptions& options) {
  SuiteOptions real = options;
  if (real.sweep.workloads.empty())
    for (const bench::Workload& w : bench::workloads())
      if (!w.protocol.data.empty()) real.sweep.workloads.push_back(w.name);
  const bench::Sweep sweep = sweep_of(real, standard(real));
  for (const bench::Setting& setting : sweep.settings)
    if (setting.workload->protocol.data.empty())
      throw UsageError(cat("workload '", setting.workload->name, "' has no data set of its own to train on."));
  const std::vector<bench::Record> records = Run(real).measure("train", sweep);
  std::cout << training_table(records);
  return exit_code(records);
}

// Minutes, not hours: small workloads of every kind, fewer rounds, and an end to it.
int quick(const SuiteOptions& options) {
  SuiteOptions small = options;
  if (small.sweep.workloads.empty()) small.sweep.workloads = {"fnn-mnist", "cnn-mnist", "lstm32", "fcn5", "cnn-cifar"};
  small.repeat = 2;
  small.seconds = 0.5, small.most = 6, small.limit = 60;
  small.budget = 270;
  return step(small);
}

int ablate(const SuiteOptions& options) {
  SuiteOptions alone = options;
  alone.sweep.frameworks = "varve";
  const bench::Sweep sweep = sweep_of(alone, {"varve"});
  Run run(alone);
  std::vector<bench::Record> all;
  for (std::size_t i = 0; i < sweep.settings.size(); ++i) {
    run.driver.at(i, sweep.settings.size());
    const std::vector<bench::Record> records = bench::ablate(run.driver, sweep.settings[i]);
    all.insert(all.end(), records.begin(), records.end());
  }
  std::cout << ablation_table(all);
  return exit_code(all);
}

int infer(const SuiteOptions& options) {
  bench::Sweep sweep = sweep_of(options, standard(options));
  if (options.sweep.batch.empty()) {  // latency, then throughput
    std::vector<bench::Setting> both;
    for (bench::Setting setting : sweep.settings) {
      const std::int64_t large = setting.batch;
      setting.batch = 1;
      both.push_back(setting);
      setting.batch = large;
      both.push_back(setting);
    }
    sweep.settings = both;
  }
  const std::vector<bench::Record> records = Run(options).measure("infer", sweep);
  std::cout << comparison_table(records) << '\n' << percentile_table(records);
  return exit_code(records);
}

int verify(const SuiteOptions& options) {
  const bench::Sweep sweep = sweep_of(options, standard(options));
  Progress progress(0);
  std::vector<std::vector<std::string>> rows = {
      {"workload", "framework", "parameters", "first losses", "apart", "bound", ""}};
  bool failed = false;
  std::vector<const bench::Workload*> seen;
  for (const bench::Setting& setting : sweep.settings) {
    if (std::find(seen.begin(), seen.end(), setting.workload) != seen.end()) continue;
    seen.push_back(setting.workload);
    const auto checks = bench::verify(
        *setting.workload, sweep.frameworks,
        {.threads = setting.threads, .device = setting.device, .fresh = true, .say = [&](const std::string& line) {
           progress.show(line);
         }});
    for (const bench::Checked& check : checks) {
      failed = failed || check.status == "mismatch" || (check.framework == "varve" && check.status != "ok");
      std::string losses;
      for (const double loss : check.losses) losses += cat(losses.empty() ? "" : " ", fixed(loss, 4));
      char apart[32], bound[32];
      std::snprintf(apart, sizeof apart, "%.1e", check.worst);
      std::snprintf(bound, sizeof bound, "%.1e", check.bound);
      rows.push_back({setting.workload->name, check.framework, thousands(check.parameters), losses,
                      check.losses.empty() ? "-" : apart, check.losses.empty() ? "-" : bound,
                      check.status == "ok" ? "same" : cat(check.status, ": ", check.reason)});
    }
  }
  progress.clear();
  std::cout << aligned(rows);
  return failed ? kFailure : kOk;
}

constexpr const char* kStepExamples =
    R"(Lists make a sweep: threads=1,2 batch=16,32,64 precision=f32,bf16. Frameworks take turns in rounds, each turn a fresh
process. Before others are compared with Varve, the losses of the first steps must agree (varve bench verify).

Examples:
  varve bench step fnn-mnist frameworks=varve            Varve alone
  varve bench step fcn5 alexnet threads=1,2              beside PyTorch and Keras
  varve bench step frameworks=varve,torch,keras-tensorflow json=records.jsonl
  varve bench step device=cuda precision=tf32,bf16       on a GPU, beside PyTorch and JAX)";

constexpr const char* kInferExamples =
    R"(At batch 1 the percentiles of a call, at the workload's own batch the samples a second, unless batch= says otherwise.

Example: varve bench infer resnet50 batch=1,16 frameworks=varve,torch)";

constexpr const char* kVerifyExamples =
    R"(All start from the same weights and see the same batches, without dropout. Parameters, counted operations and the first
five losses must agree, as far as rounding allows: the bound is 1e-4 for the first loss, 1e-3 for the others, and wider, up
to 1e-2, where Varve's own losses move after a change of the weights' last bits. The exit code is 1 when they do not.

Example: varve bench verify resnet50 frameworks=torch,keras-tensorflow)";

constexpr const char* kBenchTrainExamples =
    R"(Every framework sees the same samples and starts from the same weights, at a constant rate, without augmentation,
clipping or smoothing. Mean and deviation are over the rounds, each with another seed.

Example: varve bench train fnn-mnist repeat=10 frameworks=varve,torch,keras-tensorflow)";

constexpr const char* kAblateExamples =
    R"(A lever is left out through VARVE_WITHOUT (a list of names) in the worker's environment; workspace is the scratch
memory that a convolution may take, VARVE_WORKSPACE_MB=0.

Example: varve bench ablate fcn5 alexnet lstm32)";

}  // namespace

bench::Sweep sweep_of(const SuiteOptions& options, const std::vector<std::string>& standard) {
  try {
    return bench::make_sweep(options.sweep, standard);
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
}

void add_bench_step(Menu& bench) {
  const auto options = suite_options(bench);
  Command command = bench.command(
      {.name = "step", .what = "Time whole training steps, framework beside framework", .examples = kStepExamples},
      [options] { return step(*options); });
  add_sweep(command, *options);
  add_timing(command, *options);
}

void add_bench_infer(Menu& bench) {
  const auto options = suite_options(bench);
  Command command =
      bench.command({.name = "infer", .what = "Time predictions: latency and throughput", .examples = kInferExamples},
                    [options] { return infer(*options); });
  add_sweep(command, *options);
  add_timing(command, *options);
}

void add_bench_parts(Menu& bench) {
  const auto options = suite_options(bench);
  Command command = bench.command({.name = "parts",
                                   .what = "Time forward, gradient, update and data loading apart, and layer by layer",
                                   .examples = "Example: varve bench parts alexnet frameworks=varve,torch"},
                                  [options] { return parts(*options); });
  add_sweep(command, *options);
  add_timing(command, *options);
}

void add_bench_train(Menu& bench) {
  const auto options = suite_options(bench);
  Command command = bench.command({.name = "train",
                                   .what = "Train on real data: time, accuracy, memory, utilisation and energy",
                                   .examples = kBenchTrainExamples},
                                  [options] { return train(*options); });
  add_sweep(command, *options);
  add_timing(command, *options);
  command.option("--epochs", options->epochs, "the study's own unless given", {.least = 1, .most = 100000})
      .option("--seed", options->seed, "of the first round, 0 unless given; each round after it has the next one",
              {.least = 0, .most = 1LL << 31});
}

void add_bench_quick(Menu& bench) {
  const auto options = suite_options(bench);
  Command command = bench.command({.name = "quick",
                                   .what = "The small tier of `step`: ends within five minutes on two cores",
                                   .examples = "Example: varve bench quick json=quick.jsonl"},
                                  [options] { return quick(*options); });
  add_sweep(command, *options);
  command.option("--json", options->json, "a file to which the records are added, one a line");
}

void add_bench_ablate(Menu& bench) {
  const auto options = suite_options(bench);
  Command command = bench.command({.name = "ablate",
                                   .what = "Time steps with one lever left out, for each lever in turn",
                                   .examples = kAblateExamples},
                                  [options] { return ablate(*options); });
  add_sweep(command, *options);
  add_timing(command, *options);
}

void add_bench_verify(Menu& bench) {
  const auto options = suite_options(bench);
  Command command = bench.command(
      {.name = "verify", .what = "Check that every framework trains the same network", .examples = kVerifyExamples},
      [options] { return verify(*options); });
  add_sweep(command, *options);
}

// For the driver, not for people.
void add_bench_worker(Menu& bench) {
  auto request = std::make_shared<std::string>();
  bench
      .command({.name = "worker", .what = "Answer one request of the driver"},
               [request] { return bench::run_worker(*request); })
      .option("request", *request, "a JSON file", {.required = true})
      .hide();
}

}  // namespace varve::cli
