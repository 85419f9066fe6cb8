// A worker measures one thing in a process of its own. This one measures Varve; those of other frameworks are programs
// of bench/adapters that read the same request and write the same answer.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/network.h"
#include "bench/request.h"
#include "varve/distributed.h"

namespace varve::bench {

// Does what the request asks and writes the answer beside it, whole or not at all. Out of memory and errors are answers
// too; the exit code is 0 whenever an answer was written.
int run_worker(const std::string& request_path);

nlohmann::ordered_json answer(const Request& request);  // by task; throws

// ---- the tasks
nlohmann::ordered_json time_step(const Request& request);
nlohmann::ordered_json time_inference(const Request& request);
nlohmann::ordered_json time_parts(const Request& request);
nlohmann::ordered_json first_losses(const Request& request);
nlohmann::ordered_json write_files(const Request& request);
nlohmann::ordered_json train_to_the_end(const Request& request);

// The workload's real data as one file: training, validation (a share of it, by a fixed seed) and test part.
void save_data(const Workload& workload, const std::string& path);

// ---- what they share
std::int64_t agreed(std::int64_t number);  // rank 0's
Network network_of(const Request& request);
void wait_for(const Request& request);             // until its device has done everything that was started
std::int64_t peak_memory(const Request& request);  // of its device; on the processor, of this process

// Whole calls in samples: each the mean of as many calls as take 20 ms, until there are enough of them.
struct Timing {
  std::vector<double> samples_ms = {};
  std::int64_t calls_per_sample = 1;
  double cpu_seconds = 0, wall_seconds = 0;  // of the samples
  double begin = 0, end = 0;                 // of the samples, on the clock that all processes share
  distributed::WireTime wire = {};           // of the samples
};
struct TimingRules {
  int warmup_steps = 2;
  double warmup_seconds = 1;
  int samples = 5;
  double min_seconds = 1, max_seconds = 60;
  double sample_ms = 20;  // at least; 0: every call is a sample
};
TimingRules rules_of(const Request& request);
// A device may still be at work when a call returns: `finish` waits, once a sample. Several ranks begin each sample
// together, and the first one counts for all.
Timing time_calls(const std::function<void()>& call, const std::function<void()>& finish, const TimingRules& rules);
double clock_seconds();  // of the clock that all processes share

double cpu_seconds();          // of this process, all threads
std::int64_t peak_resident();  // bytes, the most so far

}  // namespace varve::bench
