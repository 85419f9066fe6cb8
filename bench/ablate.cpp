#include "bench/ablate.h"

#include "base/levers.h"
#include "base/text.h"
#include "bench/answers.h"

namespace varve::bench {

std::vector<Variant> variants(const std::string& precision, const std::string& device) {
  std::vector<Variant> all = {{"", {}}};
  for (const Lever& lever : levers())
    if ((lever.name != "bf16" || precision == "bf16") && (!lever.gpu_only || device != "cpu"))
      all.push_back({lever.name, {{"VARVE_WITHOUT", lever.name}}});
  all.push_back({"workspace", {{"VARVE_WORKSPACE_MB", "0"}}});
  return all;
}

std::vector<Record> ablate(const Driver& driver, const Setting& setting) {
  const DriverOptions& options = driver.options();
  const std::vector<Variant> all = variants(setting.precision, setting.device);
  std::vector<Record> records;
  for (const Variant& variant : all) {
    records.push_back(driver.blank("ablate", setting, "varve"));
    records.back().mode = "plain";
    records.back().details["without"] = variant.name;
  }
  for (int round = 0; round < options.rounds; ++round)
    for (std::size_t i = 0; i < all.size(); ++i) {
      Record& r = records[i];
      if (!r.ok()) continue;
      driver.say(cat(setting.str(), " · round ", round + 1, "/", options.rounds, " · ",
                     all[i].name.empty() ? "whole" : "without " + all[i].name));
      const Answer answer =
          ask(find_framework("varve"), driver.request("step", setting), options.limit_seconds, all[i].environment);
      if (!answer.ok()) {
        r.status = answer.status(), r.reason = answer.json.value("reason", "");
        continue;
      }
      r.modes.push_back("plain");
      add_answer(r, answer);
    }
  for (Record& r : records) summarize(r);
  const Record& whole = records.front();
  for (Record& r : records) {
    if (&r != &whole && r.ok() && whole.ok()) {
      r.ratio_to_varve = r.ms_median / whole.ms_median;
      r.ratio_interval = ratio_interval(r.processes, whole.processes);
    }
    if (options.keep) options.keep(r);
  }
  return records;
}

}  // namespace varve::bench
