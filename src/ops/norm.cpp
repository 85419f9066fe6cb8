// Normalisation. Statistics are taken in f32 at least, whatever the type of the values.
#include <algorithm>

#include "base/text.h"
#include "ops/batching.h"
#include "ops/families.h"
#include "varve/ops.h"

namespace varve {
namespace {

// The type that sums over many values are taken in.
DType statistics_type(DType dtype) { return dtype == f64 ? f64 : f32; }

void check_input(const std::string& op, const TensorType& x, int least_rank) {
  if (!is_floating(x.dtype)) throw Error(cat(op, ": takes floating values, got ", x.str(), "."));
  if (x.shape.rank() < least_rank)
    throw Error(cat(op, ": takes ", least_rank == 1 ? "[.., channels]" : "[N, .., channels]", ", got ", x.shape, "."));
}

void check_channels(const std::string& op, const char* what, const TensorType& x, const TensorType& p) {
  const TensorType expected{statistics_type(x.dtype), {x.shape.back()}};
  if (p != expected)
    throw Error(cat(op, ": ", what, " must be ", expected.str(), " for input ", x.str(), ", got ", p.str(), "."));
}

// A parameter [channels] in the type of the statistics; one value everywhere when undefined.
Tensor parameter(const Tensor& x, const Tensor& p, double otherwise) {
  const DType dtype = statistics_type(x.dtype());
  return p.defined() ? p.to(dtype) : full({x.dim(-1)}, otherwise, dtype);
}

Axes all_but_last(const Tensor& x) {
  Axes axes;
  for (int axis = 0; axis + 1 < x.rank(); ++axis) axes.push_back(axis);
  return axes;
}

Cost norm_cost(const Call& call, const std::vector<TensorType>& out) {
  constexpr double passes = 8;  // FLOPs an element: mean, centred square, scale and shift
  return {passes * static_cast<double>(call.in[0].shape.numel()),
          2 * static_cast<double>(call.in[0].bytes() + out[0].bytes())};
}

Tensor plus(const Tensor& a, const Tensor& b) { return a.defined() ? a + b : b; }

// ---- batch norm, training: over all axes but the last

std::vector<TensorType> batch_norm_shape(const Call& call) {
  const TensorType& x = call.in[0];
  check_input(call.op.name, x, 2);
  check_channels(call.op.name, "scale", x, call.in[1]);
  check_channels(call.op.name, "shift", x, call.in[2]);
  if (x.shape.numel() == 0 && x.shape.back() != 0)
    throw Error(cat(call.op.name, ": input ", x.shape, " has no values to take statistics of."));
  return {x, call.in[1], call.in[1]};
}

// What one of a channel's values counts in its mean.
double share_of_one(const Tensor& x) {
  return static_cast<double>(x.dim(-1)) / static_cast<double>(std::max<std::int64_t>(x.numel(), 1));
}

std::vector<Tensor> batch_norm_parts(const std::vector<Tensor>& in, const Attrs& attrs) {
  const Tensor x = in[0].to(in[1].dtype());
  const Axes axes = all_but_last(x);
  const Tensor centre = mean(x, {.axes = axes});
  const Tensor centred = x - centre;
  const Tensor variance = mean(square(centred), {.axes = axes});
  const Tensor y = centred * (rsqrt(variance + attrs.number("epsilon")) * in[1]) + in[2];
  return {y.to(in[0].dtype()), centre, variance};
}

// in: x, dy, scale, mean, variance
std::vector<TensorType> batch_norm_grad_shape(const Call& call) {
  const TensorType& x = call.in[0];
  check_input(call.op.name, x, 2);
  if (call.in[1] != x) throw Error(cat(call.op.name, ": dy must be ", x.str(), ", as x, got ", call.in[1].str(), "."));
  const char* names[] = {"scale", "mean", "variance"};
  for (std::size_t i = 0; i < 3; ++i) check_channels(call.op.name, names[i], x, call.in[i + 2]);
  return {x, call.in[2], call.in[2]};
}

// x̂ = (x - mean)·rstd, y = scale·x̂ + shift
// dx = scale·rstd·(dy - mean(dy) - x̂·mean(dy·x̂))
std::vector<Tensor> batch_norm_grad_parts(const std::vector<Tensor>& in, const Attrs& attrs) {
  const Tensor &scale = in[2], &centre = in[3], &variance = in[4];
  const DType dtype = scale.dtype();
  const Tensor x = in[0].to(dtype), dy = in[1].to(dtype);
  const Axes axes = all_but_last(x);
  const Tensor rstd = rsqrt(variance + attrs.number("epsilon"));
  const Tensor normal = (x - centre) * rstd;
  const Tensor dshift = sum(dy, {.axes = axes}), dscale = sum(dy * normal, {.axes = axes});
  const Tensor dx = (scale * rstd) * (dy - (dshift + normal * dscale) * share_of_one(x));
  return {dx.to(in[0].dtype()), dscale, dshift};
}

// Each example has statistics of its own: its channels stand beside those of the others.
std::optional<std::vector<Tensor>> batch_channels(const Batching& call) {
  std::vector<Tensor> in = all_batched(call);
  const auto joined = [&](const Tensor& x) {
    const Tensor beside = with_axis_at(x, 0, x.rank() - 2);
    Ints sizes(beside.shape().begin(), beside.shape().end() - 1);
    sizes.back() *= beside.dim(-1);
    return reshape(beside, Shape(std::move(sizes)));
  };
  for (Tensor& x : in) x = joined(x);
  std::vector<Tensor> out = OpDef(&call.op).call(in, call.attrs);
  for (Tensor& y : out) {
    Ints sizes = y.shape().vec();
    sizes.back() /= std::max<std::int64_t>(call.size, 1);
    sizes.insert(sizes.end() - 1, call.size);
    y = with_axis_at(reshape(y, Shape(std::move(sizes))), y.rank() - 1, 0);
  }
  return out;
}

// Rows of all examples, where they share scale and shift; else it decomposes.
std::optional<std::vector<Tensor>> batch_rows(const Batching& call) {
  if (std::find(call.batched.begin() + 1, call.batched.end(), true) != call.batched.end()) return std::nullopt;
  return OpDef(&call.op).call(call.in, call.attrs);
}

const OpDef batch_norm_grad_op = define(OpRecord{
    .name = "batch_norm_train_grad",
    .doc = "Gradients of a batch norm's values, scale and shift, from its input, dy, scale, mean and variance",
    .family = "norm",
    .arity = 5,
    .shape = batch_norm_grad_shape,
    .decompose = batch_norm_grad_parts,
    .cost = norm_cost,
    .batching = batch_channels,
});

// And what flows into the statistics themselves.
std::vector<Tensor> batch_norm_vjp(const Vjp& v) {
  const Tensor &scale = v.in[1], &centre = v.out[1], &variance = v.out[2];
  std::vector<Tensor> grads = batch_norm_grad_op.call({v.in[0], v.dy, scale, centre, variance}, v.attrs);
  if (!v.needs[0] || (!v.dys[1].defined() && !v.dys[2].defined())) return grads;
  const Tensor x = v.in[0].to(scale.dtype());
  Tensor dx = grads[0].to(scale.dtype());
  if (v.dys[1].defined()) dx = dx + v.dys[1] * share_of_one(x);
  if (v.dys[2].defined()) dx = dx + (x - centre) * (v.dys[2] * (2 * share_of_one(x)));
  grads[0] = dx.to(v.in[0].dtype());
  return grads;
}

const OpDef batch_norm_op = define(OpRecord{
    .name = "batch_norm_train",
    .doc = "Each channel normalised over its batch, scaled and shifted; also gives mean and biased variance",
    .family = "norm",
    .arity = 3,
    .shape = batch_norm_shape,
    .gradient = batch_norm_vjp,
    .decompose = batch_norm_parts,
    .cost = norm_cost,
    .batching = batch_channels,
});

// ---- layer norm: over the last axis

Shape row_shape(const TensorType& x) {
  Shape rows = x.shape;
  rows[rows.rank() - 1] = 1;
  return rows;
}

std::vector<TensorType> layer_norm_shape(const Call& call) {
  const TensorType& x = call.in[0];
  check_input("layer_norm", x, 1);
  check_channels("layer_norm", "scale", x, call.in[1]);
  check_channels("layer_norm", "shift", x, call.in[2]);
  const TensorType rows{call.in[1].dtype, row_shape(x)};
  return {x, rows, rows};
}

std::vector<Tensor> layer_norm_parts(const std::vector<Tensor>& in, const Attrs& attrs) {
  const Tensor x = in[0].to(in[1].dtype());
  const Tensor centre = mean(x, {.axes = Axes{-1}, .keep = true});
  const Tensor centred = x - centre;
  const Tensor rstd = rsqrt(mean(square(centred), {.axes = Axes{-1}, .keep = true}) + attrs.number("epsilon"));
  return {(centred * rstd * in[1] + in[2]).to(in[0].dtype()), centre, rstd};
}

// in: x, dy, scale, mean, rstd
std::vector<TensorType> layer_norm_grad_shape(const Call& call) {
  const TensorType& x = call.in[0];
  check_input("layer_norm_grad", x, 1);
  if (call.in[1] != x) throw Error(cat("layer_norm_grad: dy must be ", x.str(), ", got ", call.in[1].str(), "."));
  check_channels("layer_norm_grad", "scale", x, call.in[2]);
  const TensorType rows{call.in[2].dtype, row_shape(x)};
  for (const std::size_t i : {3, 4})
    if (call.in[i] != rows)
      throw Error(cat("layer_norm_grad: mean and rstd must be ", rows.str(), ", got ", call.in[i].str(), "."));
  return {x, call.in[2], call.in[2]};
}

// x̂ = (x - mean)·rstd, y = scale·x̂ + shift, g = dy·scale
// dx = rstd·(g - mean(g) - x̂·mean(g·x̂))
std::vector<Tensor> layer_norm_grad_parts(const std::vector<Tensor>& in, const Attrs&) {
  const Tensor &scale = in[2], &centre = in[3], &rstd = in[4];
  const DType dtype = scale.dtype();
  const ReduceOptions row{.axes = Axes{-1}, .keep = true};
  const Tensor dy = in[1].to(dtype), normal = (in[0].to(dtype) - centre) * rstd, g = dy * scale;
  const Tensor dx = rstd * (g - mean(g, row) - normal * mean(g * normal, row));
  return {dx.to(in[0].dtype()), sum_to(dy * normal, scale.shape()), sum_to(dy, scale.shape())};
}

const OpDef layer_norm_grad_op = define(OpRecord{
    .name = "layer_norm_grad",
    .doc = "Gradients of a layer norm's values, scale and shift, from its input, dy, scale, mean and 1/deviation",
    .family = "norm",
    .arity = 5,
    .shape = layer_norm_grad_shape,
    .decompose = layer_norm_grad_parts,
    .cost = norm_cost,
});

// And what flows into mean and rstd.
std::vector<Tensor> layer_norm_vjp(const Vjp& v) {
  const Tensor &scale = v.in[1], &centre = v.out[1], &rstd = v.out[2];
  std::vector<Tensor> grads = layer_norm_grad_op.call({v.in[0], v.dy, scale, centre, rstd});
  if (!v.dys[1].defined() && !v.dys[2].defined()) return grads;
  const DType dtype = scale.dtype();
  const double share = 1.0 / static_cast<double>(std::max<std::int64_t>(v.in[0].dim(-1), 1));
  Tensor dx = grads[0].to(dtype);
  if (v.dys[1].defined()) dx = dx + v.dys[1] * share;
  if (v.dys[2].defined()) dx = dx - (v.in[0].to(dtype) - centre) * (rstd * square(rstd) * v.dys[2] * share);
  grads[0] = dx.to(v.in[0].dtype());
  return grads;
}

const OpDef layer_norm_op = define(OpRecord{
    .name = "layer_norm",
    .doc = "Each row of the last axis normalised, scaled and shifted; also gives its mean and 1/deviation",
    .family = "norm",
    .arity = 3,
    .shape = layer_norm_shape,
    .gradient = layer_norm_vjp,
    .decompose = layer_norm_parts,
    .cost = norm_cost,
    .batching = batch_rows,
});

// ---- RMS norm: over the last axis, not centred

std::vector<TensorType> rms_norm_shape(const Call& call) {
  const TensorType& x = call.in[0];
  check_input("rms_norm", x, 1);
  check_channels("rms_norm", "scale", x, call.in[1]);
  return {x, {call.in[1].dtype, row_shape(x)}};
}

std::vector<Tensor> rms_norm_parts(const std::vector<Tensor>& in, const Attrs& attrs) {
  const Tensor x = in[0].to(in[1].dtype());
  const Tensor rstd = rsqrt(mean(square(x), {.axes = Axes{-1}, .keep = true}) + attrs.number("epsilon"));
  return {(x * rstd * in[1]).to(in[0].dtype()), rstd};
}

// x̂ = x·rstd, y = scale·x̂, g = dy·scale;  dx = rstd·(g - x̂·mean(g·x̂)), and what flows into rstd
std::vector<Tensor> rms_norm_vjp(const Vjp& v) {
  const Tensor &scale = v.in[1], &rstd = v.out[1];
  const DType dtype = scale.dtype();
  const Tensor dy = v.dy.to(dtype), normal = v.in[0].to(dtype) * rstd;
  Tensor dx;
  if (v.needs[0]) {
    const Tensor g = dy * scale;
    dx = rstd * (g - normal * mean(g * normal, {.axes = Axes{-1}, .keep = true}));
    if (v.dys[1].defined()) {
      const double share = 1.0 / static_cast<double>(std::max<std::int64_t>(normal.dim(-1), 1));
      dx = dx - normal * (square(rstd) * v.dys[1] * share);
    }
    dx = dx.to(v.in[0].dtype());
  }
  return {dx, v.needs[1] ? sum_to(dy * normal, scale.shape()) : Tensor{}};
}

const OpDef rms_norm_op = define(OpRecord{
    .name = "rms_norm",
    .doc = "Each row of the last axis divided by its root mean square and scaled; also gives 1/root",
    .family = "norm",
    .arity = 2,
    .shape = rms_norm_shape,
    .gradient = rms_norm_vjp,
    .decompose = rms_norm_parts,
    .cost = norm_cost,
    .batching = batch_rows,
});

void check_epsilon(const std::string& op, double epsilon) {
  if (!(epsilon >= 0)) throw Error(cat(op, ": epsilon must be 0 or more, got ", epsilon, "."));
}

}  // namespace

BatchNorm batch_norm_train(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon) {
  check_input("batch_norm_train", x.type(), 2);
  check_epsilon("batch_norm_train", epsilon);
  const std::vector<Tensor> out =
      batch_norm_op.call({x, parameter(x, scale, 1), parameter(x, shift, 0)}, {{"epsilon", epsilon}});
  return {out[0], out[1], out[2]};
}

Tensor batch_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, const Tensor& mean, const Tensor& var,
                  double epsilon) {
  const TensorType type = x.type();
  check_input("batch_norm", type, 2);
  check_epsilon("batch_norm", epsilon);
  if (!mean.defined() || !var.defined())
    throw Error("batch_norm: mean and var must be given; batch_norm_train finds its own.");
  const Tensor s = parameter(x, scale, 1), b = parameter(x, shift, 0);
  const Tensor m = parameter(x, mean, 0), v = parameter(x, var, 1);
  check_channels("batch_norm", "scale", type, s.type());
  check_channels("batch_norm", "shift", type, b.type());
  check_channels("batch_norm", "mean", type, m.type());
  check_channels("batch_norm", "var", type, v.type());
  return ((x.to(m.dtype()) - m) * (rsqrt(v + epsilon) * s) + b).to(x.dtype());
}

Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon) {
  check_input("layer_norm", x.type(), 1);
  check_epsilon("layer_norm", epsilon);
  return layer_norm_op.call({x, parameter(x, scale, 1), parameter(x, shift, 0)}, {{"epsilon", epsilon}})[0];
}

