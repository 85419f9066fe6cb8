#include "bench/report/made_up.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace varve::bench {
namespace {

struct Row {
  const char* workload;
  std::int64_t batch;
  std::int64_t parameters;
  double gflop;                      // of a step
  std::map<std::string, double> ms;  // with two threads
  std::map<std::string, double> megabytes;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {"cnn-mnist",
       128,
       582026,
       3.2,
       {{"varve", 17.9}, {"torch", 42}, {"keras-tensorflow", 26}, {"jax", 61}},
       {{"varve", 96}, {"torch", 700}, {"keras-tensorflow", 690}}},
      {"fnn-mnist",
       80,
       669706,
       0.32,
       {{"varve", 2.2}, {"torch", 4.56}, {"keras-tensorflow", 4.21}, {"jax", 5.1}},
       {{"varve", 70}, {"torch", 714}, {"keras-tensorflow", 663}}},
      {"lstm-imdb",
       500,
       213202,
       79,
       {{"varve", 1260}, {"torch", 1210}, {"keras-tensorflow", 1277}},
       {{"varve", 800}, {"torch", 1300}, {"keras-tensorflow", 1100}}},
      {"fcn5",
       64,
       118000000,
       38,
       {{"varve", 190}, {"torch", 426}, {"keras-tensorflow", 280}, {"jax", 300}},
       {{"varve", 520}, {"torch", 1650}, {"keras-tensorflow", 1828}}},
      {"alexnet",
       16,
       62378344,
       118,
       {{"varve", 470}, {"torch", 727}, {"keras-tensorflow", 695}},
       {{"varve", 700}, {"torch", 1452}, {"keras-tensorflow", 1931}}},
      {"resnet50",
       16,
       25557032,
       391,
       {{"varve", 2950}, {"torch", 2540}, {"keras-tensorflow", 3408}},
       {{"varve", 1500}, {"torch", 2777}, {"keras-tensorflow", 2449}}},
      {"gpt-small", 16, 29000000, 620, {{"varve", 3010}, {"torch", 3918}}, {{"varve", 1300}, {"torch", 2517}}}};
  return all;
}

// A few per cent up and down, the same every time.
Groups samples_around(double ms, int processes) {
  Groups groups;
  for (int p = 0; p < processes; ++p) {
    std::vector<double> samples;
    for (int i = 0; i < 5; ++i) samples.push_back(ms * (1 + 0.02 * std::sin(7.0 * p + 3.0 * i) + 0.01 * p));
    groups.push_back(samples);
  }
  return groups;
}

nlohmann::ordered_json machine_of(int which) {
  if (which == 0)
    return {{"cpu", "AMD EPYC 9R14"},      {"isa", "AVX-512"},    {"cores", 2},         {"memory_bytes", 8000000000},
            {"os", "Debian GNU/Linux 12"}, {"governor", nullptr}, {"clock_mhz", 3700.1}};
  return {{"cpu", "Intel Xeon Platinum 8592+"},
          {"isa", "AVX-512, AMX"},
          {"cores", 16},
          {"memory_bytes", 128000000000},
          {"os", "Debian GNU/Linux 12"},
          {"governor", "performance"},
          {"clock_mhz", 3900}};
}

Record record_of(const Row& row, const std::string& framework, double ms, int machine) {
  Record r;
  r.kind = "step", r.workload = row.workload, r.framework = framework;
  r.batch = row.batch, r.threads = 2, r.parameters = row.parameters, r.flops = row.gflop * 1e9;
  r.mode = "plain", r.processes = samples_around(ms, 3), r.modes = {"plain", "plain", "plain"};
  r.utilisation = framework == "varve" ? 0.98 : 0.93;
  const auto megabytes = row.megabytes.find(framework);
  r.peak_bytes = static_cast<std::int64_t>(1e6 * (megabytes == row.megabytes.end() ? 900 : megabytes->second));
  r.command = "varve bench step json=records.jsonl", r.commit = "8c3c1154e0f0a7f1", r.time = "2026-11-15T11:10:48Z";
  r.version = framework == "varve"   ? "0.1.0"
              : framework == "torch" ? "2.15.0"
              : framework == "jax"   ? "0.10.0"
                                     : "2.21.0";
  r.machine = machine_of(machine), r.load = {0.12, 0.3, 0.4};
  if (framework == "torch") r.flags = {{"plain", {{"channels_last", true}, {"fused_optimizer", true}}}};
  summarize(r);
  return r;
}

Record without_result(Record r, const std::string& status, const std::string& reason) {
  r.status = status, r.reason = reason, r.processes.clear(), r.modes.clear();
  r.ms_median = 0, r.ms_quartiles = {}, r.peak_bytes = 0, r.utilisation = 0;
  return r;
}

