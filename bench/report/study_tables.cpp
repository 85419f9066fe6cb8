#include "bench/report/study_tables.h"

#include <algorithm>

namespace varve::bench {

Cell theirs(const std::string& text) { return {text, "", Tone::theirs}; }

int cores_of(const Facts& facts, const std::string& machine) {
  for (const Record& r : facts.all())
    if (machine_name(r) == machine)
      if (const auto at = r.machine.find("cores"); at != r.machine.end() && at->is_number_integer())
        return static_cast<int>(std::clamp<std::int64_t>(at->get<std::int64_t>(), 0, 1 << 20));
  return 0;
}

std::vector<std::string> machines_with(const Facts& facts, const std::string& kind,
                                       const std::vector<std::string>& workloads) {
  std::vector<std::string> names;
  for (const std::string& machine : facts.machines())
    if (!facts
             .where([&](const Record& r) {
               return r.kind == kind && machine_name(r) == machine &&
                      std::find(workloads.begin(), workloads.end(), r.workload) != workloads.end();
             })
             .empty())
      names.push_back(machine);
  if (names.empty()) names.emplace_back();
  return names;
}

const Record* find(const Facts& facts, const Spot& spot) {
  const Record* found = nullptr;
  for (const Record& r : facts.all()) {
    const bool same = r.kind == spot.kind && r.workload == spot.workload && r.framework == spot.framework &&
                      r.device == spot.device && r.precision == "f32" && (spot.batch == 0 || r.batch == spot.batch) &&
                      (spot.threads == 0 || r.threads == spot.threads) && machine_name(r) == spot.machine;
    if (same && (!found || (r.ok() && !found->ok()))) found = &r;
  }
  return found;
}

Cell empty_cell(const Facts& facts, const std::string& machine, int threads) {
  const int cores = cores_of(facts, machine);
  return absent(cores > 0 && threads > cores ? "–" : "not measured");
}

void explain_dashes(Table& table) {
  for (const auto& row : table.rows)
    for (const Cell& cell : row)
      if (cell.text == "–") {
        table.note += std::string(table.note.empty() ? "" : " ") + "–: more threads than the machine has cores.";
        return;
      }
}

}  // namespace varve::bench