Tensor rms_norm(const Tensor& x, const Tensor& scale, double epsilon) {
  check_input("rms_norm", x.type(), 1);
  check_epsilon("rms_norm", epsilon);
  return rms_norm_op.call({x, parameter(x, scale, 1)}, {{"epsilon", epsilon}})[0];
}

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& scale, const Tensor& shift, double epsilon) {
  check_input("group_norm", x.type(), 2);
  check_epsilon("group_norm", epsilon);
  const std::int64_t channels = x.dim(-1);
  if (groups < 1 || channels % groups != 0)
    throw Error(cat("group_norm: groups must divide the channels: ", groups, " does not divide ", channels, "."));
  const Tensor s = parameter(x, scale, 1), b = parameter(x, shift, 0);
  check_channels("group_norm", "scale", x.type(), s.type());
  check_channels("group_norm", "shift", x.type(), b.type());
  // [N, pixels, groups, channels of a group]
  const std::int64_t pixels = Shape(Ints(x.shape().begin() + 1, x.shape().end() - 1)).numel();
  const Tensor grouped = x.to(s.dtype()).reshape({x.dim(0), pixels, groups, channels / groups});
  const ReduceOptions within{.axes = Axes{1, 3}, .keep = true};
  const Tensor centred = grouped - mean(grouped, within);
  const Tensor normal = centred * rsqrt(mean(square(centred), within) + epsilon);
  return (normal.reshape(x.shape()) * s + b).to(x.dtype());
}

