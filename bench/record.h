// What was measured, with everything needed to judge it: one JSON object a line, described in
// docs/benchmark-records.md.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/statistics.h"

namespace varve::bench {

bool is_peer(const std::string& framework);  // neither Varve nor Varve through its Python package

struct Record {
  std::string kind;  // step infer parts train losses ablate scale
  std::string workload, framework, mode;
  std::int64_t batch = 0;
  int threads = 0, ranks = 1;
  std::string precision = "f32", device = "cpu";
  std::string status = "ok";  // ok out_of_memory failed unsupported missing
  std::string reason;
  double ms_median = 0;            // 0: not measured
  Interval ms_quartiles;           // of the samples that the median is of
  Groups processes;                // every raw sample, process by process
  std::vector<std::string> modes;  // of each process
  std::int64_t peak_bytes = 0;     // the most of all processes; 0: unknown
  double utilisation = 0;          // share of the threads' time that was busy; 0: unknown
  std::int64_t parameters = 0;
  double flops = 0;           // of a step, counted from the sizes
  double ratio_to_varve = 0;  // this framework's median over Varve's in the same run; 0: unknown
  Interval ratio_interval;
  nlohmann::ordered_json details = nlohmann::ordered_json::object();  // what only this kind of record has
  std::string command, commit, version, time;
  nlohmann::ordered_json flags = nlohmann::ordered_json::object();
  nlohmann::ordered_json machine = nlohmann::ordered_json::object();
  nlohmann::ordered_json gpu = nullptr;
  nlohmann::ordered_json algorithms = nullptr;  // Varve: kernels and how often each occurs
  std::vector<double> load;
  std::vector<std::int64_t> seeds = {0};
  bool verified = true;  // false: measured without the check that all train the same network

  bool ok() const { return status == "ok"; }
  double busy() const;  // `utilisation`, or the GPU's where that was used; 0: unknown
  std::vector<double> samples() const { return pooled(processes); }
  // The processes that its median is of, by number: all of Varve's; of another framework the fastest one or, where each
  // is a whole training, all in the fastest one's mode.
  std::vector<std::size_t> best_turns() const;
  Groups best_processes() const;
  // Two records with the same key measure the same thing on the same kind of machine.
  std::string key() const;
};

nlohmann::ordered_json to_json(const Record& record);
// Checks types, names of kinds and statuses, that numbers are finite and not negative, and that the median and the
// quartiles are those of the samples. Error says which field is wrong.
Record record_from_json(const nlohmann::json& json);

// Fills median and quartiles from the processes, by the rule above.
void summarize(Record& record);

// Adds lines to the file, each at once on the disk.
class RecordFile {
 public:
  explicit RecordFile(std::string path);  // "": nothing is written
  void add(const Record& record);
  // Records that are not complete yet: they stand in the file until the next ones come.
  void add_so_far(const std::vector<Record>& records);

 private:
  void write(const std::vector<Record>& records);

  std::string path_;
  // Where the incomplete ones stand, while they do: bytes of the file.
  std::optional<std::pair<std::size_t, std::size_t>> so_far_;
};
std::vector<Record> load_records(const std::string& path);  // Error with the number of the line

}  // namespace varve::bench
