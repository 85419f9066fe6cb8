#include "bench/scale.h"

#include <algorithm>
#include <map>
#include <memory>

#include "base/text.h"
#include "bench/answers.h"
#include "bench/flops.h"
#include "bench/together.h"
#include "bench/verify.h"
#include "varve/distributed.h"

namespace varve::bench {
namespace {

// One line of the sweep.
struct Case {
  const Framework* framework = nullptr;
  Together together = {};
  std::string compress = "none";
  Record record = {};
  double cpu = 0, wall = 0;

  bool alone() const { return together.ranks == 1; }
  std::string str() const {
    if (alone()) return "1 rank";
    std::string words = cat(together.ranks, together.connected ? " ranks" : " ranks apart");
    if (together.hosts) words += cat(" on ", together.hosts->count(), " hosts");
    return compress == "none" ? words : words + ", " + compress;
  }
};

class Sweeping {
 public:
  Sweeping(Driver& driver, const Setting& setting, const ScalePlan& plan, const std::vector<std::string>& frameworks)
      : driver_(driver), setting_(setting), plan_(plan) {
    for (const std::string& name : frameworks) add_cases(find_framework(name));
  }

  std::vector<Record> run() {
    verify();
    for (int round = 0; round < driver_.options().rounds; ++round)
      for (Case& each : cases_)
        if (each.record.ok()) take_turn(each, round);
    std::vector<Record> records;
    for (Case& each : cases_) {
      summarize(each.record);
      if (each.wall > 0) each.record.utilisation = each.cpu / (each.wall * setting_.threads);
      records.push_back(std::move(each.record));
    }
    fill_scaling(records);
    for (const Record& record : records)
      if (driver_.options().keep) driver_.options().keep(record);
    return records;
  }

 private:
  void add_cases(const Framework& framework) {
    add(framework, {});
    for (const int ranks : plan_.ranks) {
      if (ranks == 1) continue;
      add(framework, {.ranks = ranks, .connected = false});
      for (const int hosts : plan_.hosts) {
        if (hosts > 1 && ranks % hosts != 0) continue;
        for (const std::string& compress : plan_.compress)
          if (compress == "none" || framework.name == "varve")
            add(framework, {.ranks = ranks, .hosts = hosts > 1 ? hosts_of(hosts) : nullptr}, compress);
      }
    }
  }
  const Hosts* hosts_of(int count) {
    auto& found = hosts_[count];
    if (!found) found = std::make_unique<Hosts>(count, plan_.wire);
    return found.get();
  }

  void add(const Framework& framework, const Together& together, const std::string& compress = "none") {
    Case added{&framework, together, compress, driver_.blank("scale", setting_, framework.name)};
    Record& r = added.record;
    const std::int64_t one = plan_.weak ? setting_.batch : std::max<std::int64_t>(setting_.batch / together.ranks, 1);
    r.ranks = together.ranks;
    r.batch = one * together.ranks;
    r.flops = count_work(*setting_.workload, r.batch).step;
    r.details["connected"] = together.connected || added.alone();
    r.details["weak"] = plan_.weak;
    r.details["hosts"] = together.hosts ? together.hosts->count() : 1;
    r.details["rate"] = together.hosts && !plan_.wire.empty() ? plan_.wire : "";
    r.details["compress"] = compress;
    if (!plan_.weak && setting_.batch % together.ranks != 0)
      refuse(r, "unsupported",
             cat("a batch of ", setting_.batch, " is not shared equally by ", together.ranks, " ranks."));
    if (const std::string why = missing(framework); !why.empty()) refuse(r, "missing", why);
    if (!together.connected && together.hosts) refuse(r, "unsupported", "ranks apart are of one host.");
    cases_.push_back(std::move(added));
  }
  static void refuse(Record& record, const std::string& status, const std::string& reason) {
    record.status = status, record.reason = reason;
  }

  // Every framework alone, and each as the most ranks.
  void verify() {
    if (!driver_.options().verify) return;
    std::vector<std::string> names;
    for (const Case& each : cases_)
      if (each.record.ok() && std::find(names.begin(), names.end(), each.framework->name) == names.end())
        names.push_back(each.framework->name);
    const VerifyOptions options{.threads = setting_.threads,
                                .device = setting_.device,
                                .say = [this](const std::string& line) { driver_.say(line); }};
    if (names.size() > 1) judge(bench::verify(*setting_.workload, names, options), 1);
    const int most = *std::max_element(plan_.ranks.begin(), plan_.ranks.end());
    if (most == 1) return;
    VerifyOptions many = options;
    many.ranks = most;
    judge(bench::verify(*setting_.workload, names, many), 2);
  }
  void judge(const std::vector<Checked>& checks, int least_ranks) {
    for (const Checked& check : checks)
      for (Case& each : cases_) {
        if (check.status == "ok" || each.framework->name != check.framework || each.together.ranks < least_ranks)
          continue;
        if (each.record.ok())
          refuse(each.record, check.status == "mismatch" ? "failed" : check.status,
                 (check.status == "mismatch" ? "not the same network: " : "") + check.reason);
      }
  }

