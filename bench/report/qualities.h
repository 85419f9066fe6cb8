// Dai and Berleant, "Benchmarking contemporary deep learning hardware and frameworks: a survey of qualitative metrics"
// (CogMI 2019; the lists of seven and twelve metrics are those of its preprint): principles, metrics, frameworks.
#pragma once

#include <string>
#include <vector>

#include "bench/report/facts.h"

namespace varve::bench {

enum class Holds { yes, no, unknown };
struct Evidence {
  Holds holds = Holds::unknown;
  std::string words;
};

struct Principle {
  std::string name;
  std::string asks;                          // what the study asks of a benchmark
  std::string how;                           // how this suite answers
  std::vector<std::string> checks;           // files of this repository that enforce it
  Evidence (*evidence)(const Facts& facts);  // what the records of this report say
};
const std::vector<Principle>& principles();

struct HardwareMetric {
  std::string name;
  std::string asic, fpga, gpu;                                    // the study's rating
  Cell (*value)(const Facts& facts, const std::string& machine);  // of a machine of the records; null: not measured
};
const std::vector<HardwareMetric>& hardware_metrics();

struct FrameworkRow {
  std::string name, license, core, interfaces, hardware, servers, networks, data;
};
const std::vector<FrameworkRow>& surveyed_frameworks();
FrameworkRow varve_row(const Facts& facts);  // networks and data sets from the records

}  // namespace varve::bench
