#include "bench/record.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <utility>

#include "base/text.h"
#include "bench/request.h"
#include "varve/io.h"

namespace varve::bench {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

const std::vector<std::string> kKinds = {"step", "infer", "parts", "train", "losses", "ablate", "scale"};
const std::vector<std::string> kStatuses = {"ok", "out_of_memory", "failed", "unsupported", "missing"};

ordered_json positive_or_null(double value) { return value > 0 ? ordered_json(value) : ordered_json(nullptr); }
ordered_json interval_json(const Interval& i) {
  return i.high > 0 ? ordered_json{i.low, i.high} : ordered_json(nullptr);
}

[[noreturn]] void wrong(const std::string& field, const std::string& what) {
  throw Error(cat("record: ", field, ": ", what, "."));
}

double number(const json& value, const std::string& field) {
  if (!value.is_number()) wrong(field, cat("expected a number, got ", value.type_name()));
  const double v = value.get<double>();
  if (!std::isfinite(v) || v < 0) wrong(field, "expected a number from 0 on");
  return v;
}
double number_or_zero(const json& from, const char* field) {
  const auto it = from.find(field);
  return it == from.end() || it->is_null() ? 0 : number(*it, field);
}
std::int64_t whole(const json& from, const char* field) {
  const auto it = from.find(field);
  if (it == from.end() || it->is_null()) return 0;
  if (!it->is_number_integer() || (it->is_number_unsigned() && it->get<std::uint64_t>() > (std::uint64_t{1} << 62)))
    wrong(field, "expected a whole number");
  return static_cast<std::int64_t>(number(*it, field));
}
std::string text(const json& from, const char* field, bool required) {
  const auto it = from.find(field);
  if (it == from.end() || it->is_null()) {
    if (required) wrong(field, "is missing");
    return "";
  }
  if (!it->is_string()) wrong(field, cat("expected text, got ", it->type_name()));
  return *it;
}
std::string one_of(const json& from, const char* field, const std::vector<std::string>& known) {
  const std::string value = text(from, field, true);
  if (std::find(known.begin(), known.end(), value) == known.end())
    wrong(field, cat("expected one of ", quoted_list(known), ", got \"", value, "\""));
  return value;
}
std::vector<double> numbers(const json& value, const std::string& field) {
  if (!value.is_array()) wrong(field, cat("expected a list, got ", value.type_name()));
  std::vector<double> list;
  for (const json& v : value) list.push_back(number(v, field));
  return list;
}
Interval interval(const json& from, const char* field) {
  const auto it = from.find(field);
  if (it == from.end() || it->is_null()) return {};
  const std::vector<double> ends = numbers(*it, field);
  if (ends.size() != 2 || ends[0] > ends[1]) wrong(field, "expected two rising numbers");
  return {ends[0], ends[1]};
}
ordered_json object(const json& from, const char* field) {
  const auto it = from.find(field);
  return it == from.end() ? ordered_json() : ordered_json::parse(it->dump());
}

bool close(double a, double b) { return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b)) + 1e-9; }

void read_samples(const json& from, Record& r) {
  if (const auto it = from.find("processes"); it != from.end() && !it->is_null()) {
    if (!it->is_array()) wrong("processes", "expected a list of lists");
    for (const auto& process : *it) r.processes.push_back(numbers(process, "processes"));
  }
  if (const auto it = from.find("process_modes"); it != from.end() && !it->is_null()) {
    if (!it->is_array() || it->size() != r.processes.size()) wrong("process_modes", "expected one for each process");
    for (const auto& mode : *it) {
      if (!mode.is_string()) wrong("process_modes", "expected text");
      r.modes.push_back(mode);
    }
  }
  if (const auto it = from.find("samples_ms"); it != from.end() && !it->is_null())
    if (numbers(*it, "samples_ms") != r.samples()) wrong("samples_ms", "are not those of the processes");
}

// A median that its own samples deny is a lie, or a mistake.
void check_summary(const Record& r) {
  if (r.samples().empty()) return;
  Record again = r;
  summarize(again);
  if (!close(again.ms_median, r.ms_median))
    wrong("ms_median", cat("is ", r.ms_median, ", but its samples' is ", again.ms_median));
  if (!close(again.ms_quartiles.low, r.ms_quartiles.low) || !close(again.ms_quartiles.high, r.ms_quartiles.high))
    wrong("ms_quartiles", "are not those of the samples");
}

}  // namespace

