#include "bench/study.h"

#include <algorithm>

#include "base/text.h"
#include "bench/report/runs.h"

namespace varve::bench {
namespace {

constexpr std::int64_t kMostOnCpu = 4;  // times the CPU's own batch

struct StudyProtocol {
  const char* study;
  const char* kind;
  std::vector<std::string> workloads;
  bool threads;  // swept
  bool batches;  // swept
  int rounds;
};

const StudyProtocol& protocol_of(const Study& study) {
  static const std::vector<StudyProtocol> all = {
      {"shatnawi2018", "train", {"cnn-mnist", "cnn-cifar"}, true, false, 1},
      {"kabakus2020", "train", {"fnn-mnist", "vgg16-cifar", "lstm-imdb"}, false, false, 10},
      {"shi2016", "step", {"fcn5", "fcn8", "alexnet", "resnet50", "lstm32", "lstm64"}, true, true, 3}};
  for (const StudyProtocol& protocol : all)
    if (study.name == protocol.study) return protocol;
  throw Error(cat("study \"", study.name, "\" has no protocol."));
}

std::vector<int> threads_of(const StudyProtocol& protocol, const StudyChoices& choices) {
  if (!choices.threads.empty()) return choices.threads;
  if (!protocol.threads) return {choices.cores};
  std::vector<int> counts;
  for (const int count : kStudyThreads)
    if (count <= choices.cores) counts.push_back(count);
  return counts;
}

std::vector<std::int64_t> batches_of(const StudyProtocol& protocol, const Workload& workload,
                                     const StudyChoices& choices, const std::string& device) {
  if (!choices.batches.empty()) return choices.batches;
  if (!protocol.batches) return {};
  std::vector<std::int64_t> sizes = workload.gpu_batches;
  if (device == "cpu") std::erase_if(sizes, [&](std::int64_t size) { return size > kMostOnCpu * workload.batch; });
  return sizes;
}

bool same(const Setting& a, const Setting& b) {
  return a.workload == b.workload && a.batch == b.batch && a.threads == b.threads && a.precision == b.precision &&
         a.device == b.device;
}

// Each once: the sweeps cross where both have their own values.
void add(std::vector<StudyCell>& cells, const StudyCell& cell) {
  if (std::none_of(cells.begin(), cells.end(), [&](const StudyCell& each) { return same(each.setting, cell.setting); }))
    cells.push_back(cell);
}

// Varve speaks for the round: another framework may have given up in one of them.
bool as_long(const Record& record, const StudyPlan& plan, const Workload& workload) {
  if (record.framework != "varve" || !record.ok()) return true;
  if (record.processes.size() < static_cast<std::size_t>(plan.rounds)) return false;
  if (record.kind != "train") return true;
  const std::vector<TrainingRun> runs = runs_of(record);
  return !runs.empty() && runs.front().epochs == (plan.epochs > 0 ? plan.epochs : workload.protocol.epochs);
}

bool answers(const Record& record, const StudyCell& cell, const std::string& framework) {
  const Setting& s = cell.setting;
  return record.kind == cell.kind && record.workload == s.workload->name && record.framework == framework &&
         record.batch == s.batch && record.threads == s.threads && record.precision == s.precision &&
         record.device == s.device &&
         (record.status == "ok" || record.status == "out_of_memory" || record.status == "unsupported" ||
          (record.status == "missing" && !missing(find_framework(framework)).empty()));
}

}  // namespace

StudyPlan study_plan(const Study& study, const StudyChoices& choices) {
  const StudyProtocol& protocol = protocol_of(study);
  for (const std::string& name : choices.workloads)
    if (std::find(protocol.workloads.begin(), protocol.workloads.end(), name) == protocol.workloads.end())
      throw Error(cat(study.name, " has no workload \"", name, "\": it has ", quoted_list(protocol.workloads), "."));
  StudyPlan plan{.frameworks = choices.frameworks,
                 .rounds = choices.runs > 0 ? choices.runs : protocol.rounds,
                 .epochs = choices.epochs};
  for (const std::string& name : plan.frameworks) find_framework(name);
  if (plan.frameworks.empty()) plan.frameworks = {"varve", "torch", "keras-tensorflow"};
  for (const std::string& name : choices.workloads.empty() ? protocol.workloads : choices.workloads) {
    const Workload& workload = find_workload(name);
    for (const std::string& device : choices.devices.empty() ? std::vector<std::string>{"cpu"} : choices.devices) {
      const std::vector<int> threads =
          device == "cpu" ? threads_of(protocol, choices) : std::vector<int>{choices.cores};
      for (const int count : threads)
        add(plan.cells, {protocol.kind, {&workload, workload.batch, count, "f32", device}});
      for (const std::int64_t batch : batches_of(protocol, workload, choices, device))
        add(plan.cells, {protocol.kind, {&workload, batch, threads.back(), "f32", device}});
    }
  }
  return plan;
}

std::vector<StudyCell> still_to_measure(const StudyPlan& plan, const std::vector<Record>& records,
                                        const std::string& machine) {
  std::vector<StudyCell> left;
  for (const StudyCell& cell : plan.cells) {
    const bool done = std::all_of(plan.frameworks.begin(), plan.frameworks.end(), [&](const std::string& framework) {
      return std::any_of(records.begin(), records.end(), [&](const Record& record) {
        return machine_name(record) == machine && answers(record, cell, framework) &&
               as_long(record, plan, *cell.setting.workload);
      });
    });
    if (!done) left.push_back(cell);
  }
  return left;
}

}  // namespace varve::bench
