// Losses: one value for each element or row, then mean or sum.
#include "base/text.h"
#include "ops/batching.h"
#include "ops/families.h"
#include "ops/shared.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve {
namespace {

Tensor reduced(const Tensor& losses, Reduction reduction) {
  switch (reduction) {
    case Reduction::mean:
      return mean(losses);
    case Reduction::sum:
      return sum(losses);
    case Reduction::none:
      break;
  }
  return losses;
}

// Losses do not broadcast: [32, 1] against [32] would quietly compare every pair.
void check_pair(const Tensor& a, const Tensor& b, const char* op) {
  if (a.shape() != b.shape())
    throw Error(cat(op, ": shapes ", a.shape(), " and ", b.shape(), " differ; reshape one of them."));
}

// ---- cross entropy of logits [.., C] and integer labels [..]

void check_labels(const Call& call) {
  const TensorType &logits = call.in[0], &labels = call.in[1];
  if (!is_floating(logits.dtype))
    throw Error(cat("cross_entropy: logits must be floating-point, got ", logits.str(), "."));
  if (labels.dtype != i32 && labels.dtype != i64)
    throw Error(cat("cross_entropy: labels must be i32 or i64 class numbers, got ", labels.str(), "."));
  if (logits.shape.rank() == 0 || logits.shape.back() == 0)
    throw Error(cat("cross_entropy: logits ", logits.shape, " have no classes along the last axis."));
  std::vector<std::int64_t> rows(logits.shape.begin(), logits.shape.end() - 1);
  if (labels.shape.vec() != rows)
    throw Error(cat("cross_entropy: logits ", logits.shape, " need labels ", Shape(rows), ", got ", labels.shape, "."));
}

std::vector<TensorType> cross_entropy_shape(const Call& call) {
  check_labels(call);
  return {{call.in[0].dtype, call.in[1].shape}};
}

std::vector<TensorType> cross_entropy_grad_shape(const Call& call) {
  check_labels(call);
  if (call.in[2] != TensorType{call.in[0].dtype, call.in[1].shape})
    throw Error(cat("softmax_cross_entropy_grad: dloss is ", call.in[2].str(), ", expected ",
                    TensorType{call.in[0].dtype, call.in[1].shape}.str(), "."));
  return {call.in[0]};
}

Positions label_positions(const Call& call) {
  const std::int64_t classes = call.in[0].shape.back();
  return {1, classes, cat("cross_entropy: a label is out of range [0, ", classes, ").")};
}

// Largest, exponential, sum, quotient and logarithm: a few operations for each logit.
Cost cross_entropy_cost(const Call& call, const std::vector<TensorType>& out) {
  Cost cost{5 * static_cast<double>(call.in[0].shape.numel()), static_cast<double>(out[0].bytes())};
  for (const TensorType& type : call.in) cost.bytes += static_cast<double>(type.bytes());
  return cost;
}

// Exponentials and differences of near numbers are taken in f32 at least.
std::vector<Tensor> cross_entropy_by_log_softmax(const std::vector<Tensor>& in, const Attrs&) {
  const Tensor chosen = take_along_axis(log_softmax(widened(in[0])), expand_dims(in[1], -1), -1);
  return {(-reshape(chosen, in[1].shape())).to(in[0].dtype())};
}

// (softmax - one_hot) · dloss
std::vector<Tensor> cross_entropy_grad_by_softmax(const std::vector<Tensor>& in, const Attrs&) {
  const Tensor logits = widened(in[0]);
  const Tensor difference = softmax(logits) - one_hot(in[1], logits.dim(-1), logits.dtype());
  return {(difference * expand_dims(in[2], -1)).to(in[0].dtype())};
}

const OpDef cross_entropy_grad_op = define({.name = "softmax_cross_entropy_grad",
                                            .doc = "Gradient of softmax_cross_entropy: (softmax - one_hot) · dloss.",
                                            .family = "loss",
                                            .arity = 3,
                                            .shape = cross_entropy_grad_shape,
                                            .decompose = cross_entropy_grad_by_softmax,
                                            .cost = cross_entropy_cost,
                                            .positions = label_positions,
                                            .batching = batch_leading});

std::vector<Tensor> cross_entropy_vjp(const Vjp& v) {
  return {record(cross_entropy_grad_op.record(), {v.in[0], v.in[1], v.dy})[0], {}};
}

const OpDef cross_entropy_op = define({.name = "softmax_cross_entropy",
                                       .doc = "-log softmax(logits)[label] for each row.",
                                       .family = "loss",
                                       .arity = 2,
                                       .shape = cross_entropy_shape,
                                       .gradient = cross_entropy_vjp,
                                       .decompose = cross_entropy_by_log_softmax,
                                       .cost = cross_entropy_cost,
                                       .positions = label_positions,
                                       .batching = batch_leading});

// ---- elementwise

// -z·log σ(x) - (1-z)·log(1-σ(x)), without forming σ(x).
Expr bce_formula(Expr x, Expr z) { return expr::max(x, 0) - x * z + expr::log1p(expr::exp(-expr::abs(x))); }
std::vector<Expr> bce_derivative(Expr x, Expr z, Expr) { return {expr::sigmoid(x) - z, -x}; }

// target · (log target - log_p), and 0 for target 0, as the limit is.
Expr kl_formula(Expr log_p, Expr target) {
  const Expr some = target > 0;
  return select(some, target * (expr::log(select(some, target, 1)) - log_p), 0);
}

const OpDef bce_op = elementwise({.name = "binary_cross_entropy",
                                  .doc = "-z·log σ(x) - (1-z)·log(1-σ(x)) of logits x and targets z.",
                                  .formula = bce_formula,
                                  .derivative = bce_derivative,
                                  .result = ResultType::floating,
                                  .family = "loss"});
const OpDef kl_op = elementwise({.name = "kl_div",
                                 .doc = "target · (log target - log_p), 0 for target 0.",
                                 .formula = kl_formula,
                                 .result = ResultType::floating,
                                 .family = "loss"});

// ---- weights

// With axes of size 1 behind, so that they stand beside the values.
Tensor beside(const Tensor& weights, const Tensor& values, const char* op) {
  Shape shape = weights.shape();
  bool fits = shape.rank() <= values.rank();
  for (int axis = 0; fits && axis < shape.rank(); ++axis) fits = shape[axis] == values.dim(axis);
  if (!fits)
    throw Error(cat(op, ": weights ", weights.shape(), " do not fit values ", values.shape(),
                    ": expected that shape, or its first axes."));
  while (shape.rank() < values.rank()) shape.push_back(1);
  return weights.to(is_floating(values.dtype()) ? values.dtype() : f32).reshape(shape);
}

Tensor weighted(const Tensor& values, const Tensor& weights) {
  return where(weights != 0, values, zeros({}, values.dtype())) * weights;
}

Tensor mean_of(const Tensor& values, const Tensor& weights) {
  const Tensor total = sum(broadcast_to(weights, values.shape()));
  return sum(weighted(values, weights)) / where(total == 0, ones({}, total.dtype()), total);
}

Tensor times(const Tensor& a, const Tensor& b) { return a.defined() ? a * b : b; }

void check_class_weights(const Tensor& weights, const Tensor& logits) {
  const std::int64_t classes = logits.rank() ? logits.dim(-1) : 0;
  if (weights.rank() != 1 || weights.dim(0) != classes)
    throw Error(cat("cross_entropy: class weights ", weights.shape(), " for ", classes, " classes (logits ",
                    logits.shape(), "): expected [", classes, "]."));
}

}  // namespace