void add_sweeps(const Row& row, int machine, std::vector<Record>& records) {
  for (const auto& [framework, ms] : row.ms) {
    for (const int threads : machine == 0 ? std::vector<int>{1} : std::vector<int>{1, 4, 8, 16}) {
      const double efficiency = framework == "varve" ? 0.97 : 0.85;
      Record r = record_of(row, framework, ms * 2 / std::pow(threads, efficiency), machine);
      r.threads = threads;
      records.push_back(r);
    }
    Record low = record_of(row, framework, ms * (framework == "varve" ? 0.7 : 0.62), machine);
    low.precision = "bf16";
    records.push_back(low);
    for (const std::int64_t factor : {2, 4}) {
      Record r = record_of(row, framework, ms * static_cast<double>(factor) * 0.93, machine);
      r.batch = row.batch * factor;
      const bool full = factor == 4 && framework != "varve" && row.gflop > 300;
      records.push_back(full ? without_result(r, "out_of_memory", "killed: the machine has 8 GB") : r);
    }
  }
}

nlohmann::ordered_json run_of(double seconds, double accuracy, int epochs) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (int e = 1; e <= epochs; ++e)
    list.push_back(
        {{"epoch", e}, {"seconds", seconds / epochs}, {"loss", 1.0 / e}, {"val_accuracy", accuracy - 0.08 / e}});
  return {{"epochs", list},
          {"train_seconds", seconds},
          {"test_seconds", seconds / 200},
          {"test_accuracy", accuracy},
          {"seconds_to_target", seconds * 0.4},
          {"epochs_to_target", epochs * 0.4},
          {"energy_joules", nullptr}};
}

void add_trainings(std::vector<Record>& records) {
  struct Training {
    const char* workload;
    double seconds, accuracy;
    int epochs;
  };
  for (const Training& training :
       {Training{"cnn-mnist", 40, 0.992, 5}, {"fnn-mnist", 26, 0.982, 20}, {"lstm-imdb", 410, 0.866, 10}})
    for (const auto& [framework, factor] :
         std::map<std::string, double>{{"varve", 1}, {"torch", 1.9}, {"keras-tensorflow", 1.6}}) {
      const Row& row = *std::find_if(rows().begin(), rows().end(),
                                     [&](const Row& each) { return std::string(each.workload) == training.workload; });
      Record r = record_of(row, framework, 1, 0);
      const double ms = training.seconds * factor * 1e3;
      r.kind = "train", r.processes = {{ms}, {ms * 1.02}}, r.modes = {"plain", "plain"};
      summarize(r);
      r.details = {{"runs",
                    {run_of(training.seconds * factor, training.accuracy, training.epochs),
                     run_of(training.seconds * factor * 1.02, training.accuracy - 0.001, training.epochs)}}};
      records.push_back(r);
    }
}

void add_others(std::vector<Record>& records) {
  const Row& row = rows()[3];
  for (const auto& [framework, ms] : row.ms)
    for (const std::int64_t batch : {std::int64_t{1}, row.batch}) {
      Record r = record_of(row, framework, batch == 1 ? ms / 20 : ms / 3, 0);
      r.kind = "infer", r.batch = batch;
      records.push_back(r);
    }
  Record parts = record_of(row, "varve", 1, 0);
  parts.kind = "parts", parts.processes.clear(), parts.modes.clear(), parts.ms_median = 0, parts.ms_quartiles = {};
  parts.details = {
      {"forward_ms", {60.0, 61.0}}, {"gradient_ms", {120.0, 122.0}}, {"update_ms", {30.0}}, {"data_ms", {0.8}}};
  records.push_back(parts);
  for (const auto& [lever, ms] :
       std::map<std::string, double>{{"", 190}, {"fused update", 228}, {"private layout", 251}, {"winograd", 189}}) {
    Record r = record_of(row, "varve", ms, 0);
    r.kind = "ablate";
    if (!lever.empty()) r.details = {{"without", lever}};
    records.push_back(r);
  }
}

}  // namespace

std::vector<Record> made_up_records(const MadeUp& options) {
  std::vector<Record> records;
  for (int machine = 0; machine < options.machines; ++machine)
    for (const Row& row : rows()) {
      for (const auto& [framework, ms] : row.ms)
        records.push_back(record_of(row, framework, machine == 0 ? ms : ms * 0.8, machine));
      if (!row.ms.contains("keras-tensorflow"))
        records.push_back(without_result(record_of(row, "keras-tensorflow", 1, machine), "unsupported",
                                         "no transformer in this adapter"));
      if (options.sweeps) add_sweeps(row, machine, records);
    }
  if (options.trainings) add_trainings(records), add_others(records);
  return records;
}

Record plain_record() { return record_of(rows().front(), "varve", 17.9, 0); }

}  // namespace varve::bench
