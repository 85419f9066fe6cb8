// The machine that a record was made on, as far as it tells.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace varve::bench {

nlohmann::ordered_json machine_facts();  // processor, cores, features, memory, system, governor and clock
std::vector<double> load_average();      // over 1, 5 and 15 minutes; empty when unknown
std::string source_commit();  // of the tree this was built from or VARVE_COMMIT, "+": changed since, "": unknown
std::string iso_time();       // now, UTC: "2026-11-15T11:10:48Z"
// Joules of all processor packages since some moment, from /sys/class/powercap; negative when it cannot be read.
double energy_joules();

}  // namespace varve::bench
