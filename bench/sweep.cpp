#include "bench/sweep.h"

#include <algorithm>
#include <charconv>

#include "base/cpu.h"
#include "base/text.h"
#include "bench/frameworks.h"

namespace varve::bench {
namespace {

std::vector<std::string> known_words(const std::string& list, const std::string& setting,
                                     const std::vector<std::string>& known, const std::string& standard) {
  std::vector<std::string> words = words_of(list);
  if (words.empty()) return {standard};
  for (const std::string& word : words)
    if (std::find(known.begin(), known.end(), word) == known.end())
      throw Error(cat(setting, ": expected some of ", quoted_list(known), ", got \"", word, "\"."));
  return words;
}

}  // namespace

std::string Setting::str() const {
  return cat(workload->name, " · batch ", batch, " · ", threads, threads == 1 ? " thread" : " threads", " · ",
             precision, device == "cpu" ? "" : " · " + device);
}

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    if (comma > at) words.push_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return words;
}

std::vector<std::int64_t> whole_numbers(const std::string& list, const std::string& setting, std::int64_t most) {
  std::vector<std::int64_t> numbers;
  for (const std::string& word : words_of(list)) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || value < 1 || value > most)
      throw Error(
          cat(setting, ": expected whole numbers from 1 to ", most, " with commas between, got \"", word, "\"."));
    numbers.push_back(value);
  }
  if (!list.empty() && numbers.empty()) throw Error(cat(setting, ": expected whole numbers, got \"", list, "\"."));
  return numbers;
}

Sweep make_sweep(const SweepText& text, const std::vector<std::string>& standard) {
  Sweep sweep;
  const std::vector<std::int64_t> batches = whole_numbers(text.batch, "batch", 1 << 24);
  std::vector<std::int64_t> threads = whole_numbers(text.threads, "threads", 1024);
  if (threads.empty()) threads = {physical_cores()};
  const std::vector<std::string> precisions = known_words(text.precision, "precision", {"f32", "tf32", "bf16"}, "f32"),
                                 devices = known_words(text.device, "device", {"cpu", "cuda"}, "cpu");
  sweep.frameworks = text.frameworks.empty() ? standard : words_of(text.frameworks);
  for (const std::string& name : sweep.frameworks) find_framework(name);
  std::stable_partition(sweep.frameworks.begin(), sweep.frameworks.end(), [](const auto& f) { return f == "varve"; });
  for (const std::string& name : text.workloads.empty() ? workload_names() : text.workloads) {
    const Workload& workload = find_workload(name);
    for (const std::string& device : devices)
      for (const std::string& precision : precisions)
        for (const std::int64_t count : threads)
          for (const std::int64_t batch : batches.empty() ? std::vector<std::int64_t>{workload.batch} : batches)
            sweep.settings.push_back({&workload, batch, static_cast<int>(count), precision, device});
  }
  return sweep;
}

}  // namespace varve::bench
