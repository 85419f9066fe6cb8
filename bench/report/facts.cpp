#include "bench/report/facts.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <tuple>

#include "base/text.h"
#include "bench/workloads.h"
#include "varve/io.h"

namespace varve::bench {
namespace {

const std::vector<std::string> kOrder = {"varve",         "torch",     "keras-tensorflow", "jax",
                                         "torch-compile", "keras-jax", "varve-python"};

std::size_t framework_place(const std::string& name) {
  return static_cast<std::size_t>(std::find(kOrder.begin(), kOrder.end(), name) - kOrder.begin());
}

template <class T>
void add_once(std::vector<T>& list, const T& value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

// What is the same for all frameworks that are compared.
std::string setting_key(Record record) {
  record.framework = "";
  return record.key() + " " + machine_name(record);
}

// The records of one setting that one command left at one commit; of two of one framework the later.
struct Run {
  std::string command, commit, time;
  std::vector<Record> records = {};
};

void add_to_run(std::vector<Run>& runs, Record record) {
  auto run = std::find_if(runs.begin(), runs.end(), [&](const Run& known) {
    return known.command == record.command && known.commit == record.commit;
  });
  if (run == runs.end()) run = runs.insert(runs.end(), {record.command, record.commit, record.time});
  run->time = std::max(run->time, record.time);
  const auto same = std::find_if(run->records.begin(), run->records.end(),
                                 [&](const Record& known) { return known.framework == record.framework; });
  if (same == run->records.end())
    run->records.push_back(std::move(record));
  else if (record.time >= same->time)
    *same = std::move(record);
}

std::vector<Record> one_of_runs(std::vector<Run> runs) {
  std::stable_sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) {
    return std::tuple(a.records.size() > 1, a.time) > std::tuple(b.records.size() > 1, b.time);
  });
  std::vector<Record> chosen = std::move(runs.front().records);
  for (std::size_t i = 1; i < runs.size(); ++i)
    for (Record& record : runs[i].records) {
      const bool there = std::any_of(chosen.begin(), chosen.end(),
                                     [&](const Record& known) { return known.framework == record.framework; });
      if (!there && runs[i].commit == runs.front().commit) chosen.push_back(std::move(record));
    }
  return chosen;
}

}  // namespace

Collected collect_text(const std::string& text, const std::string& name) {
  Collected found;
  std::istringstream lines(text);
  int at = 0;
  for (std::string line; std::getline(lines, line);) {
    ++at;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      found.records.push_back(record_from_json(nlohmann::json::parse(line)));
    } catch (const std::exception& e) {
      found.problems.push_back(cat(name, ", line ", at, ": ", e.what()));
    }
  }
  return found;
}

Collected collect(const std::vector<std::string>& paths) {
  Collected all;
  for (const std::string& path : paths) {
    Collected one = collect_text(load_text(path), path);
    std::move(one.records.begin(), one.records.end(), std::back_inserter(all.records));
    std::move(one.problems.begin(), one.problems.end(), std::back_inserter(all.problems));
  }
  return all;
}

Place place_of(const Record& r) { return {machine_name(r), r.device, r.precision, r.threads, r.ranks}; }

std::string Place::str() const {
  std::string words = device == "cpu" ? cat(threads, threads == 1 ? " thread" : " threads") : device;
  if (ranks > 1) words += cat(", ", ranks, " ranks");
  return words + ", " + precision;
}

const Record* Comparison::of(const std::string& framework) const {
  const auto found = records.find(framework);
  return found == records.end() ? nullptr : found->second;
}

const Record* Comparison::best_peer() const {
  const Record* best = nullptr;
  for (const auto& [name, record] : records)
    if (is_peer(name) && record->ok() && record->ms_median > 0 && (!best || record->ms_median < best->ms_median))
      best = record;
  return best;
}

bool Comparison::both() const {
  const Record* varve = of("varve");
  return varve && varve->ok() && varve->ms_median > 0 && best_peer();
}

double Comparison::ratio() const { return best_peer()->ms_median / of("varve")->ms_median; }

Interval Comparison::interval() const { return facts->ratio_interval_of(*best_peer(), *of("varve")); }

Interval Facts::ratio_interval_of(const Record& peer, const Record& varve) const {
  const auto [at, fresh] = intervals_.try_emplace({&peer, &varve});
  const Groups over = peer.best_processes(), under = varve.best_processes();
  if (fresh && !pooled(over).empty() && !pooled(under).empty()) at->second = ratio_interval(over, under);
  return at->second;
}

Verdict verdict(const Comparison& comparison) {
  const Interval sure = comparison.interval();
  const double low = sure.high > 0 ? sure.low : comparison.ratio(), high = sure.high > 0 ? sure.high : low;
  return low > 1 ? Verdict::ahead : high < 1 ? Verdict::behind : Verdict::level;
}

