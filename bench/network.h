// A workload as Varve runs it: the zoo's network, its optimiser, synthetic batches, and the programs that are timed.
#pragma once

#include <string>
#include <vector>

#include "bench/workloads.h"
#include "varve/compile.h"
#include "varve/nn.h"
#include "varve/optim.h"
#include "varve/precision.h"

namespace varve::bench {

struct Sample {
  Tensor x, y;  // y is x where the target is the input
};
// Normal numbers, or ids and classes drawn evenly; computed already.
Sample synthetic_batch(const Workload& workload, std::int64_t batch, std::int64_t seed);

// The parameters as all frameworks are given them: "000:fc1.weight", in the order of Module::parameters().
struct NamedParameter {
  std::string key = {};
  Variable variable;
};
std::vector<NamedParameter> ordered_parameters(const nn::Module& model);
void save_weights(const nn::Module& model, const std::string& path);
void load_weights(nn::Module& model, const std::string& path);  // Error unless keys and shapes are the model's

struct NetworkOptions {
  ProductType precision = f32;
  bool dropout = true;  // false: samples pass it unchanged, in training too
  std::int64_t seed = 0;
  double rate = 0;  // in place of the workload's; 0: that
  std::string device = "cpu";
  std::string compress = "none";  // what gradients become between ranks
  bool sync_batch_norm = false;   // by the statistics of all ranks
};

class Network {
 public:
  Network(const Workload& workload, const NetworkOptions& options);
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  const Workload& workload() const { return workload_; }
  nn::Module& model() { return *model_; }
  std::int64_t parameters() const;  // trainable ones
  optim::Optimizer optimizer() const;

  Tensor loss(const Tensor& x, const Tensor& y);  // recorded
  // A training step, and a prediction: programs, but for networks whose graph differs from sample to sample.
  std::function<Tensor(const Tensor& x, const Tensor& y)> stepper();
  std::function<Tensor(const Tensor& x)> predictor();
  // Programs over the same variables.
  Compiled<Tensor, 2> step();  // forward, loss, gradient and update: the loss
  Compiled<Tensor, 1> prediction();
  Compiled<Tensor, 2> forward();                 // the loss in training mode
  Compiled<std::vector<Tensor>, 2> gradients();  // the loss, then a gradient for each parameter
  Compiled<void, 0> update(const std::vector<Tensor>& gradients);

 private:
  optim::Bound bound() const;
  Tensor train(optim::Bound& bound, const Tensor& x, const Tensor& y);
  CompileOptions named(const std::string& name) const {
    return {.device = options_.device, .name = name, .tf32 = options_.precision.tf32};
  }

  const Workload& workload_;
  NetworkOptions options_;
  nn::Layer model_;
};

}  // namespace varve::bench
