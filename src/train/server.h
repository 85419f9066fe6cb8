// A parameter server: rank 0 keeps the weights and the optimiser; the others send gradients, and go on with the weights
// that they get back.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "train/step.h"

namespace varve::train {

// What both sides exchange, in this order.
struct ServedModel {
  explicit ServedModel(const nn::Module& model);
  std::vector<Variable> weights;     // the server's are right
  std::vector<Variable> statistics;  // running means, counters: the workers' are
};

class ParameterServer {
 public:
  ParameterServer(const nn::Module& model, std::int64_t staleness) : model_(model), staleness_(staleness) {}

  struct Hooks {
    std::function<void()> before_update;
    // All workers have done another step; the mean loss of the samples since the last time. What the server would like.
    std::function<TrainStep::Wishes(double loss)> stepped;
  };
  // Until every worker has done its epoch, or somebody wished to end or to stop: then what all have been told.
  TrainStep::Wishes serve(TrainStep& step, std::int64_t first, const Hooks& hooks);
  std::int64_t most_ahead() const { return most_ahead_; }  // steps that a worker was before the slowest

 private:
  struct Epoch;
  ServedModel model_;
  std::int64_t staleness_, most_ahead_ = 0;
};

// A rank that computes gradients for it.
class ServerWorker {
 public:
  explicit ServerWorker(const nn::Module& model) : model_(model) {}

  struct Done {
    double loss = 0;
    std::int64_t samples = 0;  // 0: no gradient
    bool ends = false, stops = false;
  };
  // Sends the gradients of a step, and takes the newest weights as soon as the server lets this rank go on.
  TrainStep::Wishes exchange(TrainStep& step, const Done& done);
  TrainStep::Wishes finish(const Done& done);  // the epoch

 private:
  TrainStep::Wishes answer();
  ServedModel model_;
};

}  // namespace varve::train
