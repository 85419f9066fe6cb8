// Frameworks side by side: at each setting they take turns in rounds, every turn a fresh process, so that a noisy
// minute hits all of them alike.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/frameworks.h"
#include "bench/record.h"
#include "bench/scratch.h"
#include "bench/sweep.h"

namespace varve::bench {

struct DriverOptions {
  int rounds = 3;
  int samples = 5;  // in each process, at least
  double warmup_seconds = 1;
  double min_seconds = 1, max_seconds = 30;  // of sampling in each process
  double limit_seconds = 900;                // of a process
  bool verify = true;                        // before others than Varve are compared
  bool all_modes = true;                     // of a framework that has several
  std::vector<std::string> modes = {};       // … only these of it, where it has one of them
  int epochs = 0;                            // of training; 0: the workload's own
  double budget_seconds = 0;                 // settings that would not end within it are left out; 0: no limit
  std::int64_t seed = 0;
  std::string command = {};                                     // as the user gave it, for the records
  std::map<std::string, std::string> environment = {};          // of Varve's workers
  std::function<void(const std::string&)> say = {};             // one line about what is being done
  std::function<void(const Record&)> keep = {};                 // each record as soon as it is complete
  std::function<void(const std::vector<Record>&)> so_far = {};  // of training, after each round but the last
};

class Driver {
 public:
  explicit Driver(DriverOptions options);

  // A record for each framework: missing and failed ones too.
  std::vector<Record> measure(const std::string& kind, const Setting& setting, const std::vector<std::string>& names);
  // All settings of a sweep, one after the other.
  std::vector<Record> measure(const std::string& kind, const Sweep& sweep);

  // A record with everything filled in that is not measured.
  Record blank(const std::string& kind, const Setting& setting, const std::string& framework) const;
  Request request(const std::string& task, const Setting& setting) const;
  const DriverOptions& options() const { return options_; }
  void say(const std::string& line) const;  // with the time so far and the time left
  // What is measured next is the setting-th of so many.
  void at(std::size_t setting, std::size_t of) { at_ = setting, of_ = of, before_ = elapsed(); }

 private:
  struct Turn;
  std::unique_ptr<Scratch> training_files(const Setting& setting, int round, Request& asked);
  bool within_budget() const;
  double elapsed() const;
  void verified(const Setting& setting, std::vector<Turn>& turns);
  void take_turn(Turn& turn, const Request& request, const std::string& where);
  std::vector<Record> finished(std::vector<Turn> turns) const;

  DriverOptions options_;
  std::string commit_;
  nlohmann::ordered_json machine_, gpu_;
  std::size_t at_ = 0, of_ = 1;  // settings
  double before_ = 0;            // seconds that those before it took
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Median over median, with its interval, into the records of other frameworks.
void fill_ratios(std::vector<Record>& records);

}  // namespace varve::bench