std::vector<const OpRecord*> loss_ops() {
  return {&cross_entropy_op.record(), &cross_entropy_grad_op.record(), &bce_op.record(), &kl_op.record()};
}

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, Reduction reduction) {
  return reduced(record(cross_entropy_op.record(), {logits, labels})[0], reduction);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& given, const CrossEntropyOptions& options) {
  Tensor labels = given, weights;
  if (options.ignore_index) {
    const Tensor kept = labels != *options.ignore_index;
    labels = where(kept, labels, zeros({}, labels.dtype()));  // any class: it counts for nothing
    weights = kept.to(logits.dtype());
  }
  const Tensor losses = cross_entropy(logits, labels, Reduction::none);
  if (options.class_weights.defined()) {
    check_class_weights(options.class_weights, logits);
    weights = times(weights, gather(options.class_weights.to(logits.dtype()), labels));
  }
  if (options.weights.defined()) weights = times(weights, beside(options.weights, losses, "cross_entropy"));
  if (!weights.defined()) return reduced(losses, options.reduction);
  if (options.reduction == Reduction::mean) return mean_of(losses, weights);
  return reduced(weighted(losses, weights), options.reduction);
}

Tensor weighted_mean(const Tensor& values, const Tensor& weights) {
  return mean_of(values, beside(weights, values, "weighted_mean"));
}

Tensor binary_cross_entropy(const Tensor& logits, const Tensor& targets, Reduction reduction) {
  check_pair(logits, targets, "binary_cross_entropy");
  return reduced(bce_op(logits, targets), reduction);
}

Tensor mse_loss(const Tensor& a, const Tensor& b, Reduction reduction) {
  check_pair(a, b, "mse_loss");
  return reduced(square(a - b), reduction);
}

Tensor l1_loss(const Tensor& a, const Tensor& b, Reduction reduction) {
  check_pair(a, b, "l1_loss");
  return reduced(abs(a - b), reduction);
}

// d²/2 up to delta, then a line of slope delta.
Tensor huber_loss(const Tensor& a, const Tensor& b, double delta, Reduction reduction) {
  check_pair(a, b, "huber_loss");
  if (!(delta > 0)) throw Error(cat("huber_loss: delta is ", delta, "; expected more than 0."));
  const Tensor distance = abs(a - b);
  const Tensor near = minimum(distance, delta);
  return reduced(0.5 * near * near + delta * (distance - near), reduction);
}

Tensor kl_div(const Tensor& log_p, const Tensor& target, Reduction reduction) {
  check_pair(log_p, target, "kl_div");
  return reduced(kl_op(log_p, target), reduction);
}

}  // namespace varve
