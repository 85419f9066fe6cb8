// Names and numbers as the reports write them.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "bench/report/facts.h"
#include "page/chart.h"
#include "page/numbers.h"

namespace varve::bench {
namespace {

using page::fixed;

struct Known {
  const char *name, *label;
};
constexpr Known kKnown[] = {{"varve", "Varve"},
                            {"torch", "PyTorch"},
                            {"keras-tensorflow", "Keras TensorFlow"},
                            {"jax", "JAX"},
                            {"torch-compile", "PyTorch compile"},
                            {"keras-jax", "Keras JAX"},
                            {"varve-python", "Varve, Python"}};

std::string with_commas(const std::string& digits) {
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

}  // namespace

std::string text_of(const nlohmann::ordered_json& json, const char* field) {
  if (!json.is_object() || !json.contains(field) || !json[field].is_string()) return "";
  return json[field];
}

std::string label(const std::string& framework) {
  for (const Known& known : kKnown)
    if (framework == known.name) return known.label;
  return framework;
}

int style_of(const std::string& framework) {
  for (std::size_t i = 0; i < std::size(kKnown); ++i)
    if (framework == kKnown[i].name) return static_cast<int>(i);
  return page::kStyles - 1;
}

std::string machine_name(const Record& record) {
  std::string name = text_of(record.machine, "cpu");
  if (name.empty()) name = "unknown machine";
  if (const auto cores = record.machine.find("cores"); cores != record.machine.end() && cores->is_number_integer())
    name += cat(", ", cores->get<std::int64_t>(), *cores == 1 ? " core" : " cores");
  if (const std::string gpu = text_of(record.gpu, "name"); !gpu.empty()) name += ", " + gpu;
  return name;
}

std::string status_words(const std::string& status) {
  std::string words = status;
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

std::string short_number(double value) {
  if (!std::isfinite(value) || std::abs(value) > 1e15) return page::general(value, 3);
  const double size = std::abs(value);
  if (size == 0) return "0";
  if (size >= 999.5) return (value < 0 ? "−" : "") + with_commas(fixed(std::round(size), 0));
  if (size >= 99.95) return fixed(value, 0);
  if (size >= 9.995) return fixed(value, 1);
  return size >= 0.9995 ? fixed(value, 2) : page::general(value, 3);
}

std::string times(double ratio) { return fixed(ratio, ratio < 9.995 ? 2 : ratio < 99.95 ? 1 : 0) + "×"; }

std::string megabytes(double bytes) { return short_number(bytes / 1e6) + " MB"; }

std::string seconds_text(double seconds) { return short_number(seconds) + " s"; }

std::string range_text(const Interval& interval) {
  return short_number(interval.low) + "–" + short_number(interval.high);
}

Cell milliseconds(const Record* record) {
  if (!record) return absent("not measured");
  if (!record->ok() || !(record->ms_median > 0)) return absent(status_words(record->ok() ? "failed" : record->status));
  return {short_number(record->ms_median), record->ms_quartiles.high > 0 ? range_text(record->ms_quartiles) : ""};
}

}  // namespace varve::bench
