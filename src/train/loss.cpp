// Losses of a network's output against its targets: f32 whatever the network computes in.
#include <algorithm>
#include <cmath>

#include "page/numbers.h"
#include "train/targets.h"
#include "varve/train.h"
#include "varve/train/detection.h"

namespace varve::train {
namespace {

// ---- of each row, and their mean

Tensor cross_entropy_each(const Tensor& output, const Tensor& target) {
  const Tensor logits = output.to(f32);
  if (holds_classes(target))
    return varve::cross_entropy(logits, class_numbers(output, target, "cross_entropy"), Reduction::none);
  return -sum(probabilities(output, target, "cross_entropy") * log_softmax(logits), {.axes = Axes{-1}});
}

// Targets (1 - s)·t + s/C: the second part is the mean of -log p over all classes.
Tensor smoothed_of(const Tensor& output, const Tensor& target, double smoothing) {
  return (1 - smoothing) * mean(cross_entropy_each(output, target)) - smoothing * mean(log_softmax(output.to(f32)));
}
Tensor smoothed_each(const Tensor& output, const Tensor& target, double smoothing) {
  return (1 - smoothing) * cross_entropy_each(output, target) -
         smoothing * mean(log_softmax(output.to(f32)), {.axes = Axes{-1}});
}

Tensor binary_each(const Tensor& output, const Tensor& target) {
  return varve::binary_cross_entropy(output.to(f32), values_like(output, target, "binary_cross_entropy"),
                                     Reduction::none);
}
Tensor mse_each(const Tensor& output, const Tensor& target) {
  return mse_loss(output.to(f32), values_like(output, target, "mse"), Reduction::none);
}
Tensor seen_error_each(const Tensor& output, const Tensor& target) { return stop_gradient(mse_each(output, target)); }
Tensor mae_each(const Tensor& output, const Tensor& target) {
  return l1_loss(output.to(f32), values_like(output, target, "mae"), Reduction::none);
}
Tensor huber_each(const Tensor& output, const Tensor& target) {
  return huber_loss(output.to(f32), values_like(output, target, "huber"), 1.0, Reduction::none);
}

using Rows = Tensor (*)(const Tensor& output, const Tensor& target);

Loss loss_of(const char* name, Rows each, bool of_input = false) {
  return {.name = name,
          .function = [each](const Tensor& output, const Tensor& target) { return mean(each(output, target)); },
          .of_input = of_input,
          .each = each};
}

// ---- classes that count more than others

void check_class_weights(const std::vector<double>& weights) {
  double total = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] >= 0) || !std::isfinite(weights[i]))
      throw Error("cross_entropy: the weight of class " + std::to_string(i) + " is " + std::to_string(weights[i]) +
                  "; expected 0 or more.");
    total += weights[i];
  }
  if (!weights.empty() && total == 0) throw Error("cross_entropy: all class weights are 0.");
}

std::function<Tensor(const Tensor&, const Tensor&)> class_counts(const std::vector<double>& weights) {
  return [weights](const Tensor& output, const Tensor& target) {
    const auto given = static_cast<std::int64_t>(weights.size());
    if (output.rank() == 0 || output.dim(-1) != given)
      throw Error("cross_entropy: " + std::to_string(given) + " class weights, but the output " + output.type().str() +
                  " has " + std::to_string(output.rank() ? output.dim(-1) : 0) + " classes: expected one for each.");
    if (!holds_classes(target))
      throw Error("cross_entropy: class weights need class numbers as targets, got " + target.type().str() + ".");
    return gather(tensor(weights).to(f32), class_numbers(output, target, "cross_entropy"));
  };
}

Tensor times(const Tensor& a, const Tensor& b) { return a.defined() ? a * b : b; }

}  // namespace

const Loss cross_entropy = loss_of("cross_entropy", cross_entropy_each);
const Loss binary_cross_entropy = loss_of("binary_cross_entropy", binary_each);
const Loss mse = loss_of("mse", mse_each);
const Loss mae = loss_of("mae", mae_each);
const Loss huber = loss_of("huber", huber_each);
const Loss reconstruction = loss_of("reconstruction", mse_each, true);
const Loss contrastive_divergence = loss_of("contrastive_divergence", seen_error_each, true);

