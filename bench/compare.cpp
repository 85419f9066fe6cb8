#include "bench/compare.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace varve::bench {
namespace {

using Kind = Change::Kind;

class Comparer {
 public:
  explicit Comparer(const CompareOptions& options) : options_(options) {}

  void pair(const Record& before, const Record& after) {
    before_ = &before, after_ = &after;
    ++result_.compared;
    if (before.status != after.status) return status();
    if (!before.ok()) return;
    time();
    memory();
    accuracy();
  }
  Changes result_;

 private:
  void add(Change change) {
    change.key = after_->key();
    change.regression = change.kind == Kind::worse && !is_peer(after_->framework);
    result_.changes.push_back(std::move(change));
  }
  void status() {
    add({.what = "status",
         .before_text = before_->status,
         .after_text = after_->status,
         .kind = after_->ok() ? Kind::better : Kind::worse});
  }
  void time() {
    if (before_->samples().empty() || after_->samples().empty()) return;
    const double ratio = after_->ms_median / before_->ms_median;
    const Interval sure = ratio_interval(after_->best_processes(), before_->best_processes());
    if (sure.contains(1) || std::abs(ratio - 1) <= options_.tolerance) return;
    add({.what = "time",
         .before = before_->ms_median,
         .after = after_->ms_median,
         .ratio = sure,
         .before_text = cat(before_->ms_median, " ms"),
         .after_text = cat(after_->ms_median, " ms"),
         .kind = ratio < 1 ? Kind::better : Kind::worse});
  }
  void memory() {
    if (before_->peak_bytes == 0 || after_->peak_bytes == 0) return;
    const double was = static_cast<double>(before_->peak_bytes), is = static_cast<double>(after_->peak_bytes);
    if (std::abs(is / was - 1) <= options_.memory_tolerance) return;
    add({.what = "memory",
         .before = was,
         .after = is,
         .before_text = human_bytes(static_cast<std::uint64_t>(before_->peak_bytes)),
         .after_text = human_bytes(static_cast<std::uint64_t>(after_->peak_bytes)),
         .kind = is < was ? Kind::better : Kind::worse});
  }
  void accuracy() {
    const double was = 100 * test_accuracy(*before_), is = 100 * test_accuracy(*after_);
    if (was < 0 || is < 0 || std::abs(is - was) <= options_.accuracy_points) return;
    add({.what = "accuracy",
         .before = was,
         .after = is,
         .before_text = cat(was, "%"),
         .after_text = cat(is, "%"),
         .kind = is > was ? Kind::better : Kind::worse});
  }

  CompareOptions options_;
  const Record *before_ = nullptr, *after_ = nullptr;
};

std::map<std::string, const Record*> by_key(const std::vector<Record>& records) {
  std::map<std::string, const Record*> last;
  for (const Record& r : records) last[r.key()] = &r;
  return last;
}

}  // namespace

bool Changes::regressed() const {
  return std::any_of(changes.begin(), changes.end(), [](const Change& c) { return c.regression; });
}

double test_accuracy(const Record& record) {
  const auto runs = record.details.find("runs");
  if (runs == record.details.end() || !runs->is_array()) return -1;
  std::vector<double> found;
  for (const auto& run : *runs)
    if (const auto it = run.find("test_accuracy"); it != run.end() && it->is_number()) found.push_back(*it);
  return found.empty() ? -1 : mean(found);
}

Changes compare(const std::vector<Record>& before, const std::vector<Record>& after, const CompareOptions& options) {
  const auto was = by_key(before), is = by_key(after);
  Comparer comparer(options);
  for (const auto& [key, record] : is) {
    const auto old = was.find(key);
    if (old == was.end())
      comparer.result_.only_after.push_back(key);
    else
      comparer.pair(*old->second, *record);
  }
  for (const auto& [key, record] : was)
    if (!is.contains(key)) comparer.result_.only_before.push_back(key);
  return comparer.result_;
}

}  // namespace varve::bench
