// `varve bench ops`: operators as compiled programs, against what the machine can do at best.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "base/text.h"
#include "cli/bench/cases.h"
#include "cli/subject.h"
#include "cli/text.h"
#include "runtime/devices.h"
#include "runtime/machine.h"
#include "varve/tensor.h"

namespace varve::cli {
namespace {

struct BenchOpsOptions {
  std::vector<std::string> filters;
  bool json = false;
  bool list = false;
  std::string device = "cpu";
  int threads = 0;
};

constexpr int kFewest = 10, kMost = 200;
constexpr double kLongEnough = 0.5;  // seconds of samples, unless the fewest take longer

struct Measured {
  double ms = 0, best_ms = 0;  // the median, the fastest
  double gflops = 0, gbps = 0;
  double bytes = 0;
  int samples = 0;
};

// The machine just before a case and just after it. On a shared machine the bandwidth drifts by half within seconds, so
// a peak from the start of the run is no measure for its end.
struct Around {
  runtime::MachinePeaks before, after;

  double gflops() const { return std::max(before.gflops, after.gflops); }
  double gbps() const { return std::max(before.gbps, after.gbps); }
  bool steady() const { return std::min(before.gbps, after.gbps) > 0.85 * gbps(); }
};

backend::Device* current() { return runtime::backend_named(device()).device(); }

// A processor's peaks change with what else it does; a GPU's are measured once.
runtime::MachinePeaks peaks_now() { return current() ? runtime::peaks_on(current(), f32) : runtime::measure_peaks(); }

Measured measure(const BenchCase& bench) {
  const Runner runner = bench.make();
  double flops = 0, bytes = 0;
  for (const ProfileRow& row : runner.profile().rows) {  // the first run: compiles, and touches all memory
    flops += row.flops;
    bytes += row.bytes;
  }
  runner.run();
  synchronize();
  std::vector<double> times;
  double total = 0;
  while (static_cast<int>(times.size()) < kFewest || (total < kLongEnough && static_cast<int>(times.size()) < kMost)) {
    const auto start = std::chrono::steady_clock::now();
    runner.run();
    synchronize();
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    total += times.back() / 1e3;
  }
  std::sort(times.begin(), times.end());
  const std::size_t middle = times.size() / 2;
  const double median = times.size() % 2 ? times[middle] : (times[middle - 1] + times[middle]) / 2;
  return {median, times.front(), flops / median / 1e6, bytes / median / 1e6, bytes, static_cast<int>(times.size())};
}

std::vector<BenchCase> chosen(const std::vector<std::string>& filters) {
  std::vector<BenchCase> all = bench_cases();
  if (filters.empty()) return all;
  std::vector<std::string> known;
  std::vector<bool> used(filters.size());
  std::vector<BenchCase> found;
  for (BenchCase& bench : all) {
    known.push_back(bench.op);
    const std::string text = bench.op + " " + bench.shape;
    bool wanted = false;
    for (std::size_t i = 0; i < filters.size(); ++i) {
      if (text.find(filters[i]) == std::string::npos) continue;
      used[i] = wanted = true;
    }
    if (wanted) found.push_back(std::move(bench));
  }
  for (std::size_t i = 0; i < filters.size(); ++i) {
    if (used[i]) continue;
    throw UsageError(cat("no benchmark has '", filters[i], "' in operator or shape.",
                         did_you_mean(filters[i], known, " See: varve bench ops --list")));
  }
  return found;
}

// Rows as they come, in columns wide enough for every case.
class Report {
 public:
  Report(const std::vector<BenchCase>& cases, runtime::MachinePeaks peaks, bool json) : json_(json) {
    for (const BenchCase& bench : cases) {
      op_width_ = std::max(op_width_, width(bench.op));
      shape_width_ = std::max(shape_width_, width(bench.shape));
    }
    if (json_) return;
    std::cout << (current() ? current()->about().front().second : cpu_name()) << " · " << device() << ", " << threads()
              << (threads() == 1 ? " thread" : " threads") << " · peak " << fixed(peaks.gflops, 1) << " GFLOP/s, "
              << fixed(peaks.gbps, 1) << " GB/s" << (current() ? "" : ", measured now and again around each case")
              << "\n\n"
              << padded("operator", op_width_ + 2) << padded("shape", shape_width_ + 2)
              << "       ms    GFLOP/s     GB/s  of peak\n"
              << std::flush;
  }

