#include "nn/check.h"
#include "nn/state.h"
#include "nn/steps.h"
#include "varve/distributed.h"

namespace varve::nn {
namespace {

void check_epsilon(const std::string& kind, double epsilon) {
  if (!(epsilon > 0)) throw Error(kind + ": epsilon is " + std::to_string(epsilon) + "; expected more than 0.");
}

// Which values count: those of valid steps, and of ranks whose samples count.
struct Counted {
  Tensor valid;  // bool [N, T, 1]; undefined: all
  Tensor rank;   // a scalar, 1 or 0; undefined: this rank stands alone
  Tensor sum(const Tensor& values) const { return rank.defined() ? distributed::all_sum(values) : values; }
};

// Means over all axes but the last: of what, and of how many values each.
struct Seen {
  Tensor mean, count;
};
Seen mean_of(const Tensor& x, const Counted& counted) {
  Axes axes;
  for (int i = 0; i + 1 < x.rank(); ++i) axes.push_back(i);
  const std::int64_t channels = x.dim(-1);
  const auto rows = static_cast<double>(x.numel() / std::max<std::int64_t>(channels, 1));
  Tensor count = full({1}, rows, x.dtype()), values = x;
  if (counted.valid.defined()) {
    count = sum(counted.valid.to(x.dtype())).reshape({1});
    values = where(counted.valid, x, zeros({}, x.dtype()));
  }
  const Tensor weight = counted.rank.defined() ? counted.rank.to(x.dtype()) : ones({}, x.dtype());
  const Tensor sums = counted.sum(concat({sum(values, {.axes = axes}) * weight, weight * count}, 0));
  const Tensor all = sums.slice({{channels, channels + 1}});
  return {sums.slice({{0, channels}}) / maximum(all, 1), all};
}

// Two passes, so that a mean far from zero costs no digits.
varve::BatchNorm batch_norm_of(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon,
                               const Counted& counted, Tensor& unbiased) {
  const Tensor wide = x.dtype() == f64 ? x : x.to(f32);
  const Seen seen = mean_of(wide, counted);
  const Tensor centred = wide - seen.mean;
  const Tensor var = mean_of(square(centred), counted).mean;
  Tensor y = centred * rsqrt(var + epsilon);
  if (scale.defined()) y = y * scale.to(y.dtype());
  if (shift.defined()) y = y + shift.to(y.dtype());
  unbiased = seen.count / maximum(seen.count - 1, 1);
  return {y.to(x.dtype()), seen.mean, var};
}

}  // namespace

BatchNorm::BatchNorm(BatchNormOptions options) : options_(std::move(options)) {
  check_epsilon("batch_norm", options_.epsilon);
  if (!(options_.momentum >= 0 && options_.momentum <= 1))
    throw Error("batch_norm: momentum is " + std::to_string(options_.momentum) + "; expected 0 to 1.");
  learns_size();
}

Tensor BatchNorm::forward(Tensor x, Mode mode) { return masked_forward(std::move(x), mode, {}).y; }

// The operators compute statistics and the normalised values in float32 when x is of 16 bits. Padding is normalised as
// well, and counts for nothing.
Masked BatchNorm::masked_forward(Tensor x, Mode mode, const Mask& mask) {
  const BatchNormOptions& o = options_;
  if (x.rank() < 2) throw Error(where() + ": expected input [N, .., C], got shape " + x.shape().str() + ".");
  if (mask.defined() && x.rank() != 3)
    throw Error(where() + ": expected a masked input [N, T, C], got shape " + x.shape().str() + ".");
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
    const bool shares = distributed::size() > 1 && distributed::shares_batch() && !Shard::current();
    const SyncBatchNorm* sync = shares ? SyncBatchNorm::current() : nullptr;
    const auto count = static_cast<double>(x.numel() / std::max<std::int64_t>(x.dim(-1), 1));
    Tensor unbiased;
    const Counted counted{mask.defined() ? expand_dims(mask.valid(), 2) : Tensor{}, sync ? sync->counted() : Tensor{}};
    const bool apart = sync || mask.defined();
    const varve::BatchNorm batch = apart ? batch_norm_of(x, scale, shift, o.epsilon, counted, unbiased)
                                         : batch_norm_train(x, scale, shift, o.epsilon);
    const Tensor seen_mean = stop_gradient(batch.mean), seen_var = stop_gradient(batch.var);
    const double own_unbiased = count > 1 ? count / (count - 1) : 1;
    const Tensor unbiased_var = apart ? seen_var * stop_gradient(unbiased) : seen_var * own_unbiased;
    if (!shares) {
      mean.assign(mean * (1 - o.momentum) + seen_mean * o.momentum);
      const Tensor part = apart ? unbiased_var * o.momentum : seen_var * (o.momentum * own_unbiased);
      var.assign(var * (1 - o.momentum) + part);
    } else {  // what all ranks saw, so that their models stay the same
      const std::vector<Tensor> seen =
          sync ? std::vector<Tensor>{seen_mean, unbiased_var} : distributed::mean_gradients({seen_mean, unbiased_var});
      mean.assign(mean * (1 - o.momentum) + seen[0] * o.momentum);
      var.assign(var * (1 - o.momentum) + seen[1] * o.momentum);
    }
    y = batch.y;
  }
  y = o.activation(compute_type(y));
  carry_flattened(x, y);
  return {y, mask};
}

Norm::Norm(Kind kind, NormOptions options, std::int64_t groups) : kind_(kind), options_(options), groups_(groups) {
  check_epsilon(Norm::kind(), options.epsilon);
  check_size(Norm::kind(), "groups", groups);
  learns_size();
}

std::string Norm::kind() const {
  return kind_ == layer ? "layer_norm" : kind_ == rms ? "rms_norm" : kind_ == group ? "group_norm" : "instance_norm";
}

Masking Norm::masking() const { return kind_ == layer || kind_ == rms ? Masking::passes : Masking::refuses; }

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
