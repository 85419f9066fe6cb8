#include "bench/workloads.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/text.h"

namespace varve::bench {
namespace {

using Numbers = std::vector<std::pair<std::string, double>>;

OptimizerChoice sgd(double rate) { return {"sgd", Numbers{{"rate", rate}}}; }
OptimizerChoice adam(double rate) { return {"adam", Numbers{{"rate", rate}}}; }

Workload two_convolutions(const std::string& name, const Shape& input, const Protocol& protocol) {
  return {.name = name,
          .study = "shatnawi2018",
          .zoo = name,
          .network = {.family = "cnn", .channels = {32, 64}, .kernel = 5, .dense = 512},
          .input = input,
          .dropout = 0.25,
          .optimizer = adam(1e-3),
          .batch = 128,
          .gpu_batches = {128},
          .protocol = protocol};
}

Workload fnn_mnist() {
  return {.name = "fnn-mnist",
          .study = "kabakus2020",
          .zoo = "fnn-mnist",
          .network = {.family = "mlp", .hidden = {512, 512}},
          .input = {28, 28, 1},
          .optimizer = adam(1e-3),
          .batch = 80,
          .gpu_batches = {80},
          .protocol = {.data = "mnist", .epochs = 20, .target = 0.97}};
}

Workload vgg16_cifar() {
  return {
      .name = "vgg16-cifar",
      .study = "kabakus2020",
      .zoo = "vgg16-cifar",
      .network = {.family = "vgg", .hidden = {512, 512}, .blocks = {{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}},
      .input = {32, 32, 3},
      .optimizer = adam(1e-4),
      .checked_rate = 1e-5,  // Adam's first steps are signs: at 1e-4 rounding alone moves the fifth loss by 7e-3
      .batch = 80,
      .gpu_batches = {80},
      .protocol = {.data = "cifar10", .epochs = 20, .target = 0.70}};
}

Workload lstm_imdb() {
  return {.name = "lstm-imdb",
          .study = "kabakus2020",
          .zoo = "lstm-imdb",
          .network = {.family = "classifier", .embedded = 32, .width = 100},
          .input = {500},
          .dtype = i32,
          .vocabulary = 5000,
          .classes = 2,
          .optimizer = adam(1e-2),
          .batch = 500,
          .gpu_batches = {500},
          .protocol = {.data = "imdb", .epochs = 10, .target = 0.85}};
}

Workload fcn(const std::string& name, std::size_t hidden) {
  return {.name = name,
          .study = "shi2016",
          .zoo = name,
          .network = {.family = "mlp", .hidden = std::vector<std::int64_t>(hidden, 2048), .activation = "sigmoid"},
          .input = {26752},
          .classes = 26752,
          .optimizer = sgd(0.01),
          .batch = 64,
          .gpu_batches = {32, 64, 128, 256, 512, 1024, 2048, 4096}};
}

Workload pictures(const std::string& name, const Architecture& network, const std::vector<std::int64_t>& gpu_batches) {
  return {.name = name,
          .study = "shi2016",
          .zoo = name,
          .network = network,
          .input = {224, 224, 3},
          .classes = 1000,
          .optimizer = sgd(1e-4),  // at 0.01 AlexNet's fifth loss on noise is past 1e36: nothing to agree on
          .batch = 16,
          .gpu_batches = gpu_batches};
}

Workload unrolled(const std::string& name, std::int64_t steps) {
  return {.name = name,
          .study = "shi2016",
          .zoo = name,
          .network = {.family = "lm", .embedded = 256, .width = 256, .depth = 2},
          .input = {steps},
          .dtype = i32,
          .vocabulary = 10000,
          .classes = 10000,
          .targets = Targets::tokens,
          .optimizer = sgd(0.01),
          .batch = 128,
          .gpu_batches = {64, 128, 256}};
}

// The word models, measured from a zero state: what is carried from batch to batch does not change a step's work.
struct Words {
  std::int64_t width, depth, steps;
  double dropout;
};
Workload ptb(const std::string& name, const Words& words) {
  OptimizerChoice clipped = sgd(1);
  clipped.clip_norm = 0.25;
  return {.name = name,
          .study = "kabakus2020",
          .zoo = name,
          .sizes = {{"stateful", 0}},
          .network = {.family = "lm", .embedded = words.width, .width = words.width, .depth = words.depth},
          .input = {words.steps},
          .dtype = i32,
          .vocabulary = 10000,
          .classes = 10000,
          .targets = Targets::tokens,
          .dropout = words.dropout,
          .optimizer = clipped,
          .batch = 20,
          .gpu_batches = {20}};
}

Workload autoencoder() {
  return {.name = "autoencoder-mnist",
          .study = "shatnawi2018",
          .zoo = "autoencoder-mnist",
          .network = {.family = "autoencoder", .hidden = {400, 200, 100, 200, 400}},
          .input = {28, 28, 1},
          .classes = 784,
          .targets = Targets::input,
          .optimizer = adam(1e-3),
          .batch = 128,
          .gpu_batches = {128}};
}

struct Scaling {
  std::int64_t depth = 2, width = 256;
  bool tanh = false;
};
Workload fcn_scaling(const std::string& name, const Scaling& size) {
  return {.name = name,
          .study = "shatnawi2018",
          .zoo = "fcn-scaling",
          .sizes = {{"depth", static_cast<double>(size.depth)},
                    {"width", static_cast<double>(size.width)},
                    {"tanh", size.tanh ? 1.0 : 0.0}},
          .network = {.family = "mlp",
                      .hidden = std::vector<std::int64_t>(static_cast<std::size_t>(size.depth), size.width),
                      .activation = size.tanh ? "tanh" : "relu"},
          .input = {28, 28, 1},
          .optimizer = sgd(0.1),
          .batch = 64,
          .gpu_batches = {64},
          .protocol = {.data = "mnist", .validation = 0.1, .epochs = 10, .target = 0.97}};
}

Workload gpt_small() {
  return {.name = "gpt-small",
          .study = "varve",
          .zoo = "gpt-small",
          .network = {.family = "gpt", .width = 512, .depth = 6, .heads = 8, .context = 256},
          .input = {256},
          .dtype = i32,
          .vocabulary = 10000,
          .classes = 10000,
          .targets = Targets::tokens,
          .optimizer = {"adamw", Numbers{{"rate", 3e-4}, {"weight_decay", 0.1}}},
          .batch = 16,
          .gpu_batches = {16}};
}

std::vector<Workload> table() {
  return {two_convolutions("cnn-mnist", {28, 28, 1}, {.data = "mnist", .epochs = 5, .target = 0.99}),
          two_convolutions("cnn-cifar", {32, 32, 3}, {.data = "cifar10", .epochs = 10, .target = 0.70}),
          fnn_mnist(),
          vgg16_cifar(),
          lstm_imdb(),
          fcn("fcn5", 3),
          fcn("fcn8", 6),
          pictures("alexnet", {.family = "alexnet"}, {16, 32, 64, 128}),
          pictures("resnet50", {.family = "resnet", .layers = {3, 4, 6, 3}}, {8, 16, 32, 64}),
          unrolled("lstm32", 32),
          unrolled("lstm64", 64),
          ptb("ptb-small", {200, 1, 20, 0.2}),
          ptb("ptb-medium", {600, 1, 40, 0.5}),
          ptb("ptb-large", {650, 2, 50, 0.5}),
          autoencoder(),
          fcn_scaling("fcn-scaling", {}),
          gpt_small()};
}

// By itself: no program computes it, so that what compares programs leaves it out.
const Workload& tree_lstm() {
  static const Workload workload{.name = "tree-lstm",
                                 .study = "varve",
                                 .network = {.family = "tree", .embedded = 32, .width = 32},
                                 .input = {33},
                                 .dtype = i32,
                                 .vocabulary = 1000,
                                 .classes = 5,
                                 .optimizer = sgd(0.05),
                                 .batch = 32,
                                 .gpu_batches = {32}};
  return workload;
}

// fcn-scaling-<depth>x<width>[-tanh], made when asked for and kept: callers hold references.
const Workload* scaled(const std::string& name) {
  static const std::regex form("fcn-scaling-([1-9][0-9]?)x([1-9][0-9]{0,3})(-tanh)?");
  std::smatch parts;
  if (!std::regex_match(name, parts, form)) return nullptr;
  static std::mutex mutex;
  static std::deque<Workload> made;
  const std::lock_guard lock(mutex);
  for (const Workload& known : made)
    if (known.name == name) return &known;
  made.push_back(fcn_scaling(name, {std::stoll(parts[1]), std::stoll(parts[2]), parts[3].matched}));
  return &made.back();
}

nlohmann::ordered_json family_json(const Workload& w) {
  const Architecture& a = w.network;
  nlohmann::ordered_json json{{"family", a.family}};
  if (a.family == "mlp") json.update({{"hidden", a.hidden}, {"activation", a.activation}});
  if (a.family == "cnn")
    json.update({{"channels", a.channels}, {"kernel", a.kernel}, {"padding", "valid"}, {"dense", a.dense}});
  if (a.family == "vgg") json.update({{"blocks", a.blocks}, {"dense", a.hidden}, {"batch_norm", a.batch_norm}});
  if (a.family == "resnet") json.update({{"layers", a.layers}});
  if (a.family == "lm")
    json.update({{"embedded", a.embedded}, {"width", a.width}, {"layers", a.depth}, {"stateful", a.stateful}});
  if (a.family == "classifier" || a.family == "tree") json.update({{"embedded", a.embedded}, {"width", a.width}});
  if (a.family == "gpt")
    json.update({{"width", a.width}, {"layers", a.depth}, {"heads", a.heads}, {"context", a.context}});
  if (a.family == "autoencoder") json.update({{"hidden", a.hidden}});
  return json;
}

}  // namespace

double OptimizerChoice::rate() const {
  for (const auto& [key, value] : numbers)
    if (key == "rate") return value;
  throw Error(cat("optimizer \"", name, "\" of a workload has no rate."));
}

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> all = table();
  return all;
}

std::vector<std::string> workload_names() {
  std::vector<std::string> names;
  for (const Workload& w : workloads()) names.push_back(w.name);
  return names;
}

const Workload& find_workload(const std::string& name) {
  for (const Workload& w : workloads())
    if (w.name == name) return w;
  if (name == tree_lstm().name) return tree_lstm();
  if (const Workload* made = scaled(name)) return *made;
  throw Error(cat("unknown workload '", name, "'.", did_you_mean(name, workload_names()),
                  " Known: ", quoted_list(workload_names()), ", tree-lstm and fcn-scaling-<depth>x<width>[-tanh]."));
}

nlohmann::ordered_json workload_json(const Workload& w) {
  nlohmann::ordered_json json{{"name", w.name}};
  json.update(family_json(w));
  json["zoo"] = w.zoo;
  json["sizes"] = w.sizes;
  json["input"] = std::vector<std::int64_t>(w.input.begin(), w.input.end());
  json["dtype"] = name(w.dtype);
  if (w.vocabulary > 0) json["vocabulary"] = w.vocabulary;
  json["classes"] = w.classes;
  json["targets"] = w.targets == Targets::classes ? "classes" : w.targets == Targets::tokens ? "tokens" : "input";
  nlohmann::ordered_json optimizer{{"name", w.optimizer.name}};
  for (const auto& [key, value] : w.optimizer.numbers) optimizer[key] = value;
  if (w.optimizer.clip_norm > 0) optimizer["clip_norm"] = w.optimizer.clip_norm;
  json["optimizer"] = optimizer;
  json["dropout_rate"] = w.dropout;
  return json;
}

}  // namespace varve::bench
