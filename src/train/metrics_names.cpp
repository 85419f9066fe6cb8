// Which metric a name means, which ones fit a loss, and the exact area under the ROC curve.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

#include "varve/error.h"
#include "varve/train/detection.h"
#include "varve/train/metrics.h"

namespace varve::train {

Metric of(const std::string& output, Metric metric) {
  metric.of_output = output;
  return metric;
}

Metric metric_by_name(const std::string& name) {
  const std::vector<Metric> metrics = {accuracy(), binary_accuracy(), precision(), recall(),     f1(),
                                       mean_iou(), map50(),           auc(),       perplexity(), mean_absolute_error()};
  std::vector<std::string> names = {"top5"};
  for (const Metric& metric : metrics) {
    if (metric.name == name) return metric;
    names.push_back(metric.name);
  }
  if (name.starts_with("top")) {
    std::int64_t k = 0;
    const char* end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data() + 3, end, k);
    if (error == std::errc() && rest == end && k > 0) return top_k_accuracy(k);
  }
  std::string known;
  for (const std::string& each : names) known += (known.empty() ? "" : ", ") + each;
  throw Error("unknown metric '" + name + "'." + did_you_mean(name, names) + " Known: " + known + ".");
}

std::vector<Metric> metrics_for(const std::string& loss, const TensorType& target) {
  if (loss == "detection") return {map50()};
  if (loss == "binary_cross_entropy") return {binary_accuracy()};
  if (loss == "mse" || loss == "mae" || loss == "huber") return {mean_absolute_error()};
  if (loss != "cross_entropy" && loss != "smoothed_cross_entropy") return {};
  if (!is_floating(target.dtype) && target.shape.rank() == 2) return {accuracy(), mean_iou()};  // one for each pixel
  // A class for each step of a sample is a text.
  const bool sequence = !is_floating(target.dtype) && target.shape.numel() > 1;
  return {sequence ? perplexity() : accuracy()};
}

double auc(const std::vector<double>& scores, const std::vector<int>& labels) {
  if (scores.size() != labels.size())
    throw Error("auc: " + std::to_string(scores.size()) + " scores for " + std::to_string(labels.size()) + " labels.");
  for (const double score : scores)
    if (std::isnan(score)) throw Error("auc: a score is not a number.");
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  double area = 0, below = 0, positives = 0;
  for (std::size_t i = 0; i < order.size();) {
    double yes = 0, no = 0;
    const double level = scores[order[i]];
    for (; i < order.size() && scores[order[i]] == level; ++i) (labels[order[i]] != 0 ? yes : no) += 1;
    area += yes * (below + no / 2);  // equal scores count half
    below += no;
    positives += yes;
  }
  return below > 0 && positives > 0 ? area / (below * positives) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace varve::train
