#include "bench_arguments.h"

#include <CLI/CLI.hpp>
#include <set>

#include "bench/frameworks.h"

namespace varve::cli {
namespace {

std::set<std::string> known_modes() {
  std::set<std::string> modes;
  for (const bench::Framework& framework : bench::frameworks())
    for (const auto* some : {&framework.modes, &framework.gpu_modes}) modes.insert(some->begin(), some->end());
  return modes;
}

constexpr const char* kSuiteHelp =
    R"(Lists make a sweep: threads=1,2 batch=16,32,64 precision=f32,bf16. Frameworks take turns in rounds, each turn a fresh
process. Before others are compared with Varve, the losses of the first steps must agree (varve bench verify).

Examples:
  varve bench step fnn-mnist frameworks=varve            Varve alone
  varve bench step fcn5 alexnet threads=1,2              beside PyTorch and Keras
  varve bench step frameworks=varve,torch,keras-tensorflow json=records.jsonl
  varve bench step device=cuda precision=tf32,bf16       on a GPU, beside PyTorch and JAX)";

constexpr const char* kInferHelp =
    R"(At batch 1 the percentiles of a call, at the workload's own batch the samples a second, unless batch= says otherwise.

Example: varve bench infer resnet50 batch=1,16 frameworks=varve,torch)";

constexpr const char* kVerifyHelp =
    R"(All start from the same weights and see the same batches, without dropout. Parameters, counted operations and the first
five losses must agree, as far as rounding allows: the bound is 1e-4 for the first loss, 1e-3 for the others, and wider, up
to 1e-2, where Varve's own losses move after a change of the weights' last bits. The exit code is 1 when they do not.

Example: varve bench verify resnet50 frameworks=torch,keras-tensorflow)";

constexpr const char* kTrainingHelp =
    R"(Every framework sees the same samples and starts from the same weights, at a constant rate, without augmentation,
clipping or smoothing. Mean and deviation are over the rounds, each with another seed.

Example: varve bench train fnn-mnist repeat=10 frameworks=varve,torch,keras-tensorflow)";

constexpr const char* kAblateHelp =
    R"(A lever is left out through VARVE_WITHOUT (a list of names) in the worker's environment; workspace is the scratch
memory that a convolution may take, VARVE_WORKSPACE_MB=0.

Example: varve bench ablate fcn5 alexnet lstm32)";

constexpr const char* kCompareHelp =
    R"(Time has changed when the 95% interval of the ratio leaves out 1 and the medians differ by more than the tolerance.
The exit code is 1 when Varve has become slower, larger, less accurate, or fails where it did not.

Example: varve bench compare old.jsonl new.jsonl)";

void add_sweep(CLI::App& app, SuiteOptions& options) {
  app.add_option("workload", options.sweep.workloads, "names of workloads; all of them unless given");
  app.add_option("--batch", options.sweep.batch, "samples in a batch; the workload's own unless given");
  app.add_option("--threads", options.sweep.threads, "the physical cores unless given");
  app.add_option("--precision", options.sweep.precision, "f32, tf32, bf16 or several");
  app.add_option("--device", options.sweep.device, "cpu, cuda or both");
  app.add_option("--frameworks", options.sweep.frameworks,
                 "varve, torch, torch-compile, keras-tensorflow, keras-jax, jax");
}

void add_timing(CLI::App& app, SuiteOptions& options) {
  app.add_option("--repeat", options.repeat, "rounds")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--samples", options.samples, "in each round, at least")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "of samples in each round, at least")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  app.add_option("--most", options.most, "seconds of samples in each round, at most")
      ->check(CLI::Range(0.0, 36000.0))
      ->capture_default_str();
  app.add_option("--modes", options.modes,
                 "of PyTorch's on a GPU: graph, compile-graph, compile, plain; all unless given")
      ->delimiter(',')
      ->check(CLI::IsMember(known_modes()));
  app.add_flag("--unverified", options.unverified, "compare without checking that all train the same network");
  app.add_option("--json", options.json, "a file to which the records are added, one a line");
}