Facts::Facts(std::vector<Record> records) {
  std::vector<std::pair<std::string, std::vector<Run>>> settings;
  for (Record& record : records) {
    if (!record.verified) {
      unchecked_.push_back(std::move(record));
      continue;
    }
    const std::string key = setting_key(record);
    auto at = std::find_if(settings.begin(), settings.end(), [&](const auto& known) { return known.first == key; });
    if (at == settings.end()) at = settings.insert(settings.end(), {key, {}});
    add_to_run(at->second, std::move(record));
  }
  for (auto& [key, runs] : settings)
    for (Record& record : one_of_runs(std::move(runs))) records_.push_back(std::move(record));
}

std::vector<Record> Facts::of_machine(const std::string& machine) const {
  std::vector<Record> found;
  for (const std::vector<Record>* list : {&records_, &unchecked_})
    std::copy_if(list->begin(), list->end(), std::back_inserter(found),
                 [&](const Record& record) { return machine_name(record) == machine; });
  return found;
}

std::vector<const Record*> Facts::where(const std::function<bool(const Record&)>& wanted) const {
  std::vector<const Record*> found;
  for (const Record& record : records_)
    if (wanted(record)) found.push_back(&record);
  return found;
}

std::vector<std::string> Facts::machines() const {
  std::vector<std::string> names;
  for (const Record& record : records_) add_once(names, machine_name(record));
  for (const Record& record : unchecked_) add_once(names, machine_name(record));
  return names;
}

std::vector<std::string> Facts::frameworks(const std::string& kind) const {
  std::vector<std::string> names;
  for (const Record& record : records_)
    if (kind.empty() || record.kind == kind) add_once(names, record.framework);
  std::stable_sort(names.begin(), names.end(),
                   [](const auto& a, const auto& b) { return framework_place(a) < framework_place(b); });
  return names;
}

std::vector<Place> Facts::places(const std::string& kind) const {
  std::vector<Place> found;
  for (const Record& record : records_)
    if (record.kind == kind) add_once(found, place_of(record));
  const std::vector<std::string> order = machines();
  std::stable_sort(found.begin(), found.end(), [&](const Place& a, const Place& b) {
    const auto x = std::find(order.begin(), order.end(), a.machine),
               y = std::find(order.begin(), order.end(), b.machine);
    // float32 before the rest; more threads first
    return std::tuple(x, a.device, a.precision != "f32", a.precision, -a.threads, a.ranks) <
           std::tuple(y, b.device, b.precision != "f32", b.precision, -b.threads, b.ranks);
  });
  return found;
}

std::vector<Place> Facts::main_places(const std::string& kind) const {
  std::vector<Place> chosen;
  std::vector<std::size_t> sizes;
  for (const Place& place : places(kind)) {
    const std::size_t size = comparisons(kind, place).size();
    const bool same = !chosen.empty() && chosen.back().machine == place.machine &&
                      chosen.back().device == place.device && chosen.back().precision == place.precision;
    if (!same)
      chosen.push_back(place), sizes.push_back(size);
    else if (size > sizes.back())
      chosen.back() = place, sizes.back() = size;
  }
  return chosen;
}

std::vector<Comparison> Facts::comparisons(const std::string& kind, const Place& place) const {
  std::vector<Comparison> found;
  for (const Record& record : records_) {
    if (record.kind != kind || place_of(record) != place) continue;
    auto at = std::find_if(found.begin(), found.end(), [&](const Comparison& c) {
      return c.workload == record.workload && c.batch == record.batch;
    });
    if (at == found.end()) at = found.insert(found.end(), {this, record.workload, record.batch});
    at->records[record.framework] = &record;
  }
  std::stable_sort(found.begin(), found.end(), [](const Comparison& a, const Comparison& b) {
    return std::tuple(workload_place(a.workload), a.workload, a.batch) <
           std::tuple(workload_place(b.workload), b.workload, b.batch);
  });
  return found;
}

std::vector<Comparison> Facts::main_comparisons(const std::string& kind, const Place& place) const {
  std::vector<Comparison> chosen;
  for (Comparison& row : comparisons(kind, place)) {
    const bool known = workload_place(row.workload) < workload_names().size();
    if (chosen.empty() || chosen.back().workload != row.workload)
      chosen.push_back(std::move(row));
    else if (known && row.batch == find_workload(row.workload).batch)
      chosen.back() = std::move(row);
  }
  return chosen;
}

std::size_t workload_place(const std::string& name) {
  const std::vector<std::string> known = workload_names();
  return static_cast<std::size_t>(std::find(known.begin(), known.end(), name) - known.begin());
}

}  // namespace varve::bench
