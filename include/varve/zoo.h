// Networks with names.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "varve/nn.h"

namespace varve::zoo {

struct Entry {
  std::string name;   // "resnet50"
  std::string doc;    // what it is, and from which paper
  Shape input;        // of a sample
  DType dtype = f32;  // i32: token ids
  std::int64_t classes = 1000;
  std::int64_t parameters = 0;          // as published, exactly as our network must have them at these sizes
  Shape smallest = {};                  // an input that still works, for quick tests; empty: `input`
  std::string train = {};               // the [train] table for it, as TOML; "" when it is only a network
  std::vector<std::string> sizes = {};  // options beside "classes" that make() understands: "width", "vocabulary"…
  std::function<nn::Layer(const std::map<std::string, double>& sizes)> make;
};

const std::vector<Entry>& entries();
const Entry& find(const std::string& name);  // Error with the nearest name
// Not built. Unknown sizes: Error with the nearest known one.
nn::Layer make(const std::string& name, const std::map<std::string, double>& sizes = {});

// One step of contrastive divergence (CD-1; Hinton 2002) for a built "rbm" and a batch x of probabilities: the gradient
// of each of rbm.parameters(), to be given to an optimiser. The hidden units are drawn by `random`, whose counter must
// advance from batch to batch.
std::vector<Tensor> contrastive_divergence(const nn::Module& rbm, const Tensor& x, const RandomOptions& random = {});

}  // namespace varve::zoo
