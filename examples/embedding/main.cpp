// A program that has a trained network inside. It knows Varve by find_package alone.
//
//   cmake -S examples/embedding -B build-embedding -DCMAKE_PREFIX_PATH=~/varve && cmake --build build-embedding
//   varve train examples/networks/lenet.toml
//   varve export runs/lenet-1 lenet.safetensors
//   build-embedding/embedding examples/networks/lenet.toml lenet.safetensors seven.png
//
// Without a picture it scores itself on digits that the library draws, and its exit code says whether it knows them.
#include <varve/varve.h>

#include <iostream>

namespace vv = varve;

// A picture as the network takes it: f32 [1, H, W, C] in 0…1.
vv::Tensor load_input(const std::string& path, const vv::Shape& sample) {
  const vv::Picture read = vv::load_picture(path, static_cast<int>(sample[2]));
  const vv::Picture picture = vv::resize(read, sample[0], sample[1]);
  return vv::tensor(picture.pixels, {1, sample[0], sample[1], sample[2]}).to(vv::f32) / 255;
}

int main(int argc, char** argv) try {
  if (argc < 3) {
    std::cerr << "usage: embedding NETWORK.toml WEIGHTS.safetensors [PICTURE…]\n";
    return 2;
  }
  vv::nn::TextNetwork text = vv::nn::load_network(argv[1]);
  text.network.build(text.input);
  text.network.load(argv[2]);

  // One program for all pictures: the network is traced once, and its weights are read where they lie.
  auto ask = vv::compile([&](vv::Tensor x) { return vv::softmax(text.network(x)); });
  for (int i = 3; i < argc; ++i) {
    const vv::Tensor probabilities = ask(load_input(argv[i], text.input));
    std::cout << argv[i] << ": " << vv::argmax(probabilities).to_vector<std::int64_t>()[0] << " ("
              << vv::max(probabilities).item<float>() << ")\n";
  }
  if (argc > 3) return 0;

  const vv::data::Dataset digits = vv::data::digits({.train = 1, .test = 500}).test;
  const double accuracy = vv::train::evaluate(text.network, digits).accuracy;
  std::cout << "accuracy " << accuracy << " on " << digits.size() << " digits\n";
  return accuracy > 0.7 ? 0 : 1;
} catch (const vv::Error& e) {
  std::cerr << "error: " << e.what() << '\n';
  return 2;
}
