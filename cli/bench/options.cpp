#include "bench/frameworks.h"
#include "cli/bench/suite.h"

namespace varve::cli {
namespace {

std::vector<std::string> known_modes() {
  std::vector<std::string> modes;
  for (const bench::Framework& framework : bench::frameworks())
    for (const auto* some : {&framework.modes, &framework.gpu_modes})
      modes.insert(modes.end(), some->begin(), some->end());
  return modes;
}

}  // namespace

std::shared_ptr<SuiteOptions> suite_options(const Menu& bench) {
  auto options = std::make_shared<SuiteOptions>();
  options->command = bench.line();
  return options;
}

void add_sweep(Command& command, SuiteOptions& options) {
  bench::SweepText& sweep = options.sweep;
  command.option("workload", sweep.workloads, "names of workloads; all of them unless given")
      .option("--batch", sweep.batch, "samples in a batch; the workload's own unless given")
      .option("--threads", sweep.threads, "the physical cores unless given")
      .option("--precision", sweep.precision, "f32, tf32, bf16 or several")
      .option("--device", sweep.device, "cpu, cuda or both")
      .option("--frameworks", sweep.frameworks,
              "varve, torch, torch-compile, keras-tensorflow, keras-jax, jax, varve-python");
}

void add_timing(Command& command, SuiteOptions& options) {
  command.option("--repeat", options.repeat, "rounds", {.least = 1, .most = 1000})
      .option("--samples", options.samples, "in each round, at least", {.least = 1, .most = 100000})
      .option("--seconds", options.seconds, "of samples in each round, at least", {.least = 0, .most = 3600})
      .option("--most", options.most, "seconds of samples in each round, at most", {.least = 0, .most = 36000})
      .option("--modes", options.modes, "of PyTorch's on a GPU: graph, compile-graph, compile, plain; all unless given",
              {.words = known_modes()})
      .flag("--unverified", options.unverified, "compare without checking that all train the same network")
      .option("--json", options.json, "a file to which the records are added, one a line");
}

}  // namespace varve::cli