Loss smoothed_cross_entropy(double smoothing) {
  if (!(smoothing >= 0 && smoothing < 1))
    throw Error("smoothed_cross_entropy: the smoothing must be at least 0 and below 1, got " +
                std::to_string(smoothing) + ".");
  if (smoothing == 0) return cross_entropy;
  return {.name = "smoothed_cross_entropy",
          .function = [smoothing](const Tensor& output,
                                  const Tensor& target) { return smoothed_of(output, target, smoothing); },
          .each = [smoothing](const Tensor& output,
                              const Tensor& target) { return smoothed_each(output, target, smoothing); }};
}

Loss cross_entropy_with(const CrossEntropyLoss& options) {
  check_class_weights(options.class_weights);
  Loss loss = smoothed_cross_entropy(options.smoothing);
  loss.ignore_index = options.ignore_index;
  if (!options.class_weights.empty()) loss.counts = class_counts(options.class_weights);
  return loss;
}

std::vector<double> balanced_class_weights(const data::Dataset& dataset) {
  const std::int64_t classes = dataset.classes();
  std::vector<double> counts(static_cast<std::size_t>(classes), 0.0);
  for (const std::int64_t label : dataset.labels()) counts[static_cast<std::size_t>(label)] += 1;
  const auto samples = static_cast<double>(dataset.size());
  for (double& count : counts) count = count > 0 ? samples / (static_cast<double>(classes) * count) : 0;
  return counts;
}

Tensor Loss::weights_of(const Tensor& output, const Tensor& target, const Tensor& weights) const {
  if (!weights.defined() && !counts && !ignore_index) return {};
  if (!each)
    throw Error("loss \"" + name +
                "\": takes no weights, as it gives one mean for all. Give it `each`, the loss of each row.");
  Tensor all, classes = target;
  if (ignore_index) {
    const KeptClasses kept = without_ignored(target, *ignore_index, name.c_str());
    classes = kept.target;
    all = kept.weights;
  }
  const Shape rows = each(output, classes).shape();
  if (all.defined()) all = all.reshape(rows);
  if (counts) all = times(all, counts(output, classes).reshape(rows));
  return weights.defined() ? times(all, weights_of_rows(weights, rows, name.c_str())) : all;
}

Tensor Loss::operator()(const Tensor& output, const Tensor& target, const Tensor& weights) const {
  const Tensor counted = weights_of(output, target, weights);
  if (!counted.defined()) return function(output, target);
  const Tensor kept = ignore_index ? without_ignored(target, *ignore_index, name.c_str()).target : target;
  return weighted_mean(each(output, kept), counted);
}

Loss losses(const std::vector<std::pair<std::string, Loss>>& of_outputs, const std::map<std::string, double>& weights) {
  Loss all;
  std::vector<std::string> names;
  for (const auto& [output, loss] : of_outputs) {
    if (!loss.parts.empty() || loss.of_all)
      throw Error("losses: the loss of '" + output + "', " + loss.name + ", is itself of several outputs.");
    all.parts.push_back(loss);
    all.parts.back().of_output = output;
    names.push_back(output);
    all.name += (all.name.empty() ? "" : " + ") + output + ": " + loss.name;
    const auto weight = weights.find(output);
    if (weight == weights.end()) continue;
    if (!std::isfinite(weight->second))
      throw Error("losses: the weight of '" + output + "' must be finite, got " + std::to_string(weight->second) + ".");
    all.parts.back().weight = weight->second;
    all.name += " × " + page::general(weight->second, 6);
  }
  if (all.parts.empty()) throw Error("losses: expected the loss of at least one output.");
  for (const auto& [output, weight] : weights)
    if (std::find(names.begin(), names.end(), output) == names.end())
      throw Error("losses: a weight is given for '" + output + "', which has no loss." + did_you_mean(output, names));
  return all;
}

Loss joint_loss(const std::string& name, std::function<Tensor(const Tensors& outputs, const Tensors& targets)> f) {
  if (!f) throw Error("joint_loss: the function is empty.");
  Loss loss;
  loss.name = name;
  loss.of_all = std::move(f);
  return loss;
}

Loss loss_by_name(const std::string& name) {
  const std::vector<Loss> losses = {
      cross_entropy, smoothed_cross_entropy(0.1), binary_cross_entropy, mse, mae, huber, reconstruction,
      detection,     contrastive_divergence};
  std::vector<std::string> names;
  for (const Loss& loss : losses) {
    if (loss.name == name) return loss;
    names.push_back(loss.name);
  }
  std::string known;
  for (const std::string& each : names) known += (known.empty() ? "" : ", ") + each;
  throw Error("unknown loss '" + name + "'." + did_you_mean(name, names) + " Known: " + known + ".");
}

}  // namespace varve::train
