// TensorBoard's event files: records with checksums, each holding one Event message of protocol buffers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace varve::train {

std::uint32_t crc32c(const std::string& bytes);      // Castagnoli's polynomial
std::string framed_record(const std::string& data);  // length, its checksum, the data, its checksum

struct ScalarEvent {
  double wall_time = 0;  // seconds since 1970
  std::int64_t step = 0;
  std::vector<std::pair<std::string, double>> values = {};
};
std::string scalar_event(const ScalarEvent& event);
std::string version_event(double wall_time);                     // the first of every file
std::string restart_event(double wall_time, std::int64_t step);  // what other files have from this step on is void

}  // namespace varve::train
