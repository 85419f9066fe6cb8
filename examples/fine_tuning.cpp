// A network that knows some digits learns others: its features are loaded and frozen, only a new head is trained.
#include <varve/varve.h>

#include <filesystem>
#include <iostream>

namespace vv = varve;
namespace nn = vv::nn;

// The samples with these classes, their labels counted from 0.
vv::data::Dataset only(const vv::data::Dataset& digits, int from, int to) {
  vv::data::Batch all;
  vv::data::Loader(digits, {.batch = digits.size(), .shuffle = false}).next(all);
  const std::vector<std::int32_t> labels = all.y.to_vector<std::int32_t>();
  std::vector<std::int64_t> rows;
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (labels[i] >= from && labels[i] <= to) rows.push_back(static_cast<std::int64_t>(i));
  const vv::Tensor chosen = vv::tensor(rows);
  return vv::data::from_tensors(vv::gather(all.x, chosen), vv::gather(all.y, chosen) - from);
}

nn::Sequential network(std::int64_t classes) {
  nn::Sequential features =
      nn::sequential(nn::conv2d(12, {.kernel = 5, .activation = nn::relu}), nn::max_pool2d(2),
                     nn::conv2d(24, {.kernel = 5, .activation = nn::relu}), nn::max_pool2d(2), nn::flatten());
  nn::Sequential model;
  model.push(features, "features");
  model.push(nn::dense(classes), "head");
  model.build({28, 28, 1});
  return model;
}

int main() {
  const vv::data::Splits digits = vv::data::digits({.train = 4000, .test = 1000});
  const std::string file = (std::filesystem::temp_directory_path() / "varve-example-features.safetensors").string();

  // Six digits, learnt from the ground up.
  nn::Sequential old = network(6);
  vv::train::fit(old, only(digits.train, 0, 5), {.optimizer = vv::optim::adam(2e-3), .epochs = 3, .batch = 64});
  old.save(file);

  // The other four: what fits is loaded. The head has another shape, so it keeps its own values.
  nn::Sequential model = network(4);
  const nn::Loaded loaded = model.load(file, {.partial = true});
  for (const std::string& name : loaded.missing) std::cout << "starts anew: " << name << '\n';
  model.freeze("features.*");
  std::cout << model.parameters().size() << " tensors are trained\n";
  const std::vector<float> before = model.variable("features.0.weight").value().to_vector<float>();

  const vv::data::Dataset test = only(digits.test, 6, 9);
  vv::train::fit(model, only(digits.train, 6, 9).take(400),
                 {.optimizer = vv::optim::adam(5e-3), .epochs = 5, .batch = 50, .validation = test});
  const double accuracy = vv::train::evaluate(model, test).accuracy;
  std::cout << "accuracy on digits 6 to 9, from 400 samples: " << accuracy << '\n';

  std::filesystem::remove(file);
  const bool kept = model.variable("features.0.weight").value().to_vector<float>() == before;
  return accuracy > 0.85 && kept && model.parameters().size() == 2 && loaded.missing.size() == 2 ? 0 : 1;
}
