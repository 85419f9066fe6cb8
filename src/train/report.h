// What a run leaves for people to look at.
#pragma once

#include <string>
#include <vector>

#include "varve/train.h"

namespace varve::train {

struct Report {
  std::string title;
  History history = {};
  std::string config = {};                // TOML text
  std::string summary = {};               // nn::Summary as text
  std::string environment = {};           // environment_json()
  std::vector<double> confusion = {};     // [classes × classes] of the validation or test data; may be empty
  std::vector<std::string> classes = {};  // names; may be empty
  std::vector<std::pair<std::string, double>> test = {};  // test scores, when there are any
  std::vector<WorstSample> worst = {};
};
// One page that opens without a network: curves and confusion matrix as SVG, tables, light and dark.
std::string report_html(const Report& report);

std::string results_csv(const History& history);
std::vector<std::string> value_names(const History& history);  // of all epochs, in the order they appeared
std::string environment_json(std::int64_t seed);  // versions, compiler, cpu, threads, device, time, host, command line

// Error with the nearest name and all of them when the name is none of those known.
void check_value_name(const std::string& who, const std::string& name, const std::vector<std::string>& known);

// Of a sweep of evenly spaced logarithms, with the loss of each batch: where the loss falls fastest on the way to its
// lowest point. 0 when no fall stands out from the noise between batches.
double steepest_rate(const std::vector<double>& rates, const std::vector<double>& losses);

}  // namespace varve::train
