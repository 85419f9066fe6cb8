// Six networks: seconds a mini-batch by threads, and by batch size with what runs out of memory.
#include <algorithm>
#include <set>

#include "base/text.h"
#include "bench/report/studies.h"
#include "bench/report/study_tables.h"
#include "bench/workloads.h"

namespace varve::bench {
namespace {

const std::vector<std::string> kNetworks = {"fcn5", "fcn8", "alexnet", "resnet50", "lstm32", "lstm64"};

// The study prints seconds.
Cell seconds_of(const Record* record) {
  if (!record->ok() || !(record->ms_median > 0)) return absent(status_words(record->ok() ? "failed" : record->status));
  return short_number(record->ms_median / 1e3);
}

std::vector<Cell> thread_row(const Facts& facts, const Spot& at) {
  std::vector<Cell> row = {Cell(at.workload, cat("batch ", at.batch)), label(at.framework)};
  double best = 0;
  for (const int threads : kStudyThreads) {
    Spot spot = at;
    spot.threads = threads;
    const Record* record = find(facts, spot);
    row.push_back(record ? seconds_of(record) : empty_cell(facts, at.machine, threads));
    if (record && record->ok() && record->ms_median > 0)
      best = best > 0 ? std::min(best, record->ms_median) : record->ms_median;
  }
  Spot spot = at;
  spot.device = "cuda";
  const Record* gpu = find(facts, spot);
  row.push_back(gpu ? seconds_of(gpu) : absent("not measured"));
  row.push_back(best > 0 && gpu && gpu->ok() && gpu->ms_median > 0 ? Cell(times(best / gpu->ms_median))
                                                                   : absent("not measured"));
  return row;
}

// A row that says one thing.
std::vector<Cell> remark(const Table& table, const Cell& network, const std::string& framework,
                         const std::string& words) {
  std::vector<Cell> row(table.head.size());
  row[0] = network, row[1] = framework, row[2] = absent(words);
  return row;
}

Table thread_table(const Facts& facts, const std::string& machine, const std::vector<std::string>& frameworks) {
  Table table{.caption = cat("Seconds a mini-batch, by threads", machine.empty() ? "" : ", " + machine),
              .head = {"network", "framework"},
              .words = 2,
              .grouped = true};
  for (const int threads : kStudyThreads) table.head.push_back(cat(threads, threads == 1 ? " thread" : " threads"));
  table.head.insert(table.head.end(), {"GPU", "GPU over best CPU"});
  for (const std::string& network : kNetworks) {
    const std::int64_t batch = find_workload(network).batch;
    const bool any = std::any_of(frameworks.begin(), frameworks.end(), [&](const std::string& name) {
      return find(facts, {"step", machine, network, name, "cpu", batch, 0}) ||
             find(facts, {"step", machine, network, name, "cuda", batch, 0});
    });
    if (any)
      for (const std::string& name : frameworks)
        table.rows.push_back(thread_row(facts, {"step", machine, network, name, "cpu", batch, 0}));
    else
      table.rows.push_back(remark(table, Cell(network, cat("batch ", batch)), "all", "not measured"));
  }
  for (const char* tool : {"Caffe", "CNTK", "Torch7"})
    table.rows.push_back(remark(table, "all six", cat(tool, " 2016†"), "cannot be installed today"));
  explain_dashes(table);
  return table;
}

// Columns are the sizes that any network was measured at on that machine and device.
Table batch_table(const Facts& facts, const std::string& machine, const std::string& device) {
  std::set<std::int64_t> sizes;
  int threads = 0;
  for (const Record& r : facts.all())
    if (r.kind == "step" && r.device == device && r.precision == "f32" && machine_name(r) == machine &&
        std::find(kNetworks.begin(), kNetworks.end(), r.workload) != kNetworks.end())
      sizes.insert(r.batch), threads = std::max(threads, r.threads);
  Table table{.caption = cat("Seconds a mini-batch, by batch size, ",
                             device == "cpu" ? cat(threads, " threads") : device, ", ", machine),
              .head = {"network", "framework"},
              .words = 2,
              .grouped = true};
  for (const std::int64_t size : sizes) table.head.push_back(cat("batch ", size));
  for (const std::string& network : kNetworks)
    for (const std::string& name : facts.frameworks("step")) {
      std::vector<Cell> row = {network, label(name)};
      int measured = 0;
      for (const std::int64_t size : sizes) {
        const Record* record =
            find(facts, {"step", machine, network, name, device, size, device == "cpu" ? threads : 0});
        row.push_back(record ? seconds_of(record) : Cell(""));
        measured += record != nullptr;
      }
      if (measured > 1) table.rows.push_back(std::move(row));
    }
  return table;
}

}  // namespace

std::vector<Table> shi_tables(const Facts& facts) {
  std::vector<Table> tables;
  std::vector<std::string> frameworks = facts.frameworks("step");
  if (frameworks.empty()) frameworks = {"varve"};
  for (const std::string& machine : machines_with(facts, "step", kNetworks)) {
    tables.push_back(thread_table(facts, machine, frameworks));
    for (const char* device : {"cpu", "cuda"})
      if (Table table = batch_table(facts, machine, device); !table.rows.empty()) tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace varve::bench
