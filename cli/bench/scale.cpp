// `varve bench scale`.
#include "bench/scale.h"

#include <algorithm>
#include <iostream>

#include "base/cpu.h"
#include "base/text.h"
#include "cli/bench/suite.h"
#include "cli/bench/tables.h"
#include "cli/menu.h"
#include "cli/text.h"

namespace varve::cli {
namespace {

struct ScaleOptions {
  SuiteOptions suite = {};
  bench::ScaleText text = {};
};

std::string share_text(double share) { return share > 0 ? fixed(100 * share, 0) + "%" : "-"; }

std::string who(const bench::Record& r, const bench::Scaling& s) {
  std::string words = cat(r.ranks, " × ", r.threads, s.connected ? "" : " apart");
  if (s.hosts > 1) words += cat(", ", s.hosts, " hosts", s.rate.empty() ? "" : " " + s.rate);
  return s.compress == "none" || s.compress.empty() ? words : words + ", " + s.compress;
}

// A line for each record.
std::string scaling_table(const std::vector<bench::Record>& records) {
  std::vector<std::vector<std::string>> rows = {{"workload", "ranks × threads", "framework", "ms", "samples/s",
                                                 "× one rank", "of apart", "wire ms", "hidden", "MB sent", "peak",
                                                 "/ varve"}};
  std::string notes;
  for (const bench::Record& r : records) {
    const bench::Scaling s(r);
    if (!r.ok()) notes += cat("\n", r.workload, ", ", who(r, s), ", ", r.framework, " ", r.status, ": ", r.reason);
    rows.push_back(
        {cat(r.workload, " b", r.batch, r.precision == "f32" ? "" : " " + r.precision), who(r, s), r.framework,
         r.ok() ? cat(ms_text(r.ms_median), " (", ms_text(r.ms_quartiles.low), "…", ms_text(r.ms_quartiles.high), ")")
                : r.status,
         s.samples_per_second > 0 ? fixed(s.samples_per_second, s.samples_per_second < 100 ? 1 : 0) : "-",
         s.speed_up > 0 ? fixed(s.speed_up, 2) : "-", share_text(s.efficiency), s.has_wire ? ms_text(s.busy_ms) : "-",
         s.has_wire ? share_text(s.hidden()) : "-", s.has_wire ? fixed(s.bytes / 1e6, 1) : "-",
         r.peak_bytes > 0 ? human_bytes(static_cast<std::uint64_t>(r.peak_bytes)) : "-",
         r.ratio_to_varve > 0 ? fixed(r.ratio_to_varve, 2) : "-"});
  }
  return aligned(rows) + (notes.empty() ? "" : notes + "\n");
}

int scale(const ScaleOptions& given) {
  SuiteOptions options = given.suite;
  bench::ScalePlan plan;
  try {
    plan = bench::make_scale_plan(given.text);
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
  const int most = *std::max_element(plan.ranks.begin(), plan.ranks.end());
  if (options.sweep.threads.empty()) options.sweep.threads = cat(std::max(1, physical_cores() / most));
  const bench::Sweep sweep = sweep_of(options, {"varve", "torch"});
  Run run(options);
  std::vector<bench::Record> all;
  for (std::size_t i = 0; i < sweep.settings.size(); ++i) {
    run.driver.at(i, sweep.settings.size());
    std::vector<bench::Record> records = bench::measure_scaling(run.driver, sweep.settings[i], plan, sweep.frameworks);
    std::move(records.begin(), records.end(), std::back_inserter(all));
  }
  run.clear();
  std::cout << scaling_table(all);
  return exit_code(all);
}

constexpr const char* kScaleExamples =
    R"(Each number of ranks is measured connected and apart: as many ranks that share each batch, and as many that know nothing
of one another, so that what the machine's memory has for all of them is in the baseline. Ranks have processors of their
own. The batch is that of all ranks together, with weak=true that of each.

hosts=2 puts the ranks into network namespaces of this machine (root and iproute2 needed), wire=200mbit makes the wire
between them so slow.

Examples:
  varve bench scale resnet50 ranks=1,2,4 threads=4 weak=true             beside PyTorch's DistributedDataParallel
  varve bench scale fcn5 ranks=2 compress=none,one_bit frameworks=varve
  varve bench scale fcn5 ranks=2 hosts=2 wire=200mbit compress=none,power_sgd frameworks=varve)";

}  // namespace

void add_bench_scale(Menu& bench) {
  auto options = std::make_shared<ScaleOptions>();
  options->suite = *suite_options(bench);
  Command command = bench.command(
      {.name = "scale", .what = "Time training steps of one and of several ranks", .examples = kScaleExamples},
      [options] { return scale(*options); });
  add_sweep(command, options->suite);
  bench::ScaleText& text = options->text;
  command.option("--ranks", text.ranks, "processes that train together; 1,2 unless given")
      .flag("--weak", text.weak, "the batch is each rank's, not that of all together")
      .option("--compress", text.compress, "gradients on the wire: none, half, one_bit, top_k, power_sgd or several")
      .option("--hosts", text.hosts, "network namespaces that the ranks are spread over; 1 unless given")
      .option("--wire", text.wire, "the speed of each host's wire, as in 200mbit; the machine's own unless given");
  add_timing(command, options->suite);
}

}  // namespace varve::cli
