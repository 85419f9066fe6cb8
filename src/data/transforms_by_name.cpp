#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "varve/data.h"

namespace varve::data {
namespace {

struct TransformEntry {
  const char* name;
  TransformOptions options;  // with defaults
  Transform (*make)(const std::vector<double>& values);
};

std::int64_t whole(double value, const char* what) {
  if (!(std::abs(value) <= 1e9) || value != std::floor(value))
    throw Error(cat(what, ": expected a whole number, got ", value, "."));
  return static_cast<std::int64_t>(value);
}

const std::vector<TransformEntry>& table() {
  using Values = const std::vector<double>&;
  static const std::vector<TransformEntry> entries = {
      {"crop", {{"padding", 4}}, [](Values v) { return random_crop(whole(v[0], "crop.padding")); }},
      {"flip", {}, [](Values) { return random_flip(); }},
      {"rotate", {{"degrees", 10}}, [](Values v) { return random_rotate(v[0]); }},
      {"scale", {{"low", 0.9}, {"high", 1.1}}, [](Values v) { return random_scale(v[0], v[1]); }},
      {"cutout", {{"size", 8}}, [](Values v) { return cutout(whole(v[0], "cutout.size")); }},
      {"jitter", {{"brightness", 0.2}, {"contrast", 0.2}}, [](Values v) { return jitter(v[0], v[1]); }},
      {"noise", {{"deviation", 0.05}}, [](Values v) { return noise(v[0]); }},
  };
  return entries;
}

[[noreturn]] void refuse(const std::string& what, const std::string& word, const std::vector<std::string>& known) {
  throw Error(cat("unknown ", what, " '", word, "'.", did_you_mean(word, known),
                  known.empty() ? " There are none." : cat(" Known: ", quoted_list(known), ".")));
}

const TransformEntry& entry(const std::string& name) {
  for (const TransformEntry& candidate : table())
    if (candidate.name == name) return candidate;
  refuse("transform", name, transform_names());
}

}  // namespace

Transform transform_by_name(const std::string& name, const TransformOptions& options) {
  const TransformEntry& found = entry(name);
  std::vector<std::string> known;
  std::vector<double> values;
  for (const auto& [option, value] : found.options) {
    known.push_back(option);
    values.push_back(value);
  }
  for (const auto& [option, value] : options) {
    const auto place = std::find(known.begin(), known.end(), option);
    if (place == known.end()) refuse(cat("option of transform '", name, "'"), option, known);
    values[static_cast<std::size_t>(place - known.begin())] = value;
  }
  return found.make(values);
}

std::vector<std::string> transform_names() {
  std::vector<std::string> names;
  for (const TransformEntry& candidate : table()) names.emplace_back(candidate.name);
  return names;
}

TransformOptions transform_options_of(const std::string& name) { return entry(name).options; }

}  // namespace varve::data
