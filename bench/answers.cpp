#include "bench/answers.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace varve::bench {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

bool finite_list(const json& answer, const char* field, double least) {
  const auto list = answer.find(field);
  return list != answer.end() && list->is_array() && !list->empty() &&
         std::all_of(list->begin(), list->end(), [least](const json& v) {
           return v.is_number() && std::isfinite(v.get<double>()) && v.get<double>() >= least;
         });
}

std::vector<double> list_of(const json& answer, const char* field) {
  return answer.at(field).get<std::vector<double>>();
}

std::vector<double> parts_samples(const json& answer) {
  const std::vector<double> forward = list_of(answer, "forward_ms"), gradient = list_of(answer, "gradient_ms"),
                            update = list_of(answer, "update_ms");
  std::vector<double> sums;
  for (std::size_t i = 0; i < std::min({forward.size(), gradient.size(), update.size()}); ++i)
    sums.push_back(std::max(forward[i] + gradient[i] + update[i], 0.0));
  return sums;
}

void add_parts(Record& record, const json& answer) {
  record.processes.push_back(parts_samples(answer));
  for (const char* field : {"forward_ms", "gradient_ms", "update_ms", "data_ms"})
    for (const double ms : answer.contains(field) ? list_of(answer, field) : std::vector<double>())
      record.details[field].push_back(ms);
  if (answer.contains("layers") && answer["layers"].is_array()) record.details["layers"] = answer["layers"];
}

void add_training(Record& record, const Answer& answer) {
  record.processes.push_back({1e3 * answer.json.at("train_seconds").get<double>()});
  ordered_json run = ordered_json::object();
  for (const char* field : {"epochs", "train_seconds", "test_seconds", "test_accuracy", "test_loss",
                            "seconds_to_target", "epochs_to_target", "energy_joules"})
    run[field] = answer.json.contains(field) ? ordered_json(answer.json[field]) : ordered_json(nullptr);
  run["busy_processors"] = answer.busy;
  if (answer.gpu.is_object()) run["gpu"] = answer.gpu;
  record.details["runs"].push_back(run);
}

}  // namespace

void add_answer(Record& record, const Answer& answer) {
  const json& said = answer.json;
  record.peak_bytes = std::max(record.peak_bytes, said.value("peak_bytes", std::int64_t{0}));
  record.parameters = said.value("parameters", std::int64_t{0});
  record.version = said.value("version", "");
  if (said.contains("flags")) record.flags[record.modes.back()] = said["flags"];
  if (said.contains("algorithms")) record.algorithms = said["algorithms"];
  for (const char* field : {"first_ms", "loss", "steps_per_sample", "planned_bytes", "wire"})
    if (said.contains(field)) record.details[field] = said[field];
  if (record.kind == "train") return add_training(record, answer);
  if (record.kind == "parts") return add_parts(record, said);
  record.processes.push_back(list_of(said, "samples_ms"));
}

std::string objection(const json& answer, const std::string& task) {
  for (const char* field : {"peak_bytes", "parameters", "cpu_seconds", "wall_seconds"})
    if (const auto it = answer.find(field); it != answer.end() && !it->is_number()) return cat(field, " is no number");
  if (const auto timed = answer.find("timed"); timed != answer.end())
    if (timed->size() != 2 || !timed->at(0).is_number() || !timed->at(1).is_number()) return "timed is not two times";
  for (const char* field : {"version", "reason"})
    if (const auto it = answer.find(field); it != answer.end() && !it->is_string()) return cat(field, " is no text");
  if (task == "step" || task == "infer") {
    if (!finite_list(answer, "samples_ms", 1e-9)) return "samples_ms is not a list of times";
  } else if (task == "parts") {
    for (const char* field : {"forward_ms", "gradient_ms", "update_ms"})
      if (!finite_list(answer, field, -1e9)) return cat(field, " is not a list of times");
    if (answer.contains("data_ms") && !finite_list(answer, "data_ms", 0)) return "data_ms is not a list of times";
  } else if (task == "train") {
    const auto seconds = answer.find("train_seconds");
    if (seconds == answer.end() || !seconds->is_number() || !(seconds->get<double>() > 0))
      return "train_seconds is no time";
  } else if (task == "losses") {
    const auto losses = answer.find("losses");
    if (losses == answer.end() || !losses->is_array() || losses->size() != 5) return "losses is not a list of five";
  }
  return "";
}

}  // namespace varve::bench
