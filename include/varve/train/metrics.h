// What is measured beside the loss.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "varve/tensor.h"

namespace varve::train {

// Sums that a batch contributes (computed in the step's own program), and the value that all of them make.
struct Metric {
  std::string name;
  std::function<Tensor(const Tensor& output, const Tensor& target)> sums;  // f32 [k], k fixed
  std::function<double(const std::vector<double>& sums)> value;
  bool higher_is_better = true;
  // The same sums of rows that do not all count the same: weights [N] of samples or [N, T] of steps. Empty: it takes
  // none.
  std::function<Tensor(const Tensor& output, const Tensor& target, const Tensor& weights)> weighted = {};
  std::string of_output = {};  // of a network of several: the one that it measures, by its name or its place, "0"
};
Metric of(const std::string& output, Metric metric);  // the same, of that output: reported as "digit_accuracy"
Metric accuracy();
Metric binary_accuracy();  // of logits against 0/1
Metric top_k_accuracy(std::int64_t k = 5);
Metric precision(), recall(), f1();  // macro averages over the classes
Metric auc();                        // area under the ROC curve of two classes (or one logit), in 4,096 bins
Metric mean_iou();                   // intersection over union of each class that occurs, of masks
Metric perplexity();                 // exp of the mean cross-entropy of each token
Metric mean_absolute_error();
Metric confusion(std::int64_t classes);          // its sums are the matrix; its value is the accuracy
Metric metric_by_name(const std::string& name);  // "accuracy", "top5", "f1"…; Error with the nearest name
std::vector<Metric> metrics_for(const std::string& loss, const TensorType& target);  // what fits

// Of all predictions at once, exact.
double auc(const std::vector<double>& scores, const std::vector<int>& labels);
struct ClassScores {
  double precision = 0, recall = 0, f1 = 0;
  double support = 0;
};
std::vector<ClassScores> class_scores(const std::vector<double>& confusion, std::int64_t classes);

}  // namespace varve::train
