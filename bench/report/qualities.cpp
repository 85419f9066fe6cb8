#include "bench/report/qualities.h"

#include "bench/report/sections.h"

namespace varve::bench {
namespace {

Cell evidence_cell(const Evidence& evidence) {
  const std::string words = evidence.words;
  switch (evidence.holds) {
    case Holds::yes:
      return {"holds", words};
    case Holds::no:
      return {"does not hold", words, Tone::absent};
    case Holds::unknown:
      return {words.empty() ? "not measured" : "in part", words, Tone::absent};
  }
  return {};
}

Table principles_table(const Facts& facts, const std::string& root) {
  Table table{.caption = "The seven principles",
              .head = {"principle", "the study asks", "this suite", "enforced by", "in these records"},
              .words = 5};
  for (const Principle& principle : principles()) {
    Cell files;
    for (const std::string& check : principle.checks) files.links.push_back({check, root.empty() ? "" : root + check});
    table.rows.push_back(
        {principle.name, principle.asks, principle.how, files, evidence_cell(principle.evidence(facts))});
  }
  return table;
}

Table hardware_table(const Facts& facts) {
  const std::vector<std::string> machines = facts.machines();
  Table table{.caption = "The twelve metrics of hardware", .head = {"metric"}};
  table.head.insert(table.head.end(), machines.begin(), machines.end());
  table.head.insert(table.head.end(), {"ASIC", "FPGA", "GPU"});
  for (const HardwareMetric& metric : hardware_metrics()) {
    std::vector<Cell> row = {metric.name};
    for (const std::string& machine : machines)
      row.push_back(metric.value ? metric.value(facts, machine) : absent("not measured"));
    for (const std::string& rating : {metric.asic, metric.fpga, metric.gpu}) row.emplace_back(rating, "", Tone::theirs);
    table.rows.push_back(std::move(row));
  }
  table.note = "Best of all records of the machine. The ratings are the survey's, of 2019; it rates no CPU.";
  return table;
}

Table frameworks_table(const Facts& facts) {
  Table table{
      .caption = "The seven metrics of frameworks",
      .head = {"framework", "license", "core", "interfaces", "hardware", "stability", "tested networks", "data sets"},
      .words = 8};
  const auto add = [&](const FrameworkRow& row, Tone tone) {
    std::vector<Cell> cells = {row.name};
    for (const std::string& text :
         {row.license, row.core, row.interfaces, row.hardware, row.servers, row.networks, row.data})
      cells.push_back(text.empty() ? absent("not measured") : Cell(text, "", tone));
    table.rows.push_back(std::move(cells));
  };
  add(varve_row(facts), Tone::plain);
  for (const FrameworkRow& row : surveyed_frameworks()) add(row, Tone::theirs);
  table.note =
      "Varve's hardware, networks and data sets are those of these records, not all that it can do. The other "
      "rows are the survey's table as printed in 2019; its \"stability\" asks for more than one server.";
  return table;
}

}  // namespace

std::vector<Section> qualities(const Facts& facts, const std::string& root) {
  return {{.id = "principles",
           .title = "How these figures were made",
           .intro = "Dai and Berleant ask seven things of a benchmark. Each is enforced by code in this repository, "
                    "and looked for in "
                    "the records of this page.",
           .blocks = {{.table = principles_table(facts, root)}}},
          {.id = "survey",
           .title = "Dai and Berleant's survey",
           .intro = "Its metrics of hardware and frameworks, filled from the records where they say something.",
           .blocks = {{.table = hardware_table(facts)}, {.table = frameworks_table(facts)}}}};
}

}  // namespace varve::bench
