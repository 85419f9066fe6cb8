// Several ranks: how training grows with them, and what they spend on the wire.
#include <algorithm>
#include <map>
#include <tuple>

#include "base/text.h"
#include "bench/report/sections.h"
#include "bench/scale.h"
#include "page/chart.h"
#include "page/numbers.h"

namespace varve::bench {
namespace {

std::string who_of(const Record& r, const Scaling& s) {
  std::string words = cat(r.ranks, " × ", r.threads, s.connected ? "" : " apart");
  if (s.hosts > 1) words += cat(", ", s.hosts, " hosts", s.rate.empty() ? "" : ", " + s.rate);
  return s.compress.empty() || s.compress == "none" ? words : words + ", " + s.compress;
}

Cell percent_or_none(double share) { return share > 0 ? Cell(page::fixed(100 * share, 0) + "%") : Cell("–"); }

std::vector<Cell> row_of(const Record& r) {
  const Scaling s(r);
  std::vector<Cell> row = {Cell(r.workload, cat("batch ", r.batch, r.precision == "f32" ? "" : ", " + r.precision)),
                           Cell(machine_name(r)),
                           Cell(who_of(r, s)),
                           Cell(label(r.framework)),
                           milliseconds(&r),
                           r.ok() ? Cell(short_number(s.samples_per_second)) : absent("not measured"),
                           s.speed_up > 0 ? Cell(times(s.speed_up)) : Cell("–"),
                           percent_or_none(s.efficiency)};
  row.push_back(s.has_wire ? Cell(short_number(s.busy_ms)) : Cell("–"));
  row.push_back(s.has_wire ? percent_or_none(s.hidden()) : Cell("–"));
  row.push_back(s.has_wire ? Cell(short_number(s.bytes / 1e6)) : Cell("–"));
  row.push_back(r.peak_bytes > 0 ? Cell(megabytes(static_cast<double>(r.peak_bytes))) : Cell("–"));
  return row;
}

std::vector<const Record*> in_order(const Facts& facts) {
  std::vector<const Record*> records = facts.where([](const Record& r) { return r.kind == "scale"; });
  const auto place = [](const Record* r) {
    const Scaling s(*r);
    return std::tuple(machine_name(*r), workload_place(r->workload), r->workload, r->threads, s.hosts, s.rate, r->ranks,
                      s.connected, s.compress, r->framework != "varve", r->framework);
  };
  std::stable_sort(records.begin(), records.end(),
                   [&](const Record* a, const Record* b) { return place(a) < place(b); });
  return records;
}

// Samples a second by ranks, where a workload was measured with more than two numbers of them.
std::string charts(const std::vector<const Record*>& records) {
  using Curve = std::map<int, double>;
  std::map<std::tuple<std::string, std::string, int, bool>, std::map<std::string, Curve>> families;
  for (const Record* r : records) {
    const Scaling s(*r);
    if (r->ok() && s.connected && s.hosts == 1 && (s.compress.empty() || s.compress == "none"))
      families[{machine_name(*r), r->workload, r->threads, s.weak}][r->framework][r->ranks] = s.samples_per_second;
  }
  std::string html;
  for (const auto& [family, curves] : families) {
    std::vector<page::Series> series;
    std::vector<double> ticks;
    for (const auto& [framework, curve] : curves) {
      page::Series line{label(framework), {}, {}, style_of(framework)};
      for (const auto& [ranks, speed] : curve) line.x.push_back(ranks), line.y.push_back(speed);
      if (line.x.size() > ticks.size()) ticks = line.x;
      series.push_back(std::move(line));
    }
    if (ticks.size() < 3) continue;
    html +=
        page::line_chart_svg(series, {.title = cat(std::get<1>(family), ", ", std::get<2>(family), " threads a rank"),
                                      .x_label = "ranks",
                                      .y_label = "samples a second",
                                      .x_ticks = ticks,
                                      .y_from_zero = true,
                                      .legend = false});
  }
  return html;
}

}  // namespace

Section rank_section(const Facts& facts) {
  Section section{.id = "ranks",
                  .title = "Several ranks",
                  .intro =
                      "Processes that train one model together, against as many that know nothing of one another "
                      "(\"apart\"): what the machine's memory has for all of them is in both. PyTorch is "
                      "DistributedDataParallel over Gloo. On the wire: of a step, and the share of it that "
                      "computation hid."};
  const std::vector<const Record*> records = in_order(facts);
  if (records.empty()) return section;
  if (const std::string html = charts(records); !html.empty())
    section.blocks.push_back({.html = legend_html(facts.frameworks("scale")) + grid_html(html)});
  Table table{.caption = "Training steps by ranks",
              .head = {"workload", "machine", "ranks × threads", "framework", "ms", "samples/s", "× one rank",
                       "of apart", "wire ms", "hidden", "MB sent", "peak"},
              .words = 4,
              .grouped = true};
  for (const Record* r : records) table.rows.push_back(row_of(*r));
  section.blocks.push_back({.table = std::move(table)});
  return section;
}

}  // namespace varve::bench
