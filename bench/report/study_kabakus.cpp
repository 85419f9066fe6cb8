// Training time, testing time and accuracy of three networks, mean over the runs.
#include "base/text.h"
#include "bench/report/runs.h"
#include "bench/report/studies.h"
#include "bench/report/study_tables.h"

namespace varve::bench {
namespace {

struct KabakusRow {
  const char *workload, *network;
  const char *keras_training, *torch_training;  // the study's ratios; the faster is 1
  const char *keras_testing, *torch_testing;
  const char *keras_accuracy, *torch_accuracy;
};
constexpr KabakusRow kKabakus[] = {{"fnn-mnist", "FNN", "1", "3.8 × Keras", "1", "2.4 × Keras", "97.24", "96.69"},
                                   {"vgg16-cifar", "VGG16", "1", "1.9 × Keras", "1", "1.4 × Keras", "78.43", "76.54"},
                                   {"lstm-imdb", "LSTM", "1.3 × PyTorch", "1", "1", "1.6 × Keras", "85.83", "87.08"}};

std::vector<Cell> our_row(const std::string& network, const std::string& name, const Record* record) {
  const std::size_t runs = record && record->ok() ? runs_of(*record).size() : 0;
  return {network,
          Cell(label(name), record && record->device != "cpu" ? record->device
                            : record ? cat(record->threads, record->threads == 1 ? " thread" : " threads")
                                     : ""),
          runs > 0 ? Cell(std::to_string(runs)) : Cell(""),
          seconds_cell(record, &TrainingRun::train_seconds),
          seconds_cell(record, &TrainingRun::test_seconds),
          accuracy_cell(record)};
}

}  // namespace

std::vector<Table> kabakus_tables(const Facts& facts) {
  std::vector<Table> tables;
  std::vector<std::string> frameworks = facts.frameworks("train");
  if (frameworks.empty()) frameworks = {"varve"};
  for (const std::string& machine : machines_with(facts, "train", {"fnn-mnist", "vgg16-cifar", "lstm-imdb"})) {
    Table table{.caption = cat("Seconds and accuracy", machine.empty() ? "" : ", " + machine),
                .head = {"network", "framework", "runs", "training s", "testing s", "accuracy %"},
                .words = 2,
                .note =
                    "The study's times are given as ratios between its two frameworks. Its CIFAR-10 files are the "
                    "original ones: compare accuracies only between runs on the same files.",
                .grouped = true};
    for (const KabakusRow& study : kKabakus) {
      for (const std::string& name : frameworks) {
        const Record* cpu = nullptr;
        for (const int threads : {32, 16, 8, 4, 2, 1, 0})
          if (!cpu) cpu = find(facts, {"train", machine, study.workload, name, "cpu", 0, threads});
        table.rows.push_back(our_row(study.network, name, cpu));
        if (const Record* gpu = find(facts, {"train", machine, study.workload, name, "cuda", 0, 0}))
          table.rows.push_back(our_row(study.network, name, gpu));
      }
      table.rows.push_back({study.network, "Keras 2020†", theirs("10"), theirs(study.keras_training),
                            theirs(study.keras_testing), theirs(study.keras_accuracy)});
      table.rows.push_back({study.network, "PyTorch 2020†", theirs("10"), theirs(study.torch_training),
                            theirs(study.torch_testing), theirs(study.torch_accuracy)});
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace varve::bench
