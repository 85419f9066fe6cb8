#include "train/step.h"

#include "varve/autodiff.h"
#include "varve/ops.h"

namespace varve::train {

TrainStep::TrainStep(Parts parts)
    : parts_(std::move(parts)),
      batch_([this](const Tensor& x, const Tensor& y) { return record(x, y); }, parts_.held,
             {.name = "train", .tf32 = parts_.precision.tf32}),
      apply_(compile(
          [this] {
            std::vector<Tensor> means;
            for (Variable& sum : sums_) {
              means.push_back(sum.value() / count_);
              sum.assign(zeros(sum.shape(), sum.type().dtype));
            }
            count_.assign(zeros({}));
            update(means);
          },
          {.name = "apply", .tf32 = parts_.precision.tf32})) {
  if (parts_.accumulate == 1) return;
  for (const Variable& parameter : parts_.optimizer.parameters())
    sums_.emplace_back("gradient." + parameter.name(), zeros(parameter.shape(), parameter.type().dtype), false);
  count_ = Variable("accumulated", zeros({}), false);
}

void TrainStep::update(const std::vector<Tensor>& gradients) {
  parts_.optimizer.apply(gradients);
  if (parts_.average) parts_.average->update();
}

std::vector<Tensor> TrainStep::record(const Tensor& x, const Tensor& y) {
  const nn::Precision precision(parts_.precision.dtype);
  std::optional<nn::Watch> watch;
  if (parts_.check_layers)
    watch.emplace([](const nn::Watch::Call& call) {
      return is_floating(call.y.dtype())
                 ? check_finite(call.y, "layer \"" + call.path + "\" (" + call.module.kind() + ")")
                 : call.y;
    });
  const Tensor target = parts_.loss.of_input ? x : y;
  Tensor output;
  const auto [loss, gradients] = value_and_grad(
      [&] {
        output = parts_.model(x, Mode::train);
        return cast(parts_.loss(output, target), f32);
      },
      parts_.optimizer.parameters());
  std::vector<Tensor> measured = measure(stop_gradient(output), loss, target, parts_.metrics, parts_.unit);
  if (parts_.accumulate == 1) {
    update(gradients);
  } else {
    for (std::size_t i = 0; i < sums_.size(); ++i)
      sums_[i].assign(sums_[i] + cast(gradients[i], sums_[i].type().dtype));
    count_.assign(count_ + 1);
  }
  return measured;
}

std::vector<Tensor> TrainStep::operator()(const Tensor& x, const Tensor& y, bool apply) {
  std::vector<Tensor> measured = batch_(x, y);
  if (apply && parts_.accumulate > 1) apply_();
  return measured;
}

}  // namespace varve::train
