#include "bench/submit.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>

#include "base/text.h"
#include "bench/report/facts.h"

namespace varve::bench {
namespace {

struct Row {
  int line = 0;
  Record record = {};
};

// A file's name from a machine's: "AMD EPYC 9R14, 2 cores" gives "amd-epyc-9r14-2-cores".
std::string slug(const std::string& name) {
  std::string words;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)))
      words += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!words.empty() && words.back() != '-')
      words += '-';
  while (!words.empty() && words.back() == '-') words.pop_back();
  return words;
}

bool is_told(const nlohmann::ordered_json& facts, const char* field) {
  if (!facts.is_object()) return false;
  const auto at = facts.find(field);
  if (at == facts.end()) return false;
  return at->is_number() ? at->get<double>() > 0 : at->is_string() && !at->get_ref<const std::string&>().empty();
}

void check_facts(const nlohmann::ordered_json& facts, const std::string& of, const std::vector<const char*>& fields,
                 std::vector<std::string>& refusals) {
  for (const char* field : fields)
    if (!is_told(facts, field)) refusals.push_back(cat(of, ".", field, " is missing"));
}

// How much was measured. Parts and predictions are tables beside the steps, measured as often as these.
void check_amount(const Record& r, std::vector<std::string>& refusals) {
  if (r.processes.size() < kFewestProcesses)
    refusals.push_back(cat("expected at least ", kFewestProcesses, " processes, got ", r.processes.size(),
                           " (repeat=", kFewestProcesses, ")"));
  if (const std::size_t samples = r.samples().size(); r.kind != "train" && samples < kFewestSamples)
    refusals.push_back(cat("expected at least ", kFewestSamples, " samples, got ", samples));
}

std::vector<std::string> refusals_of(const Record& r) {
  std::vector<std::string> refusals;
  if (!r.verified) refusals.emplace_back("measured without the equity check (--unverified): measure again with it");
  if (r.ok()) {
    check_amount(r, refusals);
    if (r.version.empty()) refusals.emplace_back("the framework's version is missing");
  } else if (r.reason.empty()) {
    refusals.push_back(cat("its status is ", status_words(r.status), ", but it gives no reason"));
  }
  if (r.command.empty()) refusals.emplace_back("the command is missing");
  if (r.time.empty()) refusals.emplace_back("the time is missing");
  if (r.commit.empty()) refusals.emplace_back("the commit is missing (VARVE_COMMIT names it where there is no clone)");
  if (r.commit.ends_with("+")) refusals.emplace_back("the sources were changed after that commit: commit them first");
  check_facts(r.machine, "machine", {"cpu", "isa", "cores", "memory_bytes", "os"}, refusals);
  if (r.device != "cpu") check_facts(r.gpu, "gpu", {"name", "driver", "cuda", "memory_bytes"}, refusals);
  return refusals;
}

// One value of all rows: a file holds one machine at one commit.
void check_one(const std::vector<Row>& rows, const std::string& what, std::string (*of)(const Record&),
               std::vector<std::string>& refusals) {
  for (const Row& row : rows)
    if (of(row.record) != of(rows.front().record))
      refusals.push_back(cat("line ", row.line, ": expected one ", what, " in a file, got ", of(rows.front().record),
                             " in line ", rows.front().line, " and ", of(row.record), " here"));
}

// A peer without Varve at the same setting compares with nothing.
void check_pairs(const std::vector<Row>& rows, std::vector<std::string>& refusals) {
  const auto setting = [](const Record& r) {
    return cat(r.kind, " ", r.workload, " batch ", r.batch, ", ", place_of(r).str());
  };
  std::set<std::string> varve;
  for (const Row& row : rows)
    if (row.record.framework == "varve") varve.insert(setting(row.record));
  for (const Row& row : rows)
    if (!varve.contains(setting(row.record)))
      refusals.push_back(cat("line ", row.line, ": no record of varve at the same setting, ", setting(row.record)));
}

std::vector<std::string> remarks_of(const std::vector<Row>& rows) {
  std::vector<std::string> remarks;
  const auto busy = std::count_if(rows.begin(), rows.end(), [](const Row& row) {
    return !row.record.load.empty() && row.record.load[0] > row.record.threads + 1;
  });
  if (busy > 0) remarks.push_back(cat("the machine had other work to do in ", busy, " of ", rows.size(), " records"));
  const bool peers = std::any_of(rows.begin(), rows.end(),
                                 [](const Row& row) { return is_peer(row.record.framework) && row.record.ok(); });
  if (!peers) remarks.emplace_back("no other framework was measured: the file gives times, and no ratio");
  return remarks;
}

std::string file_name(const std::vector<Row>& rows) {
  std::set<std::string> kinds;
  for (const Row& row : rows) kinds.insert(row.record.kind);
  std::string kind;
  for (const std::string& each : kinds) kind += each + "-";
  return kind + slug(machine_name(rows.front().record)) + ".jsonl";
}

}  // namespace

Submission check_submission(const std::string& text) {
  Submission found;
  std::vector<Row> rows;
  std::istringstream lines(text);
  int at = 0;
  for (std::string line; std::getline(lines, line);) {
    ++at;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      rows.push_back({at, record_from_json(nlohmann::json::parse(line))});
    } catch (const std::exception& e) {
      found.refusals.push_back(cat("line ", at, ": ", e.what()));
      continue;
    }
    const Record& r = rows.back().record;
    for (const std::string& why : refusals_of(r))
      found.refusals.push_back(cat("line ", at, ", ", r.kind, " ", r.workload, " ", r.framework, ": ", why));
  }
  if (rows.empty()) {
    found.refusals.emplace_back("no records");
    return found;
  }
  check_one(
      rows, "commit", [](const Record& r) { return r.commit; }, found.refusals);
  check_one(
      rows, "machine", [](const Record& r) { return machine_name(r); }, found.refusals);
  check_pairs(rows, found.refusals);
  found.remarks = remarks_of(rows), found.file = file_name(rows);
  for (Row& row : rows) found.records.push_back(std::move(row.record));
  return found;
}

}  // namespace varve::bench
