#include "nn/check.h"
#include "nn/state.h"
#include "varve/distributed.h"

namespace varve::nn {
namespace {

void check_epsilon(const std::string& kind, double epsilon) {
  if (!(epsilon > 0)) throw Error(kind + ": epsilon is " + std::to_string(epsilon) + "; expected more than 0.");
}

}  // namespace

BatchNorm::BatchNorm(BatchNormOptions options) : options_(std::move(options)) {
  check_epsilon("batch_norm", options_.epsilon);
  if (!(options_.momentum >= 0 && options_.momentum <= 1))
    throw Error("batch_norm: momentum is " + std::to_string(options_.momentum) + "; expected 0 to 1.");
  learns_size();
}

// The operators compute statistics and the normalised values in float32 when x is of 16 bits.
Tensor BatchNorm::forward(Tensor x, Mode mode) {
  const BatchNormOptions& o = options_;
  if (x.rank() < 2) throw Error(where() + ": expected input [N, .., C], got shape " + x.shape().str() + ".");
  if (State::Entry* made = state()->find("running_mean"))
    check_features(where(), "channels", made->variable.shape()[0], x);
  const Shape channels{x.dim(-1)};
  const ParameterOptions options{.foreign = {ForeignLayout::same, flattened_image(x)}};
  Variable weight, bias;
  if (o.scale) weight = parameter("weight", channels, init::ones(), options);
  if (o.shift) bias = parameter("bias", channels, init::zeros(), options);
  Variable mean = buffer("running_mean", zeros(channels)), var = buffer("running_var", ones(channels));
  for (const char* statistic : {"running_mean", "running_var"}) state()->find(statistic)->foreign = options.foreign;
  const Tensor scale = o.scale ? weight.value() : Tensor{}, shift = o.shift ? bias.value() : Tensor{};
  const bool frozen = o.scale ? !weight.trainable() : o.shift && !bias.trainable();
  Tensor y;
  if (mode == Mode::infer || frozen) {
    y = varve::batch_norm(x, scale, shift, mean, var, o.epsilon);
  } else {
    // Without compile, an update that nobody reads would keep its whole batch alive: the last one is computed now.
    if (!tracing()) mean.value().eval(), var.value().eval();
    const varve::BatchNorm batch = batch_norm_train(x, scale, shift, o.epsilon);
    const auto count = static_cast<double>(x.numel() / std::max<std::int64_t>(x.dim(-1), 1));
    const double unbiased = count > 1 ? count / (count - 1) : 1;
    const Tensor seen_mean = stop_gradient(batch.mean), seen_var = stop_gradient(batch.var);
    if (distributed::size() == 1) {
      mean.assign(mean * (1 - o.momentum) + seen_mean * o.momentum);
      var.assign(var * (1 - o.momentum) + seen_var * (o.momentum * unbiased));
    } else {  // what all ranks saw, so that their models stay the same
      const std::vector<Tensor> seen = distributed::mean_gradients({seen_mean, seen_var * unbiased});
      mean.assign(mean * (1 - o.momentum) + seen[0] * o.momentum);
      var.assign(var * (1 - o.momentum) + seen[1] * o.momentum);
    }
    y = batch.y;
  }
  y = o.activation(compute_type(y));
  carry_flattened(x, y);
  return y;
}

Norm::Norm(Kind kind, NormOptions options, std::int64_t groups) : kind_(kind), options_(options), groups_(groups) {
  check_epsilon(Norm::kind(), options.epsilon);
  check_size(Norm::kind(), "groups", groups);
  learns_size();
}

std::string Norm::kind() const {
  return kind_ == layer ? "layer_norm" : kind_ == rms ? "rms_norm" : kind_ == group ? "group_norm" : "instance_norm";
}

Tensor Norm::forward(Tensor x, Mode) {
  if (x.rank() < 1) throw Error(where() + ": expected input [N, .., C], got a scalar.");
  for (const char* name : {"weight", "bias"})
    if (const State::Entry* made = state()->find(name))
      check_features(where(), "channels", made->variable.shape()[0], x);
  const Shape channels{x.dim(-1)};
  Tensor scale, shift;
  if (options_.scale) scale = parameter("weight", channels, init::ones());
  if (options_.shift && kind_ != rms) shift = parameter("bias", channels, init::zeros());
  switch (kind_) {
    case layer:
      return compute_type(varve::layer_norm(x, scale, shift, options_.epsilon));
    case rms:
      return compute_type(varve::rms_norm(x, scale, options_.epsilon));
    case group:
      return compute_type(varve::group_norm(x, groups_, scale, shift, options_.epsilon));
    case instance:
      break;
  }
  return compute_type(varve::instance_norm(x, scale, shift, options_.epsilon));
}

}  // namespace varve::nn