  void take_turn(Case& each, int round) {
    Record& r = each.record;
    driver_.say(cat(setting_.str(), " · ", each.str(), " · round ", round + 1, "/", driver_.options().rounds, " · ",
                    r.framework));
    Request asked = driver_.request("step", setting_);
    asked.batch = each.together.connected ? r.batch : r.batch / r.ranks;
    asked.compress = each.compress;
    const Answer answer = ask_together(*each.framework, asked, each.together, driver_.options().limit_seconds);
    if (!answer.ok()) return refuse(r, answer.status(), answer.json.value("reason", ""));
    r.modes.push_back(asked.mode);
    add_answer(r, answer);
    each.cpu += answer.json.value("cpu_seconds", 0.0), each.wall += answer.json.value("wall_seconds", 0.0);
  }

  Driver& driver_;
  const Setting& setting_;
  const ScalePlan& plan_;
  std::map<int, std::unique_ptr<Hosts>> hosts_;
  std::vector<Case> cases_;
};

double samples_per_second(const Record& r) { return 1e3 * static_cast<double>(r.batch) / r.ms_median; }

const Record* find_reference(const std::vector<Record>& records, const Record& of, int ranks) {
  for (const Record& r : records)
    if (r.framework == of.framework && r.ranks == ranks && r.ok() && r.ms_median > 0 &&
        (ranks == 1 || !r.details.value("connected", true)))
      return &r;
  return nullptr;
}

const Record* same_of_varve(const std::vector<Record>& records, const Record& of) {
  for (const Record& r : records)
    if (r.framework == "varve" && r.ok() && r.ms_median > 0 &&
        r.key().substr(r.key().find(" batch ")) == of.key().substr(of.key().find(" batch ")))
      return &r;
  return nullptr;
}

double number_in(const nlohmann::ordered_json& from, const char* field) {
  const auto it = from.find(field);
  return it != from.end() && it->is_number() ? it->get<double>() : 0;
}
std::string text_in(const nlohmann::ordered_json& from, const char* field) {
  const auto it = from.find(field);
  return it != from.end() && it->is_string() ? it->get<std::string>() : "";
}
bool flag_in(const nlohmann::ordered_json& from, const char* field, bool otherwise) {
  const auto it = from.find(field);
  return it != from.end() && it->is_boolean() ? it->get<bool>() : otherwise;
}

}  // namespace

ScalePlan make_scale_plan(const ScaleText& text) {
  ScalePlan plan{.compress = words_of(text.compress), .wire = text.wire, .weak = text.weak};
  for (const std::int64_t n : whole_numbers(text.ranks, "ranks", 1024)) plan.ranks.push_back(static_cast<int>(n));
  for (const std::int64_t n : whole_numbers(text.hosts, "hosts", 64)) plan.hosts.push_back(static_cast<int>(n));
  if (plan.ranks.empty()) plan.ranks = {1, 2};
  if (plan.hosts.empty()) plan.hosts = {1};
  if (plan.compress.empty()) plan.compress = {"none"};
  for (const std::string& name : plan.compress) distributed::compression_by_name(name, {});
  if (!plan.wire.empty() && std::all_of(plan.hosts.begin(), plan.hosts.end(), [](int n) { return n == 1; }))
    throw Error("wire: is between hosts; say how many, as in hosts=2.");
  return plan;
}

std::vector<Record> measure_scaling(Driver& driver, const Setting& setting, const ScalePlan& plan,
                                    const std::vector<std::string>& frameworks) {
  return Sweeping(driver, setting, plan, frameworks).run();
}

void fill_scaling(std::vector<Record>& records) {
  for (Record& r : records) {
    if (!r.ok() || !(r.ms_median > 0)) continue;
    r.details["samples_per_second"] = samples_per_second(r);
    if (const Record* one = find_reference(records, r, 1))
      r.details["speed_up"] = samples_per_second(r) / samples_per_second(*one);
    if (const Record* apart =
            r.ranks > 1 && r.details.value("connected", true) ? find_reference(records, r, r.ranks) : nullptr)
      r.details["efficiency"] = apart->ms_median / r.ms_median;
  }
  for (Record& r : records) {
    const Record* varve = r.framework != "varve" && r.ok() && r.ms_median > 0 ? same_of_varve(records, r) : nullptr;
    if (!varve) continue;
    r.ratio_to_varve = r.ms_median / varve->ms_median;
    r.ratio_interval = ratio_interval(r.best_processes(), varve->best_processes());
  }
}

Scaling::Scaling(const Record& record) {
  const auto& d = record.details;
  connected = flag_in(d, "connected", true), weak = flag_in(d, "weak", false);
  hosts = std::max(1, static_cast<int>(number_in(d, "hosts")));
  compress = text_in(d, "compress"), rate = text_in(d, "rate");
  samples_per_second = number_in(d, "samples_per_second");
  speed_up = number_in(d, "speed_up"), efficiency = number_in(d, "efficiency");
  const auto wire = d.find("wire");
  has_wire = wire != d.end() && wire->is_object();
  if (!has_wire) return;
  engine = text_in(*wire, "engine");
  busy_ms = number_in(*wire, "busy_ms"), waited_ms = number_in(*wire, "waited_ms");
  bytes = number_in(*wire, "bytes"), messages = number_in(*wire, "messages");
}

}  // namespace varve::bench
