// Where the figures come from, and which are missing.
#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "bench/report/sections.h"
#include "page/markup.h"
#include "page/numbers.h"

namespace varve::bench {
namespace {

constexpr std::size_t kReason = 300;  // characters of a failure's last words

// "unknown" and the like where a machine did not tell.
Cell told(const std::string& text) { return text.empty() ? absent("not readable") : Cell(text); }

Table machines_table(const Facts& facts) {
  Table table{.caption = "Machines",
              .head = {"machine", "instructions", "memory", "system", "clock", "governor", "GPU", "load before"},
              .words = 8};
  for (const std::string& name : facts.machines()) {
    const Record& r = *facts.where([&](const Record& each) { return machine_name(each) == name; }).front();
    const auto number = [&](const char* field) {
      const auto at = r.machine.find(field);
      return at != r.machine.end() && at->is_number() ? at->get<double>() : 0.0;
    };
    std::string load;
    for (const double value : r.load) load += (load.empty() ? "" : ", ") + page::fixed(value, 2);
    table.rows.push_back({name, told(text_of(r.machine, "isa")),
                          told(number("memory_bytes") > 0 ? page::fixed(number("memory_bytes") / 1e9, 1) + " GB" : ""),
                          told(text_of(r.machine, "os")),
                          told(number("clock_mhz") > 0 ? page::fixed(number("clock_mhz"), 0) + " MHz" : ""),
                          told(text_of(r.machine, "governor")),
                          r.gpu.is_object() ? told(text_of(r.gpu, "name")) : Cell("none"), told(load)});
  }
  return table;
}

Table versions_table(const Facts& facts) {
  Table table{.caption = "Frameworks", .head = {"framework", "version", "mode measured", "flags"}, .words = 4};
  for (const std::string& name : facts.frameworks()) {
    std::vector<std::vector<Cell>> rows;
    for (const Record& r : facts.all()) {
      if (r.framework != name || !r.ok()) continue;
      std::vector<Cell> row = {
          label(name), told(r.framework == "varve" && r.version.empty() ? r.commit.substr(0, 12) : r.version),
          r.mode.empty() ? Cell("plain") : Cell(r.mode),
          r.flags.empty() ? Cell("") : Cell(r.flags.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))};
      const bool known = std::any_of(rows.begin(), rows.end(), [&](const auto& other) {
        return other[1].text == row[1].text && other[2].text == row[2].text && other[3].text == row[3].text;
      });
      if (!known) rows.push_back(std::move(row));
    }
    if (rows.empty()) rows.push_back({label(name), absent("never ran"), "", ""});
    std::move(rows.begin(), rows.end(), std::back_inserter(table.rows));
  }
  return table;
}

Table commands_table(const Facts& facts) {
  Table table{.caption = "Commands", .head = {"command", "commit", "first record", "records"}, .words = 3};
  for (const Record& r : facts.all()) {
    const auto at = std::find_if(table.rows.begin(), table.rows.end(), [&](const auto& row) {
      return row[0].text == r.command && row[1].text == r.commit.substr(0, 12);
    });
    if (at == table.rows.end()) {
      table.rows.push_back({r.command, r.commit.substr(0, 12), r.time, "1"});
    } else {
      (*at)[3].text = std::to_string(std::stoll((*at)[3].text) + 1);
      (*at)[2].text = std::min((*at)[2].text, r.time);
    }
  }
  return table;
}

}  // namespace

Section gaps_section(const Facts& facts) {
  Section section{.id = "gaps",
                  .title = "What did not run",
                  .intro = "Out of memory, failed, unsupported and missing are results too."};
  Table table{.head = {"workload", "framework", "setting", "status", "reason"}, .words = 5};
  for (const Record& r : facts.all())
    if (!r.ok())
      table.rows.push_back(
          {Cell(r.workload, r.kind), label(r.framework),
           cat("batch ", r.batch, ", ", place_of(r).str(), facts.machines().size() > 1 ? ", " + machine_name(r) : ""),
           absent(status_words(r.status)), page::shortened(r.reason, kReason)});
  if (!table.rows.empty()) section.blocks.push_back({.table = std::move(table)});
  return section;
}

Section unchecked_section(const Facts& facts) {
  Section section{.id = "unchecked",
                  .title = "Not measured with the check on",
                  .intro =
                      "These settings have records, but measured without the check that all frameworks train the same "
                      "network. No figure here is of them; they count as not measured."};
  std::map<std::pair<std::string, std::string>, std::set<std::string>> rows;  // workloads of each setting
  for (const Record& r : facts.unchecked())
    rows[{machine_name(r), cat(r.kind, ", ", place_of(r).str())}].insert(cat(r.workload, " (batch ", r.batch, ")"));
  Table table{.head = {"machine", "setting", "workloads"}, .words = 3};
  for (const auto& [where, workloads] : rows) {
    std::string list;
    for (const std::string& workload : workloads) list += (list.empty() ? "" : ", ") + workload;
    table.rows.push_back({where.first, where.second, list});
  }
  if (!table.rows.empty()) section.blocks.push_back({.table = std::move(table)});
  return section;
}

Section origins_section(const Facts& facts) {
  Section section{.id = "origins", .title = "Where the figures come from", .intro = ""};
  if (facts.all().empty()) return section;
  section.blocks.push_back({.table = machines_table(facts)});
  section.blocks.push_back({.table = versions_table(facts)});
  section.blocks.push_back({.table = commands_table(facts)});
  return section;
}

}  // namespace varve::bench