bool is_peer(const std::string& framework) { return framework != "varve" && framework != "varve-python"; }

std::vector<std::size_t> Record::best_turns() const {
  std::vector<std::size_t> turns(processes.size());
  std::iota(turns.begin(), turns.end(), std::size_t{0});
  if (!is_peer(framework) || turns.size() < 2) return turns;
  const std::size_t best = *std::min_element(turns.begin(), turns.end(), [&](std::size_t a, std::size_t b) {
    return !processes[a].empty() && (processes[b].empty() || median(processes[a]) < median(processes[b]));
  });
  const bool trainings = kind == "train" && modes.size() == turns.size();
  std::erase_if(turns, [&](std::size_t turn) { return trainings ? modes[turn] != modes[best] : turn != best; });
  return turns;
}

Groups Record::best_processes() const {
  Groups best;
  for (const std::size_t turn : best_turns()) best.push_back(processes[turn]);
  return best;
}

double Record::busy() const {
  if (device == "cpu" || !gpu.is_object()) return utilisation;
  const auto share = gpu.find("utilisation");
  return share != gpu.end() && share->is_number() ? share->get<double>() : 0;
}

std::string Record::key() const {
  std::string what = cat(kind, " ", workload, " ", framework, " batch ", batch, " threads ", threads, " ranks ", ranks,
                         " ", precision, " ", device, " ", machine.value("cpu", ""));
  if (const auto lever = details.find("without"); lever != details.end()) what += " " + lever->dump();
  if (kind == "scale")
    for (const char* field : {"connected", "weak", "hosts", "rate", "compress"})
      if (const auto it = details.find(field); it != details.end()) what += cat(" ", field, " ", it->dump());
  return what;
}

void summarize(Record& record) {
  const std::vector<double> samples = pooled(record.best_processes());
  if (samples.empty()) return;
  record.ms_median = median(samples);
  record.ms_quartiles = {quantile(samples, 0.25), quantile(samples, 0.75)};
}

ordered_json to_json(const Record& r) {
  ordered_json written{{"schema", kSchema},
                       {"kind", r.kind},
                       {"workload", r.workload},
                       {"framework", r.framework},
                       {"mode", r.mode},
                       {"batch", r.batch},
                       {"threads", r.threads},
                       {"ranks", r.ranks},
                       {"precision", r.precision},
                       {"device", r.device},
                       {"status", r.status},
                       {"reason", r.reason},
                       {"ms_median", positive_or_null(r.ms_median)},
                       {"ms_quartiles", interval_json(r.ms_quartiles)},
                       {"samples_ms", r.samples()},
                       {"processes", r.processes},
                       {"process_modes", r.modes},
                       {"peak_bytes", r.peak_bytes > 0 ? ordered_json(r.peak_bytes) : ordered_json(nullptr)},
                       {"utilisation", positive_or_null(r.utilisation)},
                       {"parameters", r.parameters > 0 ? ordered_json(r.parameters) : ordered_json(nullptr)},
                       {"flops", positive_or_null(r.flops)},
                       {"ratio_to_varve", positive_or_null(r.ratio_to_varve)},
                       {"ratio_interval", interval_json(r.ratio_interval)}};
  written["details"] = r.details;
  written["command"] = r.command;
  written["commit"] = r.commit;
  written["version"] = r.version;
  written["flags"] = r.flags;
  written["machine"] = r.machine;
  written["gpu"] = r.gpu;
  written["algorithms"] = r.algorithms;
  written["load"] = r.load;
  written["seeds"] = r.seeds;
  written["verified"] = r.verified;
  written["time"] = r.time;
  return written;
}

