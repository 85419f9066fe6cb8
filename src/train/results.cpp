// A run's history as a table.
#include <algorithm>

#include "page/numbers.h"
#include "train/report.h"

namespace varve::train {
namespace {

using page::general;

// Metrics may be named by users: quotes, as spreadsheets expect them.
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

}  // namespace

std::vector<std::string> value_names(const History& history) {
  std::vector<std::string> names;
  for (const Epoch& epoch : history.epochs)
    for (const auto& [name, value] : epoch.values)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

std::string results_csv(const History& history) {
  const std::vector<std::string> names = value_names(history);
  std::string csv = "epoch,seconds,rate";
  for (const std::string& name : names) csv += ',' + field(name);
  csv += '\n';
  for (const Epoch& epoch : history.epochs) {
    csv += std::to_string(epoch.epoch) + ',' + general(epoch.seconds, 9) + ',' + general(epoch.rate, 9);
    for (const std::string& name : names) csv += ',' + general(epoch.value(name), 9);
    csv += '\n';
  }
  return csv;
}

}  // namespace varve::train
