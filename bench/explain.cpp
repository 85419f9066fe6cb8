#include "bench/explain.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "base/text.h"
#include "bench/flops.h"
#include "bench/network.h"
#include "runtime/devices.h"
#include "runtime/machine.h"

namespace varve::bench {
namespace {

constexpr std::size_t kGaps = 5;

std::string digits(double value, int places) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", places, value);
  return text;
}

std::string layers_text(const std::vector<std::string>& origins) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(origins.size(), 3); ++i)
    text += cat(i ? ", " : "", origins[i].empty() ? "the loss" : "layer " + origins[i]);
  return origins.size() > 3 ? cat(text, " and ", origins.size() - 3, " more") : text;
}

std::string gap_words(const ExplainedRow& row, const Explanation& all) {
  const int places = all.places() - 1;
  const bool computes = row.flops_floor_ms >= row.bytes_floor_ms;
  std::string text = cat(row.op, " ", row.shape, " (", layers_text(row.origins), "): ", digits(row.ms, places), " ms, ",
                         digits(100 * row.ms / all.step_ms, 1), "% of the step, ", digits(row.gap_ms(), places),
                         " ms above its floor of ", digits(row.floor_ms(), places), " ms (",
                         computes ? cat("operations at ", std::lround(row.flops / row.flops_floor_ms / 1e6), " GFLOP/s")
                                  : cat("bytes at ", std::lround(all.gbps), " GB/s"),
                         "). Run by ", row.kernel, row.calls > 1 ? cat(", ", row.calls, " times") : "");
  if (row.refused.empty()) return text + ", the first kernel that was asked.";
  text += ", because";
  for (std::size_t i = 0; i < row.refused.size(); ++i) text += cat(i ? "; " : " ", row.refused[i]);
  return text + ".";
}

void add(std::vector<ExplainedRow>& rows, const ProfileRow& from) {
  auto row = std::find_if(rows.begin(), rows.end(), [&](const ExplainedRow& r) {
    return r.kernel == from.kernel && r.op == from.op && r.shape == from.shape;
  });
  if (row == rows.end()) row = rows.insert(rows.end(), {.kernel = from.kernel, .op = from.op, .shape = from.shape});
  if (std::find(row->origins.begin(), row->origins.end(), from.origin) == row->origins.end())
    row->origins.push_back(from.origin);
  ++row->calls;
  row->ms += from.ms;
  row->flops += from.flops;
  row->flops_floor_ms += from.flops_share * from.ms;  // each against the peak of its own types
  row->bytes_floor_ms += from.bytes_share * from.ms;
}

}  // namespace

double ExplainedRow::floor_ms() const { return std::max(flops_floor_ms, bytes_floor_ms); }
double ExplainedRow::gap_ms() const { return std::max(ms - floor_ms(), 0.0); }

int Explanation::places() const { return step_ms < 1 ? 5 : step_ms < 10 ? 4 : 3; }

// A block of the account is "kernel  <-  op(types) -> type", then a line "    other: why not" for each refusal.
std::vector<std::string> refusals_of(const std::string& account, const std::string& kernel, const std::string& op) {
  const std::string head = cat(kernel, "  <-  ", op.substr(0, op.find('+')), "(");
  std::istringstream lines(account);
  std::vector<std::string> refused;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("    ")) {
      inside = line.starts_with(head);
    } else if (inside) {
      const std::string reason = line.substr(4);
      if (std::find(refused.begin(), refused.end(), reason) == refused.end()) refused.push_back(reason);
    }
  }
  return refused;
}

std::vector<std::string> largest_gaps(const Explanation& explanation) {
  std::vector<const ExplainedRow*> rows;
  for (const ExplainedRow& row : explanation.rows)
    if (row.gap_ms() > 0) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) { return a->gap_ms() > b->gap_ms(); });
  rows.resize(std::min(rows.size(), kGaps));
  std::vector<std::string> words;
  for (const ExplainedRow* row : rows) words.push_back(gap_words(*row, explanation));
  return words;
}

Explanation explain(const Setting& setting, const ExplainOptions& options) {
  set_threads(setting.threads);
  const ProductType products = parse_precision(setting.precision);
  Network network(*setting.workload, {.precision = products, .device = setting.device});
  const Sample sample = synthetic_batch(*setting.workload, setting.batch, 0);
  auto step = network.step();
  for (int i = 0; i < 2; ++i) step(sample.x, sample.y).eval();  // compiled, memory touched
  const runtime::MachinePeaks peaks = runtime::peaks_on(runtime::backend_named(setting.device).device(), products);
  const Profile profile = step.profile(options.repeats, sample.x, sample.y);
  const std::string account = step.text(sample.x, sample.y);

  Explanation e{.setting = setting, .gflops = peaks.gflops, .gbps = peaks.gbps, .step_ms = profile.total_ms};
  e.floor_ms = count_work(*setting.workload, setting.batch).step / (peaks.gflops * 1e6);
  for (const ProfileRow& row : profile.rows) add(e.rows, row);
  for (ExplainedRow& row : e.rows) row.refused = refusals_of(account, row.kernel, row.op);
  std::stable_sort(e.rows.begin(), e.rows.end(), [](const auto& a, const auto& b) { return a.ms > b.ms; });
  e.gaps = largest_gaps(e);
  return e;
}

}  // namespace varve::bench
