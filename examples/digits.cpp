// Handwritten digits by a small convolutional network: from layers to a trained model in one call.
//
//   digits         a few thousand samples, seconds
//   digits full    all of them
//
// MNIST is used where its files are on the machine (docs/data.md); otherwise digits that the library draws itself.
#include <varve/varve.h>

#include <filesystem>
#include <iostream>
#include <string>

namespace vv = varve;
namespace nn = vv::nn;

nn::Sequential network() {
  auto model = nn::sequential(nn::conv2d(16, {.kernel = 5, .activation = nn::relu}), nn::max_pool2d(2),
                              nn::conv2d(32, {.kernel = 5, .activation = nn::relu}), nn::max_pool2d(2), nn::flatten(),
                              nn::dropout(0.25), nn::dense(10));
  model.build({28, 28, 1});
  return model;
}

int main(int argc, char** argv) {
  const bool full = argc > 1 && std::string(argv[1]) == "full";
  vv::data::Splits digits = vv::data::present("mnist") ? vv::data::mnist() : vv::data::digits();
  if (!full) digits = {.train = digits.train.take(3000), .validation = {}, .test = digits.test.take(1000)};
  std::cout << digits.train.info().name << ": " << digits.train.size() << " samples\n";

  nn::Sequential model = network();
  model.summary();

  const vv::train::History history = vv::train::fit(model, digits.train,
                                                    {.optimizer = vv::optim::adam(2e-3),
                                                     .schedule = vv::optim::cosine(),
                                                     .epochs = full ? 10 : 4,
                                                     .batch = 64,
                                                     .validation_share = 0.1});
  const vv::train::Score score = vv::train::evaluate(model, digits.test);
  std::cout << "test accuracy " << score.accuracy << " after " << history.seconds << " s\n";

  // What the network makes of one digit: ten numbers, the largest of which is its answer.
  const auto [image, label] = digits.test.at(0);
  const vv::Tensor scores = vv::train::predict(model, vv::expand_dims(image, 0));
  std::cout << "the first test digit is a " << label.item<int>() << ", taken for a "
            << vv::argmax(scores).to_vector<std::int64_t>()[0] << '\n';

  // Weights alone go into the file: the network that loads them is made by the same code.
  const std::string file = (std::filesystem::temp_directory_path() / "varve-example-digits.safetensors").string();
  model.save(file);
  nn::Sequential copy = network();
  copy.load(file);
  std::filesystem::remove(file);
  const bool same = vv::all(vv::train::predict(copy, vv::expand_dims(image, 0)) == scores).item<bool>();
  return same && score.accuracy > (full ? 0.98 : 0.85) ? 0 : 1;
}
