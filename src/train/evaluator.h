// The programs that run a model without changing its weights.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "train/held_data.h"
#include "train/objective.h"
#include "varve/compile.h"
#include "varve/ops.h"
#include "varve/train.h"

namespace varve::train {

// Adds batches up and makes the values of them.
class Totals {
 public:
  explicit Totals(std::vector<Metric> metrics) : metrics_(std::move(metrics)) {}
  // What a device is still computing is counted later, at the latest when somebody asks.
  void add(std::vector<Tensor> measured, std::int64_t samples);
  void settle();     // counts all of it
  void add_ranks();  // then: what the other ranks counted
  // All that the shards of all ranks counted, added in their order: `own` are this rank's, settled.
  static Totals of_shards(const std::vector<Totals>& own);
  std::int64_t counted() const { return counted_; }  // batches so far
  std::int64_t waiting() const { return static_cast<std::int64_t>(waiting_.size()); }
  double last_loss() const { return last_loss_; }                                            // of the last one counted
  std::vector<std::pair<std::string, double>> values(const std::string& prefix = "") const;  // loss first
  const std::vector<double>& sums_of(std::size_t metric) const { return sums_[metric]; }

  // All of it as numbers, to be kept and brought back.
  std::vector<double> flat() const;
  void restore(const std::vector<double>& flat, double samples);
  double samples() const { return samples_; }

 private:
  std::vector<Metric> metrics_;
  std::vector<std::vector<double>> sums_ = std::vector<std::vector<double>>(metrics_.size());
  struct Batch {
    std::vector<Tensor> measured;
    std::int64_t samples;
  };
  void count(const Batch& batch);
  void note_lengths(std::vector<std::int64_t>& lengths) const;
  std::vector<double> in_lengths(const std::vector<std::int64_t>& lengths) const;
  void set(const double* numbers, const std::vector<std::int64_t>& lengths);

  std::deque<Batch> waiting_;
  std::int64_t counted_ = 0;
  double loss_ = 0, samples_ = 0, last_loss_ = 0;
};

class Evaluator {
 public:
  // `often`: the data will be read more than once.
  Evaluator(nn::Module& model, const data::Dataset& dataset, EvaluateOptions options, bool often = false);
  // Optional, before run(): where a device needs kernels for this they are compiled while something else goes on.
  // `go_on` is asked as samples come in.
  void begin(const std::function<bool()>& go_on);
  Score run();

 private:
  void prepare(const std::function<bool()>& go_on);  // late: now the device is known
  void make_program();
  data::Loader loader() const;
  Totals measured();
  Totals measured_by_shards();
  Totals measured_somehow();

  nn::Module& model_;
  data::Dataset dataset_;
  EvaluateOptions options_;
  bool often_;
  std::optional<Objective> objective_;
  std::optional<HeldData> held_;
  std::optional<BatchProgram> program_;
};

// Error, with the loss that would fit, when targets are not what the loss takes. Looks at some samples.
// Of the only target; where there are several, objective_of() looks at those that have a loss.
void check_targets(const Loss& loss, const data::Dataset& dataset);
// Error when outputs, targets, loss and metrics do not fit in shape, or there are not as many outputs as classes.
// Nothing is computed. The model must be built.
void check_outputs(nn::Module& model, const data::Dataset& dataset, const Objective& objective, std::int64_t batch);
// Both, of a model that is built: what its outputs are to be held against.
Objective objective_of(nn::Module& model, const data::Dataset& dataset, const Loss& loss,
                       const std::vector<Metric>& metrics, std::int64_t batch);

// Whether a matrix of true and predicted classes says something about this data.
bool has_matrix(const data::Dataset& dataset);

// Makes a model's variables for such samples, unless it has them.
void build_for(nn::Module& model, const data::Dataset& dataset, std::int64_t batch, std::int64_t seed);

}  // namespace varve::train