void add_comparisons(CLI::App& bench, const AddCommand& add, SuiteOptions& suite) {
  CLI::App* step = add(
      bench, "step", "Time whole training steps, framework beside framework", [&] { return bench_step(suite); },
      kSuiteHelp);
  add_sweep(*step, suite), add_timing(*step, suite);
  CLI::App* infer = add(
      bench, "infer", "Time predictions: latency and throughput", [&] { return bench_infer(suite); }, kInferHelp);
  add_sweep(*infer, suite), add_timing(*infer, suite);
  CLI::App* parts = add(
      bench, "parts", "Time forward, gradient, update and data loading apart, and layer by layer",
      [&] { return bench_parts(suite); }, "Example: varve bench parts alexnet frameworks=varve,torch");
  add_sweep(*parts, suite), add_timing(*parts, suite);
  CLI::App* train = add(
      bench, "train", "Train on real data: time, accuracy, memory, utilisation and energy",
      [&] { return bench_train(suite); }, kTrainingHelp);
  add_sweep(*train, suite), add_timing(*train, suite);
  train->add_option("--epochs", suite.epochs, "the study's own unless given")->check(CLI::Range(1, 100000));
  train->add_option("--seed", suite.seed, "of the first round; each round after it has the next one")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 31))
      ->capture_default_str();
  CLI::App* quick = add(
      bench, "quick", "The small tier of `step`: ends within five minutes on two cores",
      [&] { return bench_quick(suite); }, "Example: varve bench quick json=quick.jsonl");
  add_sweep(*quick, suite);
  quick->add_option("--json", suite.json, "a file to which the records are added, one a line");
  CLI::App* ablate = add(
      bench, "ablate", "Time steps with one lever left out, for each lever in turn",
      [&] { return bench_ablate(suite); }, kAblateHelp);
  add_sweep(*ablate, suite), add_timing(*ablate, suite);
  CLI::App* verify = add(
      bench, "verify", "Check that every framework trains the same network", [&] { return bench_verify(suite); },
      kVerifyHelp);
  add_sweep(*verify, suite);
}

void add_looks(CLI::App& bench, const AddCommand& add, BenchArguments& arguments) {
  SuiteOptions& suite = arguments.suite;
  CLI::App* explain = add(
      bench, "explain", "Say why a step takes its time: operators against the machine's floor",
      [&] { return bench_explain(suite); }, "Example: varve bench explain resnet50 rows=40");
  add_sweep(*explain, suite);
  explain->add_option("--rows", suite.rows, "of the table")->check(CLI::Range(1, 100000))->capture_default_str();
  CLI::App* compare = add(
      bench, "compare", "Say what changed beyond noise between two files of records",
      [&] { return bench_compare(arguments.compare); }, kCompareHelp);
  compare->add_option("old", arguments.compare.before, "records")->required();
  compare->add_option("new", arguments.compare.after, "records")->required();
  compare->add_option("--tolerance", arguments.compare.tolerance, "relative change of time that is noise in any case")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  add(
      bench, "setup", "Install the other frameworks in a virtual environment, from PyPI", [] { return bench_setup(); },
      "Example: varve bench setup\nIt goes to ~/.cache/varve/peers. VARVE_PEERS_PYTHON names another Python instead.");
  CLI::App* worker = add(
      bench, "worker", "Answer one request of the driver", [&] { return bench_worker(arguments.request); }, "");
  worker->add_option("request", arguments.request, "a JSON file")->required();
  worker->group("");  // not for people
}

}  // namespace

void add_bench_commands(CLI::App& bench, const AddCommand& add, BenchArguments& arguments) {
  add_comparisons(bench, add, arguments.suite);
  add_looks(bench, add, arguments);
}

}  // namespace varve::cli
