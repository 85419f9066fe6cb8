// What a network's outputs are held against: the loss of each, and what is measured beside it.
#pragma once

#include <vector>

#include "varve/ops.h"
#include "varve/train.h"

namespace varve::train {

// Targets of a table's regression are scaled; metrics are of values in the unit of the file.
struct TargetUnit {
  double mean = 0, deviation = 1;
  Tensor operator()(const Tensor& scaled) const {
    return mean == 0 && deviation == 1 ? scaled : scaled.to(f32) * deviation + mean;
  }
};

class Objective {
 public:
  // `outputs`: of a sample, as the model gives them. Without metrics, those that fit the losses. Errors say which
  // outputs and targets there are.
  Objective(const Loss& loss, const std::vector<Metric>& metrics, const std::vector<Field>& outputs,
            const data::Dataset& dataset);

  // In the order of what measure() gives, after the loss, and under the names that are reported: of several outputs
  // first the loss of each, "digit_loss", then "digit_accuracy".
  const std::vector<Metric>& metrics() const { return metrics_; }
  void add(const Metric& metric);  // of the only output

  // Recorded into whatever program is being traced. Padding counts for nothing, and samples what their weights say.
  Tensor loss(const nn::MaskedTensors& outputs, const data::Batch& batch) const;
  // The loss, then each metric's sums.
  std::vector<Tensor> measure(const nn::MaskedTensors& outputs, const Tensor& loss, const data::Batch& batch) const;
  // What all rows of the batch count together, a scalar; undefined where each counts 1.
  Tensor weight(const nn::MaskedTensors& outputs, const data::Batch& batch) const;

  // The parts of the loss, each with the output and the target that it compares.
  struct Term {
    Loss loss;
    std::size_t output = 0, target = 0;
    std::string name = {};  // of the output
    TargetUnit unit = {};
  };
  const std::vector<Term>& terms() const { return terms_; }

 private:
  Tensor target_of(const Term& term, const data::Batch& batch) const;
  Tensor measured(const Metric& metric, const Term& term, const nn::MaskedTensors& outputs,
                  const data::Batch& batch) const;
  void add_terms(const std::vector<Field>& outputs, const data::Dataset& dataset);
  void add_metrics(const std::vector<Metric>& metrics, const data::Dataset& dataset);
  void add_metric(Metric metric, std::size_t term);

  Loss loss_;
  std::vector<Term> terms_;  // empty: the loss is of all outputs at once
  std::vector<Metric> metrics_;
  std::vector<std::size_t> of_term_;  // each metric's
};

}  // namespace varve::train
