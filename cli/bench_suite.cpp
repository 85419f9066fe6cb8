// `varve bench step`, `infer`, `parts`, `train`, `quick`, `ablate`, `verify` and `worker`.
#include "bench_suite.h"

#include <algorithm>
#include <iostream>

#include "base/text.h"
#include "bench/ablate.h"
#include "bench/driver.h"
#include "bench/verify.h"
#include "bench/worker.h"
#include "bench_table.h"
#include "commands.h"
#include "text.h"

namespace varve::cli {
namespace {

// Whom Varve is compared with unless somebody says.
std::vector<std::string> standard(const SuiteOptions& options) {
  const bool gpu_only = options.sweep.device == "cuda";
  return gpu_only ? std::vector<std::string>{"varve", "torch", "jax"}
                  : std::vector<std::string>{"varve", "torch", "keras-tensorflow"};
}

// A driver whose progress goes to stderr and whose records go to the file.
class Run {
 public:
  explicit Run(const SuiteOptions& options) : file_(options.json), driver(driver_options(options)) {}

  std::vector<bench::Record> measure(const std::string& kind, const bench::Sweep& sweep) {
    std::vector<bench::Record> records = driver.measure(kind, sweep);
    progress_.clear();
    return records;
  }

 private:
  bench::DriverOptions driver_options(const SuiteOptions& options) {
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
  Progress progress_{0};
  bench::RecordFile file_;

 public:
  bench::Driver driver;
};

}  // namespace

bench::Sweep sweep_of(const SuiteOptions& options, const std::vector<std::string>& standard) {
  try {
    return bench::make_sweep(options.sweep, standard);
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
}

// A mismatch, or Varve without a figure, is a failure; a peer that is missing or lacks something is a row.
int verdict(const std::vector<bench::Record>& records) {
  const bool failed = std::any_of(records.begin(), records.end(), [](const bench::Record& r) {
    return (r.framework == "varve" && !r.ok()) || r.reason.starts_with("not the same network");
  });
  return failed ? kFailure : kOk;
}

int bench_step(const SuiteOptions& options) {
  const bench::Sweep sweep = sweep_of(options, standard(options));
  const std::vector<bench::Record> records = Run(options).measure("step", sweep);
  std::cout << comparison_table(records);
  return verdict(records);
}

int bench_parts(const SuiteOptions& options) {
  const bench::Sweep sweep = sweep_of(options, {"varve"});
  const std::vector<bench::Record> records = Run(options).measure("parts", sweep);
  std::cout << parts_table(records) << layers_table(records);
  return verdict(records);
}

int bench_train(const SuiteOptions& options) {
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
  return verdict(records);
}

// Minutes, not hours: small workloads of every kind, fewer rounds, and an end to it.
int bench_quick(const SuiteOptions& options) {
  SuiteOptions quick = options;
  if (quick.sweep.workloads.empty()) quick.sweep.workloads = {"fnn-mnist", "cnn-mnist", "lstm32", "fcn5", "cnn-cifar"};
  quick.repeat = 2;
  quick.seconds = 0.5, quick.most = 6, quick.limit = 60;
  quick.budget = 270;
  return bench_step(quick);
}

int bench_ablate(const SuiteOptions& options) {
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
  return verdict(all);
}

int bench_infer(const SuiteOptions& options) {
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
  return verdict(records);
}

int bench_verify(const SuiteOptions& options) {
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

int bench_worker(const std::string& request) { return bench::run_worker(request); }

}  // namespace varve::cli
