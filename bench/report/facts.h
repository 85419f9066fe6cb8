// Records put in order: who was measured where, at which settings, and how the others compare with Varve.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/record.h"
#include "bench/report/table.h"

namespace varve::bench {

struct Collected {
  std::vector<Record> records;
  std::vector<std::string> problems;  // lines that are not records, each with its file and number
};
// Line by line: what a killed run left of its last line does not cost the rest.
Collected collect(const std::vector<std::string>& paths);
Collected collect_text(const std::string& text, const std::string& name);

// A field that holds a text, or "".
std::string text_of(const nlohmann::ordered_json& json, const char* field);
std::string label(const std::string& framework);      // "PyTorch" of "torch"; other names as they are
int style_of(const std::string& framework);           // its colour and marker, the same in all charts
std::string machine_name(const Record& record);       // "AMD EPYC 9R14, 2 cores"
std::string status_words(const std::string& status);  // "out of memory"

// Numbers for people.
std::string short_number(double value);  // three digits: 0.0794, 4.56, 42.1, 426, 1,210
std::string times(double ratio);         // 1.52×
std::string megabytes(double bytes);     // 1,650 MB
std::string seconds_text(double seconds);
std::string range_text(const Interval& interval);  // 41.8–42.9
Cell milliseconds(const Record* record);           // its median with quartiles, or why there is none

// Where a comparison holds: all frameworks on one machine at one setting.
struct Place {
  std::string machine, device, precision;
  int threads = 1, ranks = 1;
  auto operator<=>(const Place&) const = default;
  std::string str() const;  // "2 threads, f32", with what is not a plain CPU
};
Place place_of(const Record& record);

using ByFramework = std::map<std::string, const Record*>;
class Facts;

struct Comparison {
  const Facts* facts;
  std::string workload;
  std::int64_t batch = 0;
  ByFramework records = {};

  const Record* of(const std::string& framework) const;
  const Record* best_peer() const;  // the fastest that is not Varve; null when nobody ran
  bool both() const;                // Varve and at least one other ran
  double ratio() const;             // the best peer's time over Varve's
  Interval interval() const;        // of the ratio, 95%; {0, 0} without samples
};
enum class Verdict { ahead, level, behind };
Verdict verdict(const Comparison& comparison);

class Facts {
 public:
  // Records without the equity check are set aside. Of several runs of one setting one counts, so that a ratio is of
  // one run: the latest that has a peer, else the latest; what it lacks comes from runs of the same commit.
  explicit Facts(std::vector<Record> records);
  Facts(const Facts&) = delete;  // comparisons point into it
  Facts& operator=(const Facts&) = delete;

  const std::vector<Record>& all() const { return records_; }
  const std::vector<Record>& unchecked() const { return unchecked_; }
  std::vector<Record> of_machine(const std::string& machine) const;  // the unchecked ones too
  std::vector<const Record*> where(const std::function<bool(const Record&)>& wanted) const;
  std::vector<std::string> machines() const;                                // those of unchecked records too, last
  std::vector<std::string> frameworks(const std::string& kind = "") const;  // Varve first
  std::vector<Place> places(const std::string& kind) const;
  // Of each machine, device and precision the number of threads with most workloads, the larger of equals.
  std::vector<Place> main_places(const std::string& kind) const;
  std::vector<Comparison> comparisons(const std::string& kind, const Place& place) const;
  // One for each workload: at the suite's own batch size, or at the smallest that was measured.
  std::vector<Comparison> main_comparisons(const std::string& kind, const Place& place) const;
  Interval ratio_interval_of(const Record& peer, const Record& varve) const;  // drawn once, then remembered

 private:
  std::vector<Record> records_, unchecked_;
  mutable std::map<std::pair<const Record*, const Record*>, Interval> intervals_;
};

// As the suite lists them; unknown ones last.
std::size_t workload_place(const std::string& name);

}  // namespace varve::bench