Record record_from_json(const json& from) {
  if (!from.is_object()) wrong("line", "expected a JSON object");
  if (whole(from, "schema") != kSchema) wrong("schema", cat("expected ", kSchema));
  Record r;
  r.kind = one_of(from, "kind", kKinds);
  r.workload = text(from, "workload", true), r.framework = text(from, "framework", true);
  r.mode = text(from, "mode", false);
  r.batch = whole(from, "batch"), r.threads = static_cast<int>(whole(from, "threads"));
  r.ranks = static_cast<int>(std::max<std::int64_t>(1, whole(from, "ranks")));
  r.precision = text(from, "precision", true), r.device = text(from, "device", true);
  r.status = one_of(from, "status", kStatuses), r.reason = text(from, "reason", false);
  r.ms_median = number_or_zero(from, "ms_median"), r.ms_quartiles = interval(from, "ms_quartiles");
  read_samples(from, r);
  check_summary(r);
  r.peak_bytes = whole(from, "peak_bytes"), r.parameters = whole(from, "parameters");
  r.utilisation = number_or_zero(from, "utilisation"), r.flops = number_or_zero(from, "flops");
  r.ratio_to_varve = number_or_zero(from, "ratio_to_varve"), r.ratio_interval = interval(from, "ratio_interval");
  r.command = text(from, "command", false), r.commit = text(from, "commit", false);
  r.version = text(from, "version", false), r.time = text(from, "time", false);
  r.flags = object(from, "flags"), r.machine = object(from, "machine"), r.gpu = object(from, "gpu");
  r.algorithms = object(from, "algorithms"), r.details = object(from, "details");
  if (r.details.is_null()) r.details = ordered_json::object();
  if (!r.details.is_object()) wrong("details", "expected an object");
  if (!r.machine.is_object() && !r.machine.is_null()) wrong("machine", "expected an object");
  if (r.machine.is_null()) r.machine = ordered_json::object();
  if (r.machine.contains("cpu") && !r.machine["cpu"].is_string()) wrong("machine.cpu", "expected text");
  if (const auto it = from.find("load"); it != from.end() && !it->is_null()) r.load = numbers(*it, "load");
  // Records of before the field tell by their command.
  r.verified = r.command.find("--unverified") == std::string::npos;
  if (const auto it = from.find("verified"); it != from.end() && !it->is_null()) {
    if (!it->is_boolean()) wrong("verified", "expected true or false");
    r.verified = r.verified && it->get<bool>();
  }
  if (const auto it = from.find("seeds"); it != from.end() && it->is_array()) {
    r.seeds.clear();
    for (const double seed : numbers(*it, "seeds")) r.seeds.push_back(static_cast<std::int64_t>(seed));
  }
  return r;
}

RecordFile::RecordFile(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  std::ifstream old(path_, std::ios::binary);
  const bool whole = !old || old.seekg(-1, std::ios::end).fail() || old.get() == '\n';
  std::ofstream file(path_, std::ios::app);
  if (!whole) file << '\n';  // a run that was killed left half a line: the next record must not be part of it
  if (!file) throw Error(cat(path_, ": cannot be written: ", std::strerror(errno)));
}

void RecordFile::add(const Record& record) {
  write({record});
  so_far_.reset();
}

void RecordFile::add_so_far(const std::vector<Record>& records) { write(records); }

// What is replaced stays until the new file is whole. Where somebody else has written meanwhile, nothing is replaced.
void RecordFile::write(const std::vector<Record>& records) {
  if (path_.empty()) return;
  std::string lines;
  for (const Record& record : records) lines += to_json(record).dump() + '\n';
  std::error_code gone;
  const std::uintmax_t size = std::filesystem::file_size(path_, gone);
  if (so_far_ && !gone && size == so_far_->second) {
    const std::size_t begin = so_far_->first;
    save_text(path_, load_text(path_).substr(0, begin) + lines);
    so_far_ = {begin, begin + lines.size()};
    return;
  }
  std::ofstream file(path_, std::ios::app);
  file << lines << std::flush;
  if (!file) throw Error(cat(path_, ": cannot be written: ", std::strerror(errno)));
  const std::size_t begin = gone ? 0 : size;
  so_far_ = {begin, begin + lines.size()};
}

std::vector<Record> load_records(const std::string& path) {
  std::istringstream lines(load_text(path));
  std::vector<Record> records;
  int at = 0;
  for (std::string line; std::getline(lines, line);) {
    ++at;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      records.push_back(record_from_json(json::parse(line)));
    } catch (const json::exception& e) {
      throw Error(cat(path, ", line ", at, ": ", e.what()));
    } catch (const Error& e) {
      throw Error(cat(path, ", line ", at, ": ", e.what()));
    }
  }
  return records;
}

}  // namespace varve::bench
