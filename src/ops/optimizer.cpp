// Optimiser updates: elementwise formulas of several outputs, which take the buffers of what they replace. Whatever may
// change from step to step, and every constant beside it, is a scalar input: one program serves all steps.
#include <cmath>
#include <utility>

#include "base/text.h"
#include "ops/families.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve {
namespace {

using Exprs = std::vector<Expr>;

// ---- formulas

Expr sgd(Expr w, Expr g, Expr rate, Expr weight_decay) { return w - rate * (g + weight_decay * w); }

Exprs sgd_momentum(Expr w, Expr g, Expr velocity, Expr rate, Expr momentum, Expr weight_decay) {
  const Expr v = momentum * velocity + (g + weight_decay * w);
  return {w - rate * v, v};
}

// Looks ahead: the gradient's step, and the momentum's that would follow it.
Exprs sgd_nesterov(Expr w, Expr g, Expr velocity, Expr rate, Expr momentum, Expr weight_decay) {
  const Expr d = g + weight_decay * w;
  const Expr v = momentum * velocity + d;
  return {w - rate * (d + momentum * v), v};
}

// step = rate / (1 - β1ᵗ), root = 1 / √(1 - β2ᵗ), blend = 1 - β: scalars, made once for the whole tensor.
Exprs adam_step(Expr kept, Expr g, Expr m, Expr v, Expr step, Expr root, Expr blend1, Expr blend2, Expr epsilon) {
  const Expr next_m = m + blend1 * (g - m);
  const Expr next_v = v + blend2 * (g * g - v);
  return {kept - step * next_m / (expr::sqrt(next_v) * root + epsilon), next_m, next_v};
}

Exprs adam(Expr w, Expr g, Expr m, Expr v, Expr step, Expr root, Expr blend1, Expr blend2, Expr epsilon,
           Expr weight_decay) {
  return adam_step(w, g + weight_decay * w, m, v, step, root, blend1, blend2, epsilon);
}

// keep = 1 - rate · weight decay.
Exprs adamw(Expr w, Expr g, Expr m, Expr v, Expr step, Expr root, Expr blend1, Expr blend2, Expr epsilon, Expr keep) {
  return adam_step(w * keep, g, m, v, step, root, blend1, blend2, epsilon);
}

// blend = 1 - decay.
Exprs rmsprop(Expr w, Expr g, Expr v, Expr rate, Expr blend, Expr epsilon) {
  const Expr next_v = v + blend * (g * g - v);
  return {w - rate * g / (expr::sqrt(next_v) + epsilon), next_v};
}

Exprs adagrad(Expr w, Expr g, Expr sum, Expr rate, Expr epsilon) {
  const Expr next_sum = sum + g * g;
  return {w - rate * g / (expr::sqrt(next_sum) + epsilon), next_sum};
}

// ---- records

OpDef update(const char* name, const char* doc, expr::Formula formula, std::vector<std::pair<int, int>> in_place) {
  return define({.name = name,
                 .doc = doc,
                 .family = "optimizer",
                 .formula = std::move(formula),
                 .in_place = std::move(in_place)});
}

const OpDef sgd_op = update("sgd_update", "w - rate · (g + weight_decay · w)", sgd, {{0, 0}});
const OpDef momentum_op =
    update("sgd_momentum_update", "SGD with momentum: new w and velocity", sgd_momentum, {{0, 0}, {1, 2}});
const OpDef nesterov_op =
    update("sgd_nesterov_update", "SGD with Nesterov momentum: new w and velocity", sgd_nesterov, {{0, 0}, {1, 2}});
const OpDef adam_op =
    update("adam_update", "Adam, weight decay in the gradient: new w, m and v", adam, {{0, 0}, {1, 2}, {2, 3}});
const OpDef adamw_op = update("adamw_update", "Adam, weight decay apart from the gradient: new w, m and v", adamw,
                              {{0, 0}, {1, 2}, {2, 3}});
const OpDef rmsprop_op = update("rmsprop_update", "RMSprop: new w and v", rmsprop, {{0, 0}, {1, 2}});
const OpDef adagrad_op = update("adagrad_update", "Adagrad: new w and sum", adagrad, {{0, 0}, {1, 2}});

// ---- what the updates share

struct State {
  const char* name;
  const Tensor& value;
};

void check_state(const char* op, const Tensor& w, std::initializer_list<State> states) {
  if (w.dtype() != f32 && w.dtype() != f64)
    throw Error(cat(op, ": the parameter must be f32 or f64, got ", w.type().str(), "; keep a wide copy of it."));
  for (const auto& [name, value] : states) {
    if (value.type() != w.type())
      throw Error(cat(op, ": ", name, " is ", value.type().str(), ", but the parameter is ", w.type().str(), "."));
  }
}

Tensor scalar(const char* op, const char* name, const Operand& value, DType dtype) {
  const Tensor result = value.as(dtype);
  if (result.rank() != 0) throw Error(cat(op, ": ", name, " must be a scalar, got shape ", result.shape(), "."));
  return result;
}

void check_fraction(const char* op, const char* name, double value) {
  if (!(value >= 0 && value < 1)) throw Error(cat(op, ": ", name, " is ", value, "; expected 0 or more, less than 1."));
}

Updated updated(const OpDef& op, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> outputs = record(op.record(), inputs);
  return {outputs[0], {outputs.begin() + 1, outputs.end()}};
}

// 1 - βᵗ. By expm1 it keeps its digits in f32, where 1 - 0.999 has lost four.
Tensor bias_correction(double beta, const Tensor& step) { return -expm1(step * std::log(beta)); }

}  // namespace

