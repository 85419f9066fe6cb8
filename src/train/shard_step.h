// A training step in shards: the same program for each of them, their sums, and what is made of those. It is the same
// step, bit for bit, by any number of ranks that divides the shards.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "train/shard_sums.h"
#include "varve/data.h"
#include "varve/nn.h"

namespace varve::train {

class ShardStep {
 public:
  struct Computed {
    std::vector<Tensor> gradients;  // of the parameters
    std::vector<Tensor> measured;   // the loss, then each metric's sums
    Tensor factor = {};             // what they were multiplied with: of a shard, what its rows count
  };
  // `forward` gives what is measured of a batch in training. It is called once, for types: nothing is computed.
  ShardStep(std::int64_t shards, const nn::Module& model, const std::vector<Variable>& parameters,
            const std::function<std::vector<Tensor>()>& forward);

  // In the program of a shard. `compute` is given the number of the shard's samples, 0 where it has none, by which it
  // weighs its loss.
  void record(const std::function<Computed(const Tensor& samples)>& compute);
  // In the program after the last shard: the whole batch's means of loss and gradients, sums of metrics, and of the
  // ranks' flags. What layers remember of a batch is assigned.
  Computed whole();

  struct Share {
    std::int64_t samples;      // of the whole batch
    std::vector<float> flags;  // three
  };
  // Runs the shards' program on this rank's shards of a batch, and adds those of all ranks. A shard without samples
  // takes `spare`, one sample that is the same on every rank and counts nothing.
  void run(const data::Batch& own, const data::Batch& spare, const Share& share,
           const std::function<void(const data::Batch& shard)>& program);

  data::Batch largest(const data::Batch& own) const;  // of this rank's shards of a batch
  ShardSums& sums() { return *sums_; }

 private:
  void find_remembered(const nn::Module& model, const std::vector<Variable>& parameters,
                       const std::function<std::vector<Tensor>()>& forward);

  std::int64_t shards_;
  // What layers assign in training: averages are combined by samples; whole numbers count calls, and are what any one
  // shard makes of them.
  std::vector<Variable> averages_, counters_, counted_;
  std::size_t parameters_ = 0;
  std::vector<TensorType> measured_;
  Variable number_, samples_, flags_;  // of the shard that is computed
  std::unique_ptr<ShardSums> sums_;    // gradients, averages, samples, what is measured, flags
};

}  // namespace varve::train