  void row(const BenchCase& bench, const Measured& m, const Around& peaks) const {
    if (json_) return print_json(bench, m, peaks);
    const double compute = m.gflops / peaks.gflops(), memory = m.gbps / peaks.gbps();
    const bool cached = in_cache(m);
    const char* limit = compute >= memory || cached ? "FLOP/s" : "bandwidth";
    std::cout << head(bench) << right(fixed(m.ms, 3), 9) << right(fixed(m.gflops, 1), 11) << right(fixed(m.gbps, 1), 9)
              << right(fixed(100 * (cached ? compute : std::max(compute, memory)), 1), 7) << "% " << limit
              << (cached && memory > compute ? ", data in cache" : "") << (peaks.steady() ? "" : ", unsteady machine")
              << std::endl;
  }

  // A failure is a row too, never a gap.
  void failure(const BenchCase& bench, const std::string& what) const {
    if (json_)
      std::cout << nlohmann::ordered_json{{"op", bench.op}, {"shape", bench.shape}, {"error", what}}.dump()
                << std::endl;
    else
      std::cout << head(bench) << "failed: " << what << std::endl;
  }

 private:
  std::string head(const BenchCase& bench) const {
    return padded(bench.op, op_width_ + 2) + padded(bench.shape, shape_width_ + 2);
  }

  // Memory's peak says nothing about data that never leave the last cache.
  static bool in_cache(const Measured& m) {
    return !current() && m.bytes < 2.0 * static_cast<double>(cache_sizes().l3);
  }

  void print_json(const BenchCase& bench, const Measured& m, const Around& peaks) const {
    std::cout << nlohmann::ordered_json{{"op", bench.op},
                                        {"shape", bench.shape},
                                        {"ms", m.ms},
                                        {"gflops", m.gflops},
                                        {"gbps", m.gbps},
                                        {"peak_gflops", peaks.gflops()},
                                        {"peak_gbps", peaks.gbps()},
                                        {"in_cache", in_cache(m)},
                                        {"steady", peaks.steady()},
                                        {"best_ms", m.best_ms},
                                        {"samples", m.samples},
                                        {"device", device()},
                                        {"threads", threads()}}
                     .dump()
              << std::endl;
  }

  bool json_;
  std::size_t op_width_ = 8, shape_width_ = 5;
};

// Other programs at work make every figure worse: better said than guessed.
void warn_when_busy() {
  double load = 0;
  if (getloadavg(&load, 1) == 1 && load > 0.5)
    std::cerr << "note: this machine is busy (load " << fixed(load, 1) << "): times will be too long\n";
}

int run_bench_ops(const BenchOpsOptions& options) {
  use_device(options.device, options.threads);
  const std::vector<BenchCase> cases = chosen(options.filters);
  if (options.list) {
    for (const BenchCase& bench : cases) std::cout << bench.op << "  " << bench.shape << '\n';
    return kOk;
  }
  warn_when_busy();
  Progress progress(2);
  progress.show("measuring the machine");
  Around peaks{peaks_now(), {}};
  const Report report(cases, peaks.before, options.json);
  bool failed = false;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    progress.show(cat(i + 1, "/", cases.size(), " ", cases[i].op, " ", cases[i].shape));
    try {
      const Measured measured = measure(cases[i]);
      peaks.after = peaks_now();
      progress.clear();
      report.row(cases[i], measured, peaks);
      peaks.before = peaks.after;
    } catch (const std::exception& e) {
      progress.clear();
      report.failure(cases[i], e.what());
      failed = true;
    }
  }
  return failed ? kFailure : kOk;
}

}  // namespace

void add_bench_ops(Menu& bench) {
  auto options = std::make_shared<BenchOpsOptions>();
  bench
      .command(
          {.name = "ops",
           .what = "Time operators, each as a compiled program, against the machine's measured peak",
           .examples =
               "The peak is measured first: fused multiply-adds in registers, and a triad over memory. A row is the\n"
               "median of at least ten runs after warm-up. Example: varve bench ops conv2d threads=1"},
          [options] { return run_bench_ops(*options); })
      .option("filter", options->filters, "only cases with one of these words in operator or shape")
      .flag("--json", options->json, "one JSON object a line")
      .flag("--list", options->list, "name the cases, measure nothing")
      .option("--device", options->device, "where to compute: cpu, cuda or reference")
      .option("--threads", options->threads, "how many threads; the physical cores unless given",
              {.least = 1, .most = 1024});
}

}  // namespace varve::cli
