// A whole training on real data, as the studies run it: constant rate, no augmentation, no clipping, no smoothing.
#include <chrono>
#include <cmath>

#include "base/text.h"
#include "bench/machine_facts.h"
#include "bench/worker.h"
#include "varve/data.h"
#include "varve/io.h"
#include "varve/train.h"

namespace varve::bench {
namespace {

using nlohmann::ordered_json;

data::Dataset part_of(const Safetensors& file, const std::string& part) {
  const Tensor* x = file.find("x_" + part);
  const Tensor* y = file.find("y_" + part);
  if (!x || !y) throw Error(cat("data: expected x_", part, " and y_", part, "."));
  return data::from_tensors(*x, *y);
}

// All of it in one batch.
void add_part(Safetensors& file, const data::Dataset& set, const std::string& part) {
  data::Loader loader(set, {.batch = set.size(), .shuffle = false});
  data::Batch all;
  if (!loader.next(all)) throw Error(cat("data: no samples to ", part, "."));
  file.tensors.emplace_back("x_" + part, all.x);
  file.tensors.emplace_back("y_" + part, all.y);
}

struct Spent {
  double cpu = cpu_seconds(), joules = energy_joules();
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  double wall() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); }
};

}  // namespace

void save_data(const Workload& workload, const std::string& path) {
  const data::Splits splits = data::load(workload.protocol.data, workload.protocol.data_options);
  const auto [held_out, rest] = splits.train.split(workload.protocol.validation);
  Safetensors file;
  add_part(file, rest, "train");
  add_part(file, splits.validation.defined() ? splits.validation : held_out, "validation");
  add_part(file, splits.test, "test");
  save_safetensors(path, file);
}

ordered_json train_to_the_end(const Request& request) {
  synchronize(request.device);  // opens it: that is part of a process' start
  Network network = network_of(request);
  if (!request.weights.empty()) load_weights(network.model(), request.weights);
  const Safetensors file = load_safetensors(request.data);
  const data::Dataset train = part_of(file, "train"), validation = part_of(file, "validation"),
                      test = part_of(file, "test");
  const train::Loss loss = network.workload().targets == Targets::input ? train::reconstruction : train::cross_entropy;
  set_device(request.device);
  const double begin = clock_seconds();
  const Spent spent;
  const train::History history = train::fit(network.model(), train,
                                            {.loss = loss,
                                             .optimizer = network.optimizer(),
                                             .epochs = request.epochs,
                                             .batch = request.batch,
                                             .validation = validation,
                                             .seed = request.seed,
                                             .precision = parse_precision(request.precision),
                                             .verbosity = train::Verbosity::quiet});
  wait_for(request);
  const double end = clock_seconds();
  const double seconds = spent.wall(), cpu = cpu_seconds() - spent.cpu;
  const double joules = spent.joules < 0 ? -1 : energy_joules() - spent.joules;
  const train::Score score = train::evaluate(
      network.model(), test, {.loss = loss, .batch = request.batch, .precision = parse_precision(request.precision)});

  ordered_json epochs = ordered_json::array(), to_target = nullptr, seconds_to_target = nullptr;
  double elapsed = 0;
  for (const train::Epoch& epoch : history.epochs) {
    elapsed += epoch.seconds;
    const double accuracy = epoch.value("val_accuracy");
    epochs.push_back({{"epoch", epoch.epoch},
                      {"seconds", epoch.seconds},
                      {"loss", epoch.value("loss")},
                      {"val_accuracy", std::isfinite(accuracy) ? ordered_json(accuracy) : ordered_json(nullptr)}});
    if (to_target.is_null() && request.target > 0 && accuracy >= request.target)
      to_target = epoch.epoch, seconds_to_target = elapsed;
  }
  return {{"epochs", epochs},
          {"train_seconds", seconds},
          {"test_seconds", score.seconds},
          {"test_accuracy", std::isfinite(score.accuracy) ? ordered_json(score.accuracy) : ordered_json(nullptr)},
          {"test_loss", score.loss},
          {"seconds_to_target", seconds_to_target},
          {"epochs_to_target", to_target},
          {"cpu_seconds", cpu},
          {"wall_seconds", seconds},
          {"timed", {begin, end}},
          {"energy_joules", joules < 0 ? ordered_json(nullptr) : ordered_json(joules)},
          {"parameters", network.parameters()}};
}

}  // namespace varve::bench
