// What is to be measured: workloads and lists of settings, multiplied out.
#pragma once

#include <string>
#include <vector>

#include "bench/workloads.h"

namespace varve::bench {

// As the command line gives them; empty: the workload's own, or the machine's.
struct SweepText {
  std::vector<std::string> workloads = {};  // empty: all
  std::string batch = {}, threads = {}, precision = {}, device = {}, frameworks = {};
};

// What every framework is measured at side by side.
struct Setting {
  const Workload* workload = nullptr;
  std::int64_t batch = 0;
  int threads = 1;
  std::string precision = "f32", device = "cpu";
  std::string str() const;  // "fcn5 · batch 64 · 2 threads · f32"
};

struct Sweep {
  std::vector<Setting> settings = {};
  std::vector<std::string> frameworks = {};  // Varve first
};

// "16,32,64"; Error that names the setting and the word which is not a whole number in that range.
std::vector<std::int64_t> whole_numbers(const std::string& list, const std::string& setting, std::int64_t most);
std::vector<std::string> words_of(const std::string& list);  // at commas; empty ones are left out

// `standard`: the frameworks when none are named.
Sweep make_sweep(const SweepText& text, const std::vector<std::string>& standard);

}  // namespace varve::bench
