// A residual network for small pictures (He et al. 2016), made of blocks, with augmented data and a warm-up.
//
//   cifar_resnet         a few hundred pictures and a narrow network, seconds
//   cifar_resnet full    ResNet-20 on all of CIFAR-10, sixty epochs
//
// CIFAR-10 is used where its files are on the machine (docs/data.md); otherwise digits that the library draws itself.
#include <varve/varve.h>

#include <iostream>
#include <string>

namespace vv = varve;
namespace nn = vv::nn;

nn::Sequential conv_norm(std::int64_t channels, nn::Pair kernel, nn::Pair stride, const nn::Activation& activation) {
  return nn::sequential(nn::conv2d(channels, {.kernel = kernel, .stride = stride, .bias = false}),
                        nn::batch_norm({.activation = activation}));
}

// relu(f(x) + x). Where the picture shrinks, x takes a convolution 1×1 of its own.
nn::Residual block(std::int64_t channels, nn::Pair stride) {
  nn::Sequential body = nn::sequential(conv_norm(channels, 3, stride, nn::relu), conv_norm(channels, 3, 1, nn::linear));
  nn::Layer shortcut = stride.height == 1 ? nullptr : nn::layer(conv_norm(channels, 1, stride, nn::linear));
  return nn::residual(body, shortcut, nn::relu);
}

nn::Sequential resnet(std::int64_t width, int blocks, std::int64_t classes) {
  nn::Sequential model = nn::sequential(conv_norm(width, 3, 1, nn::relu));
  for (int stage = 0; stage < 3; ++stage)
    for (int i = 0; i < blocks; ++i) model.push(block(width << stage, stage > 0 && i == 0 ? 2 : 1));
  model.push(nn::global_avg_pool2d());
  model.push(nn::dense(classes));
  return model;
}

int main(int argc, char** argv) {
  const bool full = argc > 1 && std::string(argv[1]) == "full";
  vv::data::Splits pictures = vv::data::present("cifar10") ? vv::data::cifar10() : vv::data::digits();
  if (!full) pictures = {.train = pictures.train.take(384), .validation = {}, .test = pictures.test.take(128)};

  // Pictures are shifted, flipped and cut into as they are read, anew in each epoch. Digits must not be mirrored.
  std::vector<vv::data::Transform> changes = {vv::data::random_crop(full ? 4 : 2)};
  if (pictures.train.info().name == "cifar10") changes.push_back(vv::data::random_flip());
  const vv::data::Transform normal = vv::data::normalize({0.47}, {0.25});
  changes.push_back(normal);
  const vv::data::Dataset train = pictures.train.map(changes), test = pictures.test.map({normal});

  nn::Sequential model = resnet(full ? 16 : 8, full ? 3 : 1, train.classes());
  model.build(train.x().shape);
  std::cout << train.info().name << ", " << train.size() << " pictures; " << model.parameter_count() << " parameters\n";

  const vv::train::History history =
      vv::train::fit(model, train,
                     {.optimizer = vv::optim::sgd(0.1, {.momentum = 0.9, .nesterov = true, .weight_decay = 5e-4}),
                      .schedule = vv::optim::cosine().after_warmup(1),
                      .epochs = full ? 60 : 4,
                      .batch = full ? 128 : 32,
                      .validation = test});
  const double first = history.epochs.front().value("loss"), last = history.epochs.back().value("loss");
  const double accuracy = vv::train::evaluate(model, test).accuracy;
  std::cout << "loss " << first << " to " << last << ", test accuracy " << accuracy << '\n';
  return (full ? accuracy > 0.88 : last < 0.9 * first) ? 0 : 1;
}
