// The header of a safetensors file: which tensors, of which types, where.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "varve/op.h"

namespace varve::io {

inline constexpr std::uint64_t kMostSafetensorsHeader = 100'000'000;  // bytes; other readers have the same limit

struct SafetensorsEntry {
  std::string name;
  TensorType type;
  std::uint64_t begin = 0, end = 0;  // bytes, counted from the end of the header
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their data, which they cover without holes
  std::map<std::string, std::string> metadata;
};

// `json` is what stands between the length and the data, of which there are `data_bytes`. Throws Error that begins with
// `source`, and names tensor and field, for anything that does not add up.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes, const std::string& source);

// All that stands before the data: length, JSON, and spaces up to a multiple of 8 bytes. `begin` and `end` must be set.
std::string safetensors_header(const SafetensorsHeader& header, const std::string& source);

}  // namespace varve::io
