#include "bench/driver.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "bench/answers.h"
#include "bench/flops.h"
#include "bench/gpu_watch.h"
#include "bench/machine_facts.h"
#include "bench/verify.h"

namespace varve::bench {
namespace {

// A mode this much slower than another of the same framework in the first round is not tried again.
constexpr double kHopeless = 1.5;

std::string duration(double seconds) {
  if (seconds < 90) return cat(std::llround(seconds), " s");
  return seconds < 5400 ? cat(std::llround(seconds / 60), " min") : cat(std::llround(seconds / 360) / 10.0, " h");
}

double best_median(const Record& record, const std::string& mode) {
  double best = INFINITY;
  for (std::size_t i = 0; i < record.processes.size(); ++i)
    if (record.modes[i] == mode) best = std::min(best, median(record.processes[i]));
  return best;
}

// Of the processes that the median is of: means, and the most memory.
void add_gpu_use(Record& record, const std::vector<nlohmann::ordered_json>& seen) {
  std::map<std::string, std::vector<double>> values;
  for (const std::size_t turn : record.best_turns())
    if (turn < seen.size() && seen[turn].is_object())
      for (const auto& [name, value] : seen[turn].items()) values[name].push_back(value);
  for (const auto& [name, list] : values)
    if (name == "used_bytes")
      record.gpu[name] = static_cast<std::int64_t>(*std::max_element(list.begin(), list.end()));
    else
      record.gpu[name] = mean(list);
}

}  // namespace

// A framework at one setting.
struct Driver::Turn {
  const Framework* framework;
  Record record;
  std::vector<std::string> modes;                // still worth measuring
  double cpu = 0, wall = 0;                      // of all samples
  std::vector<nlohmann::ordered_json> gpu = {};  // of each process
  std::vector<std::string> failures = {};        // of modes that gave nothing
};

Driver::Driver(DriverOptions options)
    : options_(std::move(options)), commit_(source_commit()), machine_(machine_facts()), gpu_(gpu_facts()) {}

void Driver::say(const std::string& line) const {
  if (!options_.say) return;
  std::string left;
  if (at_ > 0) {
    const double each = before_ / static_cast<double>(at_), now = elapsed() - before_;
    left = cat(", about ", duration(std::max(each * static_cast<double>(of_ - at_) - now, 1.0)), " left");
  }
  options_.say(cat("[", at_ + 1, "/", of_, "] ", line, " · ", duration(elapsed()), " so far", left));
}

Record Driver::blank(const std::string& kind, const Setting& setting, const std::string& framework) const {
  Record r;
  r.kind = kind, r.workload = setting.workload->name, r.framework = framework;
  r.batch = setting.batch, r.threads = setting.threads;
  r.precision = setting.precision, r.device = setting.device;
  r.flops = count_work(*setting.workload, setting.batch).step;
  r.command = options_.command, r.commit = commit_, r.machine = machine_, r.gpu = gpu_;
  r.load = load_average(), r.time = iso_time(), r.seeds = {options_.seed};
  r.verified = options_.verify;
  return r;
}

Request Driver::request(const std::string& task, const Setting& setting) const {
  return {.task = task,
          .workload = setting.workload->name,
          .batch = setting.batch,
          .threads = setting.threads,
          .precision = setting.precision,
          .device = setting.device,
          .seed = options_.seed,
          .warmup_seconds = options_.warmup_seconds,
          .samples = options_.samples,
          .min_seconds = options_.min_seconds,
          .max_seconds = options_.max_seconds};
}

// Whoever does not train the same network is not measured.
void Driver::verified(const Setting& setting, std::vector<Turn>& turns) {
  if (!options_.verify || turns.size() < 2) return;
  std::vector<std::string> names;
  for (const Turn& turn : turns) names.push_back(turn.framework->name);
  const std::vector<Checked> checks = bench::verify(
      *setting.workload, names,
      {.threads = setting.threads, .device = setting.device, .say = [this](const std::string& line) { say(line); }});
  for (Turn& turn : turns)
    for (const Checked& check : checks) {
      if (check.framework != turn.framework->name || check.status == "ok") continue;
      turn.record.status = check.status == "mismatch" ? "failed" : check.status;
      turn.record.reason = (check.status == "mismatch" ? "not the same network: " : "") + check.reason;
      turn.modes.clear();
    }
}

void Driver::take_turn(Turn& turn, const Request& request, const std::string& where) {
  Record& r = turn.record;
  say(cat(where, " · ", r.framework, request.mode == "plain" ? "" : " (" + request.mode + ")"));
  const Answer answer = ask(*turn.framework, request, options_.limit_seconds, options_.environment);
  if (!answer.ok()) {
    std::erase(turn.modes, request.mode);
    turn.failures.push_back(answer.json.value("reason", ""));
    if (r.processes.empty()) r.status = answer.status(), r.reason = turn.failures.back();
    return;
  }
  r.status = "ok", r.reason = "";
  r.modes.push_back(request.mode);
  add_answer(r, answer);
  turn.gpu.push_back(answer.gpu);
  turn.cpu += answer.json.value("cpu_seconds", 0.0), turn.wall += answer.json.value("wall_seconds", 0.0);
}

std::vector<Record> Driver::finished(std::vector<Turn> turns) const {
  std::vector<Record> records;
  for (Turn& turn : turns) {
    Record& r = turn.record;
    summarize(r);
    if (turn.wall > 0) r.utilisation = turn.cpu / (turn.wall * r.threads);
    add_gpu_use(r, turn.gpu);
    double best = INFINITY;
    for (const std::string& mode : r.modes)
      if (const double ms = best_median(r, mode); ms < best) best = ms, r.mode = mode;
    if (!r.processes.empty() && !turn.failures.empty()) r.details["failures"] = turn.failures;
    records.push_back(std::move(r));
  }
  fill_ratios(records);
  return records;
}

std::vector<Record> Driver::measure(const std::string& kind, const Setting& setting,
                                    const std::vector<std::string>& names) {
  std::vector<Turn> turns;
  for (const std::string& name : names) {
    const Framework& framework = find_framework(name);
    turns.push_back({&framework, blank(kind, setting, name), framework.modes_on(setting.device)});
    std::vector<std::string>& modes = turns.back().modes;
    const auto unwanted = [&](const std::string& mode) {
      return std::find(options_.modes.begin(), options_.modes.end(), mode) == options_.modes.end();
    };
    if (!std::all_of(modes.begin(), modes.end(), unwanted)) std::erase_if(modes, unwanted);
    if (!options_.all_modes) modes.resize(1);
    if (const std::string why = missing(framework); !why.empty())
      turns.back().record.status = "missing", turns.back().record.reason = why, turns.back().modes.clear();
  }
  verified(setting, turns);
  for (int round = 0; round < options_.rounds; ++round) {
    Request asked = request(kind, setting);
    const std::unique_ptr<Scratch> files = kind == "train" ? training_files(setting, round, asked) : nullptr;
    if (round > 0 && files)
      for (Turn& turn : turns) turn.record.seeds.push_back(asked.seed);
    const std::string where = cat(setting.str(), " · round ", round + 1, "/", options_.rounds);
    for (Turn& turn : turns) {
      for (const std::string& mode : std::vector<std::string>(turn.modes)) {
        asked.mode = mode;
        take_turn(turn, asked, where);
      }
      double best = INFINITY;
      for (const std::string& mode : turn.modes) best = std::min(best, best_median(turn.record, mode));
      std::erase_if(turn.modes, [&](const auto& mode) { return best_median(turn.record, mode) > kHopeless * best; });
    }
    // Hours of training are not lost with the last minute.
    if (kind == "train" && round + 1 < options_.rounds && options_.so_far) options_.so_far(finished(turns));
  }
  const std::vector<Record> records = finished(std::move(turns));
  for (const Record& record : records)
    if (options_.keep) options_.keep(record);
  return records;
}

// The same samples and the same first weights for all, another seed in each round.
std::unique_ptr<Scratch> Driver::training_files(const Setting& setting, int round, Request& asked) {
  if (setting.workload->protocol.data.empty())
    throw Error(cat("workload \"", setting.workload->name, "\" has no data set of its own to train on."));
  auto files = std::make_unique<Scratch>();
  asked.seed = options_.seed + round;
  asked.weights = files->path("weights.safetensors");
  asked.data = files->path("data.safetensors");
  asked.epochs = options_.epochs > 0 ? options_.epochs : setting.workload->protocol.epochs;
  asked.target = setting.workload->protocol.target;
  Request write = asked;
  write.task = "files";
  write.device = "cpu";  // whatever they are trained on
  if (write.precision == "tf32") write.precision = "f32";
  say(cat(setting.workload->name, ": reading ", setting.workload->protocol.data));
  const Answer written = ask(find_framework("varve"), write, options_.limit_seconds);
  if (!written.ok()) throw Error(cat(setting.workload->name, ": ", written.json.value("reason", "")));
  return files;
}

std::vector<Record> Driver::measure(const std::string& kind, const Sweep& sweep) {
  std::vector<Record> all;
  of_ = sweep.settings.size();
  for (at_ = 0; at_ < of_ && within_budget(); ++at_) {
    at(at_, of_);
    std::vector<Record> records = measure(kind, sweep.settings[at_], sweep.frameworks);
    std::move(records.begin(), records.end(), std::back_inserter(all));
  }
  at(0, 1);
  return all;
}

// The next setting is taken to last as long as those before it did on average.
bool Driver::within_budget() const {
  if (options_.budget_seconds <= 0 || at_ == 0) return true;
  return elapsed() * static_cast<double>(at_ + 1) / static_cast<double>(at_) < options_.budget_seconds;
}

double Driver::elapsed() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void fill_ratios(std::vector<Record>& records) {
  const auto varve =
      std::find_if(records.begin(), records.end(), [](const Record& r) { return r.framework == "varve"; });
  if (varve == records.end() || !varve->ok() || !(varve->ms_median > 0)) return;
  for (Record& r : records) {
    if (r.framework == "varve" || !r.ok() || !(r.ms_median > 0)) continue;
    r.ratio_to_varve = r.ms_median / varve->ms_median;
    r.ratio_interval = ratio_interval(r.best_processes(), varve->best_processes());
  }
}

}  // namespace varve::bench
