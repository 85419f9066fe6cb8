// Losses of a network's output against its targets: f32 whatever the network computes in.
#include "train/targets.h"
#include "varve/train.h"

namespace varve::train {
namespace {

Tensor cross_entropy_of(const Tensor& output, const Tensor& target) {
  const Tensor logits = output.to(f32);
  if (holds_classes(target)) return varve::cross_entropy(logits, class_numbers(output, target, "cross_entropy"));
  const Tensor wanted = probabilities(output, target, "cross_entropy");
  return mean(-sum(wanted * log_softmax(logits), {.axes = Axes{-1}}));
}

// Targets (1 - s)·t + s/C: the second part is the mean of -log p over all classes.
Tensor smoothed_of(const Tensor& output, const Tensor& target, double smoothing) {
  return (1 - smoothing) * cross_entropy_of(output, target) - smoothing * mean(log_softmax(output.to(f32)));
}

Tensor binary_of(const Tensor& output, const Tensor& target) {
  return varve::binary_cross_entropy(output.to(f32), values_like(output, target, "binary_cross_entropy"));
}

Tensor mse_of(const Tensor& output, const Tensor& target) {
  return mse_loss(output.to(f32), values_like(output, target, "mse"));
}

Tensor mae_of(const Tensor& output, const Tensor& target) {
  return l1_loss(output.to(f32), values_like(output, target, "mae"));
}

Tensor huber_of(const Tensor& output, const Tensor& target) {
  return huber_loss(output.to(f32), values_like(output, target, "huber"));
}

}  // namespace

const Loss cross_entropy = {"cross_entropy", cross_entropy_of};
const Loss binary_cross_entropy = {"binary_cross_entropy", binary_of};
const Loss mse = {"mse", mse_of};
const Loss mae = {"mae", mae_of};
const Loss huber = {"huber", huber_of};
const Loss reconstruction = {"reconstruction", mse_of, true};

Loss smoothed_cross_entropy(double smoothing) {
  if (!(smoothing >= 0 && smoothing < 1))
    throw Error("smoothed_cross_entropy: the smoothing must be at least 0 and below 1, got " +
                std::to_string(smoothing) + ".");
  if (smoothing == 0) return cross_entropy;
  return {"smoothed_cross_entropy",
          [smoothing](const Tensor& output, const Tensor& target) { return smoothed_of(output, target, smoothing); }};
}

Loss loss_by_name(const std::string& name) {
  const std::vector<Loss> losses = {cross_entropy, smoothed_cross_entropy(0.1), binary_cross_entropy, mse, mae, huber,
                                    reconstruction};
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