Tensor instance_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon) {
  check_input("instance_norm", x.type(), 2);
  return group_norm(x, std::max<std::int64_t>(x.dim(-1), 1), scale, shift, epsilon);  // every channel a group
}

Tensor local_response_norm(const Tensor& x, const LrnOptions& o) {
  check_input("local_response_norm", x.type(), 1);
  if (o.size < 1) throw Error(cat("local_response_norm: size must be 1 or more, got ", o.size, "."));
  const Tensor values = x.to(statistics_type(x.dtype()));
  const std::int64_t channels = x.dim(-1);
  // Neighbours further off than the last channel add nothing.
  const std::int64_t before = std::min(o.size / 2, channels), after = std::min((o.size - 1) / 2, channels);
  std::vector<std::pair<std::int64_t, std::int64_t>> widths(static_cast<std::size_t>(x.rank()));
  widths.back() = {before, after};
  const Tensor squares = pad(square(values), widths);
  std::vector<Range> window(widths.size());
  Tensor total;
  for (std::int64_t i = 0; i <= before + after; ++i) {
    window.back() = {i, i + channels};
    total = plus(total, slice(squares, window));
  }
  const Tensor divisor = power(total * (o.alpha / static_cast<double>(o.size)) + o.k, o.beta);
  return (values / divisor).to(x.dtype());
}

std::vector<const OpRecord*> norm_ops() {
  return {&batch_norm_op.record(), &batch_norm_grad_op.record(), &layer_norm_op.record(), &layer_norm_grad_op.record(),
          &rms_norm_op.record()};
}

}  // namespace varve
