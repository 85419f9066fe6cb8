// What the studies' layouts share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/report/facts.h"

namespace varve::bench {

Cell theirs(const std::string& text);                          // a figure of a study
int cores_of(const Facts& facts, const std::string& machine);  // 0: unknown
// The machines with records of this kind and one of these workloads; one without a name when there is none, so that the
// study's table stands there all the same.
std::vector<std::string> machines_with(const Facts& facts, const std::string& kind,
                                       const std::vector<std::string>& workloads);

// One cell of a study's protocol; precision f32.
struct Spot {
  std::string kind, machine, workload, framework, device = "cpu";
  std::int64_t batch = 0;  // 0: any
  int threads = 0;         // 0: any
};
const Record* find(const Facts& facts, const Spot& spot);
// Why a cell with so many threads is empty there; "–": the machine has fewer cores.
Cell empty_cell(const Facts& facts, const std::string& machine, int threads);
void explain_dashes(Table& table);  // in its note, where there are any

}  // namespace varve::bench
