// `varve bench explain`, `compare` and `setup`.
#include <iostream>

#include "base/text.h"
#include "bench/compare.h"
#include "bench/explain.h"
#include "bench/setup.h"
#include "cli/bench/suite.h"
#include "cli/bench/tables.h"
#include "cli/menu.h"
#include "cli/text.h"

namespace varve::cli {
namespace {

void print_explanation(const bench::Explanation& e, int most) {
  std::cout << e.setting.str() << " · kernels " << ms_text(e.step_ms) << " ms · counted products at the peak of "
            << fixed(e.gflops, 0) << " GFLOP/s " << ms_text(e.floor_ms) << " ms · " << fixed(e.gbps, 1) << " GB/s\n\n";
  std::vector<std::vector<std::string>> rows = {
      {"ms", "%", "floor: operations", "bytes", "of peak", "calls", "kernel", "operator"}};
  for (const bench::ExplainedRow& row : e.rows) {
    if (static_cast<int>(rows.size()) > most) break;
    rows.push_back({fixed(row.ms, e.places()), fixed(100 * row.ms / e.step_ms, 1),
                    fixed(row.flops_floor_ms, e.places()), fixed(row.bytes_floor_ms, e.places()),
                    fixed(row.ms > 0 ? 100 * row.floor_ms() / row.ms : 0, 0) + "%", cat(row.calls), row.kernel,
                    cat(row.op, " ", row.shape)});
  }
  std::cout << aligned(rows);
  if (static_cast<int>(e.rows.size()) > most)
    std::cout << "… and " << e.rows.size() - static_cast<std::size_t>(most) << " shorter ones (rows= shows more)\n";
  std::cout << "\nThe largest gaps:\n";
  for (std::size_t i = 0; i < e.gaps.size(); ++i) std::cout << i + 1 << ". " << e.gaps[i] << '\n';
}

int explain(const SuiteOptions& options) {
  if (options.sweep.workloads.empty())
    throw UsageError("explain needs the name of a workload: varve bench explain fcn5");
  const bench::Sweep sweep = sweep_of(options, {"varve"});
  for (const bench::Setting& setting : sweep.settings) print_explanation(bench::explain(setting), options.rows);
  return kOk;
}

struct CompareOptions {
  std::string before = {}, after = {};  // files
  double tolerance = 0.05;
};
int compare(const CompareOptions& options) {
  const bench::Changes found = bench::compare(bench::load_records(options.before), bench::load_records(options.after),
                                              {.tolerance = options.tolerance});
  std::vector<std::vector<std::string>> rows = {{"", "what", "before", "after", "ratio", "measured"}};
  for (const bench::Change& c : found.changes)
    rows.push_back({c.kind == bench::Change::Kind::better ? "better" : "WORSE", c.what, c.before_text, c.after_text,
                    c.what == "time" ? cat(fixed(c.after / c.before, 3), " [", fixed(c.ratio.low, 3), ", ",
                                           fixed(c.ratio.high, 3), "]")
                                     : "",
                    c.key});
  if (rows.size() > 1) std::cout << aligned(rows) << '\n';
  std::cout << found.compared << " compared, " << found.changes.size() << " changed beyond noise";
  if (!found.only_before.empty()) std::cout << ", " << found.only_before.size() << " only before";
  if (!found.only_after.empty()) std::cout << ", " << found.only_after.size() << " only after";
  std::cout << (found.regressed() ? ": Varve has become worse.\n" : ".\n");
  return found.regressed() ? kFailure : kOk;
}

int setup() {
  bench::setup_peers({}, std::cout);
  return kOk;
}

}  // namespace

void add_bench_explain(Menu& bench) {
  const auto options = suite_options(bench);
  Command command = bench.command({.name = "explain",
                                   .what = "Say why a step takes its time: operators against the machine's floor",
                                   .examples = "Example: varve bench explain resnet50 rows=40"},
                                  [options] { return explain(*options); });
  add_sweep(command, *options);
  command.option("--rows", options->rows, "of the table", {.least = 1, .most = 100000});
}

constexpr const char* kCompareExamples =
    R"(Time has changed when the 95% interval of the ratio leaves out 1 and the medians differ by more than the tolerance.
The exit code is 1 when Varve has become slower, larger, less accurate, or fails where it did not.

Example: varve bench compare old.jsonl new.jsonl)";

void add_bench_compare(Menu& bench) {
  auto options = std::make_shared<CompareOptions>();
  bench
      .command({.name = "compare",
                .what = "Say what changed beyond noise between two files of records",
                .examples = kCompareExamples},
               [options] { return compare(*options); })
      .option("old", options->before, "records", {.required = true})
      .option("new", options->after, "records", {.required = true})
      .option("--tolerance", options->tolerance, "relative change of time that is noise in any case",
              {.least = 0, .most = 10});
}

void add_bench_setup(Menu& bench) {
  bench.command({.name = "setup",
                 .what = "Install the other frameworks in a virtual environment, from PyPI",
                 .examples = "Example: varve bench setup\nIt goes to ~/.cache/varve/peers. VARVE_PEERS_PYTHON names "
                             "another Python instead."},
                setup);
}

}  // namespace varve::cli
