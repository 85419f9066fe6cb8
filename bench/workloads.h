// The networks that are measured, each with its sizes, data and training, under the names that the studies' table uses.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "varve/dtype.h"
#include "varve/shape.h"

namespace varve::bench {

enum class Targets : std::uint8_t { classes, tokens, input };  // one for each sample, one for each token, the input

struct OptimizerChoice {
  std::string name = "sgd";
  std::vector<std::pair<std::string, double>> numbers = {};  // "rate", "weight_decay"
  double clip_norm = 0;                                      // 0: gradients are not clipped
  double rate() const;
};

// What a family of networks is made of. A family uses the numbers that its name needs and leaves the rest.
struct Architecture {
  std::string family = {};                  // mlp cnn alexnet vgg resnet lm classifier gpt autoencoder tree
  std::vector<std::int64_t> hidden = {};    // mlp, autoencoder; the head of vgg
  std::string activation = "relu";          // mlp
  std::vector<std::int64_t> channels = {};  // cnn
  std::int64_t kernel = 0;                  // cnn
  std::int64_t dense = 0;                   // cnn
  std::vector<std::pair<std::int64_t, std::int64_t>> blocks = {};           // vgg: channels, convolutions
  bool batch_norm = false;                                                  // vgg
  std::vector<std::int64_t> layers = {};                                    // resnet: blocks in each stage
  std::int64_t embedded = 0, width = 0, depth = 0, heads = 0, context = 0;  // lm, classifier, gpt
  bool stateful = false;                                                    // lm
};

// How the study trains it on real data.
struct Protocol {
  std::string data = {};                            // as data::load names sets; "": synthetic only
  std::map<std::string, double> data_options = {};  // of the set
  double validation = 0.2;                          // share of the training data
  int epochs = 0;                                   // 0: the network is not trained to an accuracy
  double target = 0;                                // accuracy whose time is reported; 0: none
};

struct Workload {
  std::string name = {}, study = {};         // "shi2016"
  std::string zoo = {};                      // the network in Varve's zoo
  std::map<std::string, double> sizes = {};  // of the zoo's network
  Architecture network = {};
  Shape input = {};  // of a sample
  DType dtype = f32;
  std::int64_t vocabulary = 0;  // token inputs: ids below this
  std::int64_t classes = 10;
  Targets targets = Targets::classes;
  double dropout = 0;
  OptimizerChoice optimizer = {};
  double checked_rate = 0;  // of the steps whose losses are compared, where rounding would outgrow them; 0: the same
  std::int64_t batch = 64;  // on a CPU
  bool differs() const { return network.family == "tree"; }  // its graph, from sample to sample: it is not compiled
  std::vector<std::int64_t> gpu_batches = {};                // as the study sweeps them
  Protocol protocol = {};
};

const std::vector<Workload>& workloads();
// A name of the list, "tree-lstm", or of a size that fcn-scaling covers: "fcn-scaling-4x1024-tanh". Error with the
// nearest name.
const Workload& find_workload(const std::string& name);
std::vector<std::string> workload_names();

// The workload as workers of other frameworks read it.
nlohmann::ordered_json workload_json(const Workload& workload);

}  // namespace varve::bench
