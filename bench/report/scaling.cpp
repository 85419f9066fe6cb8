// How times change with threads and with batch size.
#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "bench/report/sections.h"
#include "page/chart.h"
#include "page/numbers.h"

namespace varve::bench {
namespace {

// One chart: a workload on one machine, with everything fixed but one number.
struct Family {
  std::string machine, device, precision, workload;
  std::int64_t fixed = 0;  // the batch, or the threads
  auto operator<=>(const Family&) const = default;
};
using Curve = std::map<std::int64_t, const Record*>;
using Curves = std::map<std::string, Curve>;  // by framework

struct Axis {
  std::int64_t (*moving)(const Record&);
  std::int64_t (*fixed)(const Record&);
};

std::int64_t threads_of(const Record& r) { return r.threads; }
std::int64_t batch_of(const Record& r) { return r.batch; }

// Those with at least two values of the moving number, in the order of the suite's workloads.
std::vector<std::pair<Family, Curves>> families(const Facts& facts, const Axis& axis) {
  std::map<Family, Curves> found;
  for (const Record& r : facts.all())
    if (r.kind == "step" && r.ranks == 1)
      found[{machine_name(r), r.device, r.precision, r.workload, axis.fixed(r)}][r.framework][axis.moving(r)] = &r;
  std::vector<std::pair<Family, Curves>> chosen;
  for (const auto& [family, curves] : found)
    if (std::any_of(curves.begin(), curves.end(), [](const auto& c) { return c.second.size() > 1; }))
      chosen.emplace_back(family, curves);
  std::stable_sort(chosen.begin(), chosen.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.first.machine, workload_place(a.first.workload)) <
           std::tuple(b.first.machine, workload_place(b.first.workload));
  });
  return chosen;
}

double throughput(const Record& r) { return static_cast<double>(r.batch) / r.ms_median * 1e3; }

std::string chart(const Family& family, const Curves& curves, bool threads) {
  std::set<std::int64_t> places;
  std::vector<page::Series> series;
  for (const auto& [framework, curve] : curves) {
    page::Series line{label(framework), {}, {}, style_of(framework)};
    for (const auto& [at, record] : curve)
      if (record->ok() && record->ms_median > 0) {
        line.x.push_back(static_cast<double>(at));
        line.y.push_back(throughput(*record));
        places.insert(at);
      }
    if (!line.x.empty()) series.push_back(std::move(line));
  }
  std::sort(series.begin(), series.end(), [](const auto& a, const auto& b) { return a.style < b.style; });
  page::ChartOptions options{
      .title = family.workload + (threads ? cat(", batch ", family.fixed)
                                  : family.device == "cpu"
                                      ? cat(", ", family.fixed, family.fixed == 1 ? " thread" : " threads")
                                      : ""),
      .x_label = threads ? "threads" : "batch",
      .y_label = "samples a second",
      .log_x = !threads,
      .x_ticks = std::vector<double>(places.begin(), places.end()),
      .y_from_zero = true,
      .legend = false};
  if (family.precision != "f32") options.title += ", " + family.precision;
  if (family.device != "cpu") options.title += ", " + family.device;
  return page::line_chart_svg(series, options);
}

// "1.86 (0.93)": how many times one thread, and that over the number of threads.
Cell gain(const Curve& curve) {
  const auto first = curve.begin();
  const auto last = std::prev(curve.end());
  if (first == last) return absent("not measured");
  if (!first->second->ok() || !last->second->ok()) return absent(status_words(last->second->status));
  const double speed = first->second->ms_median / last->second->ms_median;
  const double more = static_cast<double>(last->first) / static_cast<double>(first->first);
  return {times(speed), page::fixed(100 * speed / more, 0) + "%"};
}

