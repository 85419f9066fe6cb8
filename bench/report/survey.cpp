// The survey's tables: ratings of hardware, and the frameworks with their seven metrics.
#include <algorithm>
#include <set>

#include "base/text.h"
#include "bench/report/qualities.h"
#include "bench/report/runs.h"
#include "bench/workloads.h"
#include "page/numbers.h"

namespace varve::bench {
namespace {

std::vector<const Record*> of_machine(const Facts& facts, const std::string& machine, const std::string& kind) {
  return facts.where([&](const Record& r) { return r.ok() && r.kind == kind && machine_name(r) == machine; });
}

Cell most_operations(const Facts& facts, const std::string& machine) {
  const Record* best = nullptr;
  for (const Record* r : of_machine(facts, machine, "step"))
    if (r->flops > 0 && r->ms_median > 0 && (!best || r->flops / r->ms_median > best->flops / best->ms_median))
      best = r;
  if (!best) return absent("not measured");
  return {short_number(best->flops / best->ms_median / 1e6) + " GFLOP/s",
          best->workload + ", " + label(best->framework)};
}

Cell least_latency(const Facts& facts, const std::string& machine) {
  const Record* best = nullptr;
  for (const Record* r : of_machine(facts, machine, "infer"))
    if (r->batch == 1 && r->ms_median > 0 && (!best || r->ms_median < best->ms_median)) best = r;
  if (!best) return absent("not measured");
  return {short_number(best->ms_median) + " ms", best->workload + ", " + label(best->framework)};
}

Cell least_energy(const Facts& facts, const std::string& machine) {
  double best = 0;
  const Record* of = nullptr;
  for (const Record* r : of_machine(facts, machine, "train"))
    if (const auto joules = of_runs(runs_of(*r), &TrainingRun::joules); !joules.empty() && (!of || mean(joules) < best))
      best = mean(joules), of = r;
  if (!of) return absent("not measured");
  return {short_number(best) + " J", of->workload + ", " + label(of->framework)};
}

Cell compatibility(const Facts& facts, const std::string& machine) {
  std::set<std::string> ran;
  for (const Record& r : facts.all())
    if (r.ok() && machine_name(r) == machine) ran.insert(r.framework);
  if (ran.empty()) return absent("not measured");
  return {cat(ran.size(), ran.size() == 1 ? " framework ran" : " frameworks ran")};
}

// The best gain of any workload and framework from its fewest to its most threads.
Cell thread_gain(const Facts& facts, const std::string& machine) {
  double best = 0;
  Cell cell = absent("not measured");
  for (const Record* few : of_machine(facts, machine, "step"))
    for (const Record* many : of_machine(facts, machine, "step")) {
      if (few->threads != 1 || many->threads < 2 || few->workload != many->workload || few->batch != many->batch ||
          few->framework != many->framework || few->precision != many->precision || few->device != many->device)
        continue;
      const double gain = few->ms_median / many->ms_median;
      if (gain > best)
        best = gain,
        cell = {times(gain), cat(many->threads, " threads, ", many->workload, ", ", label(many->framework))};
    }
  return cell;
}

}  // namespace

const std::vector<HardwareMetric>& hardware_metrics() {
  static const std::vector<HardwareMetric> all = {{"Computing performance", "high", "low", "moderate", most_operations},
                                                  {"Low latency", "high", "moderate", "low", least_latency},
                                                  {"Energy efficiency", "high", "moderate", "good", least_energy},
                                                  {"Compatibility", "low", "moderate", "high", compatibility},
                                                  {"Die size", "high", "moderate", "low", nullptr},
                                                  {"Research costs", "high", "moderate", "low", nullptr},
                                                  {"Research risks", "high", "low", "moderate", nullptr},
                                                  {"Upgradability", "low", "moderate", "high", nullptr},
                                                  {"Scalability", "high", "low", "moderate", thread_gain},
                                                  {"Chip price", "low", "high", "moderate", nullptr},
                                                  {"Ubicomp", "low", "high", "high", nullptr},
                                                  {"Time-to-market", "low", "high", "high", nullptr}};
  return all;
}

const std::vector<FrameworkRow>& surveyed_frameworks() {
  static const std::vector<FrameworkRow> all = {
      {"BigDL", "Apache 2.0", "Scala", "Scala", "CPU, GPU", "multi-server", "VGG, Inception, ResNet, GoogLeNet",
       "ImageNet, CIFAR-10"},
      {"Caffe/Caffe2", "BSD", "C++", "Python, C++, MATLAB", "CPU, GPU, FPGA, mobile", "multi-server", "LeNet, RNN",
       "CIFAR-10, MNIST, ImageNet"},
      {"Chainer", "MIT", "Python", "Python", "CPU, GPU", "multi-server", "RNN", "CIFAR-10, ImageNet"},
      {"DeepLearning4j", "Apache 2.0", "Java", "Java, Scala, Clojure, Python, Kotlin", "CPU, GPU", "multi-server",
       "AlexNet, LeNet, Inception, ResNet, RNN, LSTM, VGG, Xception", "ImageNet"},
      {"DyNet", "Apache 2.0", "C++", "C++, Python", "CPU, GPU", "single node", "RNN, LSTM", "ImageNet"},
      {"FastAI", "Apache 2.0", "Python", "Python", "CPU, GPU", "multi-server", "ResNet", "CIFAR-10, ImageNet"},
      {"Keras", "MIT", "Python", "Python, R", "CPU, GPU", "multi-server", "CNN, RNN", "CIFAR-10, MNIST"},
      {"Microsoft CNTK", "MIT", "C++", "C++, C#, Python, Java", "CPU, GPU", "multi-server", "CNN, RNN, LSTM",
       "CIFAR-10, MNIST, ImageNet, P-VOC"},
      {"MXNet", "Apache 2.0", "C++", "C++, Python, Clojure, Julia, Perl, R, Scala, Java, JavaScript, MATLAB",
       "CPU, GPU, mobile", "multi-server", "CNN, RNN, Inception", "CIFAR-10, MNIST, ImageNet, P-VOC"},
      {"Neon", "Apache 2.0", "Python", "Python", "CPU, GPU", "multi-server", "AlexNet, ResNet, LSTM",
       "CIFAR-10, MNIST, ImageNet"},
      {"PaddlePaddle", "Apache 2.0", "Python", "Python", "CPU, GPU, mobile", "multi-server", "AlexNet, GoogLeNet, LSTM",
       "CIFAR-10, ImageNet"},
      {"PlaidML", "Apache 2.0", "C++", "Python, C++", "CPU, GPU", "multi-server",
       "Inception, ResNet, VGG, Xception, MobileNet, DenseNet, ShuffleNet, LSTM", "CIFAR-10, ImageNet"},
      {"PyTorch", "BSD", "Python", "Python", "CPU, GPU", "multi-server",
       "AlexNet, Inception, ResNet, VGG, DenseNet, SqueezeNet", "CIFAR-10, ImageNet"},
      {"SINGA", "Apache 2.0", "C++", "Python", "CPU, GPU", "multi-server",
       "RNN, AlexNet, DenseNet, GoogLeNet, Inception, ResNet, VGG", "MNIST, ImageNet"},
      {"TensorFlow", "Apache 2.0", "C++", "Python, C++, Java, Go, JavaScript, R, Julia, Swift", "CPU, GPU, TPU, mobile",
       "multi-server", "AlexNet, Inception, ResNet, VGG, LeNet, MobileNet", "CIFAR-10, MNIST, ImageNet"},
      {"Theano", "BSD", "Python", "Python (Keras)", "CPU, GPU", "multi-server", "AlexNet, VGG, GoogLeNet",
       "CIFAR-10, ImageNet"}};
  return all;
}

FrameworkRow varve_row(const Facts& facts) {
  FrameworkRow row{"Varve", "MIT", "C++20", "C++, command line, network files (TOML)", "", "", "", ""};
  std::set<std::string> seen, data, devices;
  int ranks = 0;
  const auto add = [](std::string& list, const std::string& word) { list += (list.empty() ? "" : ", ") + word; };
  for (const Record& r : facts.all()) {
    if (r.framework != "varve" || !r.ok()) continue;
    ranks = std::max(ranks, r.ranks);
    if (devices.insert(r.device).second)
      add(row.hardware, r.device == "cpu" ? "CPU" : r.device == "cuda" ? "GPU" : r.device);
    if (seen.insert(r.workload).second) add(row.networks, r.workload);
    if (r.kind != "train" || workload_place(r.workload) >= workload_names().size()) continue;
    if (const std::string& set = find_workload(r.workload).protocol.data; !set.empty() && data.insert(set).second)
      add(row.data, set);
  }
  row.servers = ranks > 1 ? cat(ranks, " ranks") : ranks == 1 ? "single node" : "";
  return row;
}

}  // namespace varve::bench