std::vector<const OpRecord*> optimizer_ops() {
  return {&sgd_op.record(),   &momentum_op.record(), &nesterov_op.record(), &adam_op.record(),
          &adamw_op.record(), &rmsprop_op.record(),  &adagrad_op.record()};
}

Updated sgd_update(const Tensor& w, const Tensor& g, const Tensor& velocity, const Operand& rate,
                   const SgdOptions& options) {
  const char* const op = "sgd_update";
  const DType dtype = w.dtype();
  check_state(op, w, {{"the gradient", g}});
  const Tensor rate_now = scalar(op, "rate", rate, dtype);
  const Tensor weight_decay = full({}, options.weight_decay, dtype);
  if (!velocity.defined()) {
    if (options.momentum != 0 || options.nesterov)
      throw Error("sgd_update: momentum needs a velocity: a tensor like the parameter, zero at first.");
    return updated(sgd_op, {w, g, rate_now, weight_decay});
  }
  check_state(op, w, {{"the velocity", velocity}});
  return updated(options.nesterov ? nesterov_op : momentum_op,
                 {w, g, velocity, rate_now, full({}, options.momentum, dtype), weight_decay});
}

Updated adam_update(const Tensor& w, const Tensor& g, const Tensor& m, const Tensor& v, const Operand& rate,
                    const Tensor& step, const AdamOptions& options) {
  const char* const op = "adam_update";
  const DType dtype = w.dtype();
  check_state(op, w, {{"the gradient", g}, {"m", m}, {"v", v}});
  check_fraction(op, "beta1", options.beta1);
  check_fraction(op, "beta2", options.beta2);
  const Tensor rate_now = scalar(op, "rate", rate, dtype);
  const Tensor count = scalar(op, "step", step, dtype);
  std::vector<Tensor> inputs = {
      w, g, m, v, rate_now / bias_correction(options.beta1, count), 1 / sqrt(bias_correction(options.beta2, count))};
  for (const double constant : {1 - options.beta1, 1 - options.beta2, options.epsilon})
    inputs.push_back(full({}, constant, dtype));
  inputs.push_back(options.decoupled ? 1 - rate_now * options.weight_decay : full({}, options.weight_decay, dtype));
  return updated(options.decoupled ? adamw_op : adam_op, inputs);
}

Updated rmsprop_update(const Tensor& w, const Tensor& g, const Tensor& v, const Operand& rate,
                       const RmspropOptions& options) {
  const char* const op = "rmsprop_update";
  check_state(op, w, {{"the gradient", g}, {"v", v}});
  check_fraction(op, "decay", options.decay);
  return updated(rmsprop_op, {w, g, v, scalar(op, "rate", rate, w.dtype()), full({}, 1 - options.decay, w.dtype()),
                              full({}, options.epsilon, w.dtype())});
}

Updated adagrad_update(const Tensor& w, const Tensor& g, const Tensor& sum, const Operand& rate, double epsilon) {
  const char* const op = "adagrad_update";
  check_state(op, w, {{"the gradient", g}, {"sum", sum}});
  return updated(adagrad_op, {w, g, sum, scalar(op, "rate", rate, w.dtype()), full({}, epsilon, w.dtype())});
}

}  // namespace varve
