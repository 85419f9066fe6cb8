// The programs that change a model's weights.
#pragma once

#include <optional>
#include <vector>

#include "train/evaluator.h"
#include "train/held_data.h"
#include "train/objective.h"
#include "train/shard_step.h"
#include "varve/compile.h"
#include "varve/train.h"

namespace varve::train {

// A training step: forward, loss, metrics, gradient and update in one program; or, when gradients are accumulated, one
// program that adds them up and one that applies them.
class TrainStep {
 public:
  struct Parts {
    nn::Module& model;
    Objective objective;
    optim::Bound optimizer;
    std::optional<optim::Average> average;
    std::int64_t accumulate = 1;
    ProductType precision = f32;
    bool check_layers = false;
    std::optional<HeldData> held = std::nullopt;
    bool sync_batch_norm = false;
    std::int64_t micro_batches = 1;
    std::int64_t shards = 0;
    data::Batch spare = {};        // with shards: one sample, the same on every rank
    bool alone = false;            // among ranks that step by themselves
    bool keeps_gradients = false;  // they are applied by somebody else: gradients(), apply()
    int sharers = 1;               // ranks that share a batch
  };
  explicit TrainStep(Parts parts);
  TrainStep(const TrainStep&) = delete;
  TrainStep& operator=(const TrainStep&) = delete;

  // Among ranks: this rank's part of a batch, and what it would like all of them to do after it.
  struct Share {
    std::int64_t samples = 1, of = 1;  // of the whole batch
    bool ends = false, stops = false;  // a signal came; a callback asked to stop
    bool saves = false;                // a checkpoint is due
  };
  void take_part(const Share& share);
  // Whether any rank wanted to, at the last step whose results are read here.
  struct Wishes {
    bool end = false, stop = false, save = false;
  };
  static Wishes wishes(const std::vector<Tensor>& measured);

  // The loss and the sums of the metrics; of held data, x are the numbers of samples. `apply`: this batch completes a
  // step (always, unless accumulating).
  std::vector<Tensor> operator()(const data::Batch& batch, bool apply);
  // What batches have left to be applied, and of how many it is.
  std::vector<Variable>& gradients() { return sums_; }
  void count_gradients();
  void forget_gradients();
  void apply() { apply_(); }
  std::int64_t peak_bytes(const data::Batch& batch);

 private:
  // `share`: what this rank's or shard's samples are of all.
  ShardStep::Computed computed(const data::Batch& batch, const Tensor& share);
  std::vector<Tensor> record(const data::Batch& batch);
  std::vector<Tensor> record_shard(const data::Batch& batch);
  std::vector<Tensor> record_whole();
  void make_shards();
  void update(const std::vector<Tensor>& gradients);
  void use(const std::vector<Tensor>& gradients);  // to update, or to accumulate them
  bool keeps_gradients() const { return parts_.accumulate > 1 || parts_.keeps_gradients; }
  struct Forward {
    nn::MaskedTensors outputs;
    Tensor loss;
    Tensor weight;  // what its rows count together; undefined: each counts 1
  };
  Forward forward(const data::Batch& batch) const;
  Forward forward_at_once(const data::Batch& batch) const;
  Tensor factor_of(const Forward& own, const Tensor& share) const;
  std::vector<Tensor> with_wishes(std::vector<Tensor> measured) const;
  std::vector<Tensor> measured_by_all(const ShardStep::Computed& own) const;

  Parts parts_;
  std::vector<Variable> sums_;  // of gradients
  Variable count_;              // of batches in them
  Share part_;
  std::optional<ShardStep> shards_;
  bool shares_ = false;  // each rank has its share of the batch
  Variable share_;       // weight of this rank's loss, whether its samples count, its wishes; undefined: one rank
  BatchProgram batch_;
  Compiled<void, 0> apply_;
  Compiled<std::vector<Tensor>, 0> whole_;  // what follows the last shard
};

}  // namespace varve::train
