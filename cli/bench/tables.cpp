#include "cli/bench/tables.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "cli/text.h"

namespace varve::cli {
namespace {

using bench::Record;

struct Row {
  std::string setting;
  std::map<std::string, const Record*> by_framework;
};

std::string cell(const Record* r) {
  if (!r) return "-";
  if (!r->ok()) return r->status == "out_of_memory" ? "out of memory" : r->status;
  return cat(ms_text(r->ms_median), " (", ms_text(r->ms_quartiles.low), "…", ms_text(r->ms_quartiles.high), ")");
}

const Record* best_peer(const Row& row) {
  const Record* best = nullptr;
  for (const auto& [name, r] : row.by_framework)
    if (bench::is_peer(name) && r->ok() && r->ratio_to_varve > 0 && (!best || r->ms_median < best->ms_median)) best = r;
  return best;
}

std::string ratio_cell(const Row& row) {
  const Record* best = best_peer(row);
  const auto python = row.by_framework.find("varve-python");
  if (!best && python != row.by_framework.end() && python->second->ratio_to_varve > 0) best = python->second;
  if (!best) return "-";
  return cat(fixed(best->ratio_to_varve, 2), " [", fixed(best->ratio_interval.low, 2), ", ",
             fixed(best->ratio_interval.high, 2), "] ", best->framework);
}

std::string memory_cell(const Row& row) {
  const auto varve = row.by_framework.find("varve");
  if (varve == row.by_framework.end() || varve->second->peak_bytes == 0) return "-";
  const Record* against = nullptr;
  for (const auto& [name, r] : row.by_framework) {
    if (!bench::is_peer(name) || !r->ok() || r->peak_bytes == 0) continue;
    if (!against || name == "torch" || (against->framework != "torch" && r->peak_bytes < against->peak_bytes))
      against = r;
  }
  if (!against) return human_bytes(static_cast<std::uint64_t>(varve->second->peak_bytes));
  return fixed(static_cast<double>(varve->second->peak_bytes) / static_cast<double>(against->peak_bytes), 2);
}

std::string who_won(const std::vector<Row>& rows) {
  int won = 0, lost = 0, even = 0;
  for (const Row& row : rows) {
    const Record* best = best_peer(row);
    if (!best) continue;
    if (best->ratio_interval.low > 1)
      ++won;
    else if (best->ratio_interval.high < 1)
      ++lost;
    else
      ++even;
  }
  if (won + lost + even == 0) return "";
  return cat("\nVarve against the best peer: ", won, " faster, ", lost, " slower, ", even, " within noise.\n");
}

// Workers load the machine themselves, one for each thread: what is more than that is somebody else's.
std::string busy_note(const std::vector<Record>& records) {
  double most = 0;
  for (const Record& r : records)
    if (!r.load.empty()) most = std::max(most, r.load[0] - r.threads);
  return most > 1 ? cat("\nThe machine had other work to do meanwhile (a load of ", fixed(most, 1),
                        " beside the benchmark): expect noise.\n")
                  : "";
}

std::string shortened(const std::string& reason) {
  const std::size_t end = reason.find('\n');
  const std::string line = reason.substr(0, end);
  return line.size() > 200 ? line.substr(0, 200) + "…" : line;
}

}  // namespace

std::string setting_of(const Record& r) {
  return cat(r.workload, " b", r.batch, " t", r.threads, r.precision == "f32" ? "" : " " + r.precision,
             r.device == "cpu" ? "" : " " + r.device);
}

std::string ms_text(double ms) { return fixed(ms, ms < 1 ? 3 : ms < 10 ? 2 : ms < 100 ? 1 : 0); }

std::string comparison_table(const std::vector<Record>& records) {
  std::vector<Row> rows;
  std::vector<std::string> names;
  std::string notes;
  for (const Record& r : records) {
    const std::string setting = setting_of(r);
    auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& known) { return known.setting == setting; });
    if (row == rows.end()) row = rows.insert(rows.end(), {setting, {}});
    row->by_framework[r.framework] = &r;
    if (std::find(names.begin(), names.end(), r.framework) == names.end()) names.push_back(r.framework);
    if (!r.ok()) notes += cat("\n", setting, ", ", r.framework, " ", r.status, ": ", shortened(r.reason));
  }
  const bool peers = names.size() > 1 || (!names.empty() && names[0] != "varve");
  std::vector<std::vector<std::string>> table = {{"workload"}};
  for (const std::string& name : names) table[0].push_back(name + " ms");
  if (peers) table[0].push_back("best peer / varve");
  table[0].push_back(peers ? "memory" : "peak");
  for (const Row& row : rows) {
    table.push_back({row.setting});
    for (const std::string& name : names)
      table.back().push_back(cell(row.by_framework.contains(name) ? row.by_framework.at(name) : nullptr));
    if (peers) table.back().push_back(ratio_cell(row));
    table.back().push_back(memory_cell(row));
  }
  return aligned(table) + who_won(rows) + (notes.empty() ? "" : notes + "\n") + busy_note(records);
}

std::string percentile_table(const std::vector<Record>& records) {
  std::vector<std::vector<std::string>> rows = {{"workload", "framework", "p50 ms", "p90", "p95", "p99", "samples/s"}};
  for (const Record& r : records) {
    if (!r.ok() || r.processes.empty()) continue;
    const std::vector<double> calls = bench::pooled(r.best_processes());
    rows.push_back({setting_of(r), r.framework});
    for (const double share : {0.5, 0.9, 0.95, 0.99}) rows.back().push_back(ms_text(bench::quantile(calls, share)));
    rows.back().push_back(thousands(static_cast<std::int64_t>(1e3 * static_cast<double>(r.batch) / r.ms_median)));
  }
  return aligned(rows);
}

}  // namespace varve::cli