Table gains(const std::vector<std::pair<Family, Curves>>& all, const std::vector<std::string>& frameworks) {
  Table table{.caption = "Speed of the most threads over the fewest, and the share of a perfect gain",
              .head = {"workload", "machine", "threads"},
              .words = 2};
  for (const std::string& name : frameworks) table.head.push_back(label(name));
  for (const auto& [family, curves] : all) {
    if (family.device != "cpu") continue;
    const Curve& longest = std::max_element(curves.begin(), curves.end(), [](const auto& a, const auto& b) {
                             return a.second.size() < b.second.size();
                           })->second;
    std::vector<Cell> row = {
        Cell(family.workload, cat("batch ", family.fixed, family.precision == "f32" ? "" : ", " + family.precision)),
        family.machine, cat(longest.begin()->first, " → ", longest.rbegin()->first)};
    for (const std::string& name : frameworks) {
      const auto at = curves.find(name);
      row.push_back(at == curves.end() ? absent("not measured") : gain(at->second));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table batches(const std::vector<std::pair<Family, Curves>>& all, const std::vector<std::string>& frameworks) {
  Table table{.caption = "Samples a second, by batch size",
              .head = {"workload", "machine", "batch"},
              .words = 2,
              .grouped = true};
  for (const std::string& name : frameworks) table.head.push_back(label(name));
  for (const auto& [family, curves] : all) {
    std::set<std::int64_t> sizes;
    for (const auto& [framework, curve] : curves)
      for (const auto& [size, record] : curve) sizes.insert(size);
    for (const std::int64_t size : sizes) {
      std::vector<Cell> row = {Cell(family.workload, family.precision == "f32" ? "" : family.precision), family.machine,
                               std::to_string(size)};
      for (const std::string& name : frameworks) {
        const auto at = curves.find(name);
        const Record* record = at == curves.end() || !at->second.contains(size) ? nullptr : at->second.at(size);
        if (!record || !record->ok() || !(record->ms_median > 0))
          row.push_back(absent(record ? status_words(record->status) : "not measured"));
        else
          row.push_back(short_number(throughput(*record)));
      }
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

// One machine needs no column of machines.
Table without_machine(Table table, const Facts& facts) {
  if (facts.machines().size() > 1) return table;
  table.head.erase(table.head.begin() + 1);
  for (auto& row : table.rows) row.erase(row.begin() + 1);
  table.words = 1;
  return table;
}

std::vector<Block> chart_blocks(const Facts& facts, const std::vector<std::pair<Family, Curves>>& all, bool threads) {
  std::vector<Block> blocks;
  std::string charts, machine;
  const auto flush = [&] {
    if (!charts.empty()) blocks.push_back({.html = machine_heading(facts, machine) + grid_html(charts)});
    charts.clear();
  };
  for (const auto& [family, curves] : all) {
    if (family.machine != machine) flush(), machine = family.machine;
    charts += chart(family, curves, threads);
  }
  flush();
  if (!blocks.empty()) blocks.front().html = legend_html(facts.frameworks("step")) + blocks.front().html;
  return blocks;
}

}  // namespace

Section thread_section(const Facts& facts) {
  Section section{.id = "threads",
                  .title = "More threads",
                  .intro = "Samples a second of a training step: a straight line from zero is perfect scaling."};
  auto all = families(facts, {threads_of, batch_of});
  std::erase_if(all, [](const auto& family) { return family.first.device != "cpu"; });
  section.blocks = chart_blocks(facts, all, true);
  if (!all.empty()) section.blocks.push_back({.table = without_machine(gains(all, facts.frameworks("step")), facts)});
  return section;
}

Section batch_section(const Facts& facts) {
  Section section{.id = "batches",
                  .title = "Larger batches",
                  .intro =
                      "Samples a second of a training step. A framework without a point there ran out of memory or "
                      "was not measured: the table says which."};
  const auto all = families(facts, {batch_of, threads_of});
  section.blocks = chart_blocks(facts, all, false);
  if (!all.empty()) section.blocks.push_back({.table = without_machine(batches(all, facts.frameworks("step")), facts)});
  return section;
}

}  // namespace varve::bench
