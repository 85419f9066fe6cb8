// What the driver asks a worker to do: one JSON file, the same for every framework.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/workloads.h"

namespace varve::bench {

// A text of JSON, or null for "".
inline nlohmann::ordered_json or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
}

inline constexpr int kSchema = 1;  // of requests, answers and records

struct Request {
  std::string task = {};  // describe files losses step infer parts train
  std::string framework = "varve", mode = "plain";
  std::string workload = {};
  std::int64_t batch = 0;
  int threads = 1;
  std::string precision = "f32", device = "cpu";
  std::int64_t seed = 0;
  int warmup_steps = 2;
  double warmup_seconds = 1;
  int samples = 5;         // at least
  double min_seconds = 1;  // of sampling, once there are enough samples
  double max_seconds = 60;
  std::string weights = {}, batches = {};  // safetensors to start from, or (task files) to write; "": none
  bool dropout = true;
  double rate = 0;        // in place of the workload's; 0: that
  std::string data = {};  // train: safetensors
  int epochs = 0;         // train
  // One of several ranks that share the batch; this process's number, and a file of all of them where they meet.
  int ranks = 1, rank = 0;
  std::string meeting = {};
  std::string compress = "none";  // what gradients become between ranks
  bool sync_batch_norm = false;   // losses: batch norm by the statistics of all ranks
  double target = 0;              // train: an accuracy whose time is asked for; 0: none
  std::string result = {};        // where the answer goes
};

nlohmann::ordered_json request_json(const Request& request);
Request load_request(const std::string& path);  // Error that names the file and the field

}  // namespace varve::bench
