// The data of a run: loaded to fit the network, split, augmented and normalised.
#include <algorithm>
#include <cmath>

#include "train/model_card.h"
#include "varve/io.h"
#include "varve/train/run.h"

namespace varve::train {
namespace {

// What the configuration leaves open is what the network takes: pictures of its size, sequences of its length, as many
// streams of text as a batch has rows, and numbers for a loss of numbers.
std::map<std::string, double> fitted_options(const Config& config) {
  std::map<std::string, double> options = config.data_options;
  const std::vector<std::string> known = data::options_of(config.data);
  const auto standard = [&](const std::string& name, std::int64_t value) {
    if (std::find(known.begin(), known.end(), name) != known.end())
      options.try_emplace(name, static_cast<double>(value));
  };
  if (network_inputs(config).size() > 1) return options;
  if (config.loss == "mse" || config.loss == "mae" || config.loss == "huber") standard("classes", 0);
  if (config.loss == "detection") standard("task", static_cast<std::int64_t>(data::VocTask::detection));
  const TensorType input = network_input(config);
  standard("streams", config.batch);
  if (input.dtype == i32 && input.shape.rank() == 1) {
    standard("steps", input.shape[0]);
    standard("length", input.shape[0]);
  }
  if (input.dtype == f32 && input.shape.rank() > 0) standard("frames", input.shape[0]);
  if (input.dtype == f32) standard("mels", input.shape.rank() > 1 ? input.shape[1] : 0);
  if (input.shape.rank() == 2) standard("picture", 0);
  if (input.shape.rank() == 3) {
    standard("height", input.shape[0]);
    standard("width", input.shape[1]);
    standard("channels", input.shape[2]);
  }
  return options;
}

bool has_pictures(const data::Dataset& dataset) {
  return std::any_of(dataset.inputs().begin(), dataset.inputs().end(),
                     [](const Field& input) { return input.type.shape.rank() == 3; });
}

// Done to every picture of a sample.
data::Dataset mapped(data::Dataset dataset, const std::vector<data::Transform>& transforms) {
  if (transforms.empty()) return dataset;
  if (dataset.inputs().size() == 1) return dataset.map(transforms);
  for (const Field& input : dataset.inputs())
    if (input.type.shape.rank() == 3) dataset = dataset.map(transforms, input.name);
  return dataset;
}

std::vector<data::Transform> augmentation(const Config& config, const data::Dataset& dataset) {
  if (!config.augment.empty() && !has_pictures(dataset))
    throw Error("augment changes images, and " + config.data + " has none.");
  std::vector<data::Transform> transforms;
  for (const Named& named : config.augment) transforms.push_back(data::transform_by_name(named.name, named.options));
  return transforms;
}

}  // namespace

std::vector<data::Transform> normalization(const Config& config, const TensorType& x) {
  if (config.mean.empty() && config.deviation.empty()) return {};
  if (x.shape.rank() != 3) throw Error("mean and deviation are of images, and " + config.data + " has none.");
  const std::size_t count = std::max(config.mean.size(), config.deviation.size());
  const std::vector<double> mean = config.mean.empty() ? std::vector<double>(count, 0) : config.mean;
  const std::vector<double> deviation = config.deviation.empty() ? std::vector<double>(count, 1) : config.deviation;
  return {data::normalize(mean, deviation)};
}

data::Splits load_data(const Config& config, const data::FetchOptions& fetch, const data::Info& like,
                       const data::Splits& samples) {
  if (config.data.empty() && !samples.train.defined())
    throw Error(config.name +
                " comes without data of its own: name some, such as data=cifar10. `varve datasets` lists "
                "what there is.");
  data::Splits splits =
      samples.train.defined() ? samples : data::load(config.data, fitted_options(config), fetch, like);
  if (!splits.validation.defined() && config.validation > 0 && splits.train.streams() == 0)
    std::tie(splits.validation, splits.train) = splits.train.split(config.validation, config.seed);
  std::vector<data::Transform> normal;
  for (const Field& input : splits.train.inputs())
    if (normal.empty() && (splits.train.inputs().size() == 1 || input.type.shape.rank() == 3))
      normal = normalization(config, input.type);
  std::vector<data::Transform> training = augmentation(config, splits.train);
  training.insert(training.end(), normal.begin(), normal.end());
  splits.train = mapped(splits.train, training);
  for (data::Dataset* part : {&splits.validation, &splits.test})
    if (part->defined()) *part = mapped(*part, normal);
  return splits;
}

TrainedWith trained_with(const std::string& weights) {
  const std::map<std::string, std::string> metadata = load_safetensors_metadata(weights);
  const auto data = metadata.find("data"), text = metadata.find(kCardKey);
  TrainedWith trained{.data = data == metadata.end() ? "" : data->second, .info = {.name = ""}, .input = {}};
  if (text == metadata.end()) return trained;
  const ModelCard card = parse_card(text->second, weights);
  trained.info = card.info();
  trained.input = card.input;
  return trained;
}

data::Dataset test_data(const Config& config, const TrainedWith& trained, const data::FetchOptions& fetch) {
  Config whole = config;
  const bool other = !trained.data.empty() && config.data != trained.data;
  const std::vector<std::string> known = data::options_of(config.data);
  const auto standard = [&](const std::string& name, std::int64_t value) {
    if (std::find(known.begin(), known.end(), name) != known.end())
      whole.data_options.try_emplace(name, static_cast<double>(value));
  };
  if (other) {
    standard("test_share", 0);
    whole.validation = 0;
    whole.augment.clear();
  }
  if (trained.input.rank() == 3) {
    standard("height", trained.input[0]);
    standard("width", trained.input[1]);
    standard("channels", trained.input[2]);
  }
  const data::Splits splits = load_data(whole, fetch, trained.info);
  return splits.test.defined() || !other ? splits.test : splits.train;
}

}  // namespace varve::train
