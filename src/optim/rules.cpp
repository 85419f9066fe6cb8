// The rules by which optimisers turn a gradient into a new value. w: parameter, g: gradient, η: rate, λ: weight decay.
#include <cmath>

#include "optim/named.h"
#include "varve/optim.h"

namespace varve::optim {
namespace {

using Slot = Optimizer::Slot;

// The gradient of loss + λ/2 |w|².
Tensor decayed(const Slot& s) { return s.weight_decay == 0 ? s.gradient : s.gradient + s.weight_decay * s.parameter; }

// x + (1 - β) (to - x): the running mean, without the cancellation of β x + (1 - β) to.
Tensor blend(const Tensor& x, const Tensor& to, double beta) { return x + (to - x) * (1 - beta); }

// 1 - βᵗ. By expm1 it keeps its digits in f32.
Tensor bias_correction(double beta, const Tensor& step) { return -expm1(step * std::log(beta)); }

Tensor times_rate(const Slot& s, const Tensor& direction) { return s.rate.to(direction.dtype()) * direction; }

void check_betas(const std::string& name, double beta1, double beta2, double epsilon) {
  check_fraction(name + ": beta1", beta1);
  check_fraction(name + ": beta2", beta2);
  check_at_least(name + ": epsilon", epsilon, 0);
}

Optimizer adam_rule(const char* name, double rate, const AdamOptions& options, bool decoupled) {
  check_betas(name, options.beta1, options.beta2, options.epsilon);
  const varve::AdamOptions fixed{.beta1 = options.beta1,
                                 .beta2 = options.beta2,
                                 .epsilon = options.epsilon,
                                 .weight_decay = 0,
                                 .decoupled = decoupled};
  return Optimizer({.name = name,
                    .state = {"m", "v"},
                    .update =
                        [fixed](const Slot& s) {
                          varve::AdamOptions now = fixed;
                          now.weight_decay = s.weight_decay;
                          return adam_update(s.parameter, s.gradient, s.state[0], s.state[1], s.rate, s.step, now);
                        },
                    .elementwise = true,
                    .lazy = options.lazy},
                   rate, options.weight_decay);
}

// v ← mean of g²;  b ← μ b + g / (√v + ε);  w ← w - η b
Updated rmsprop_momentum(const Slot& s, const RmspropOptions& options) {
  const Tensor g = decayed(s);
  const Tensor v = blend(s.state[0], square(g), options.decay);
  const Tensor velocity = s.state[1] * options.momentum + g / (sqrt(v) + options.epsilon);
  return {s.parameter - times_rate(s, velocity), {v, velocity}};
}

// s ← mean of g²;  Δ = g √(d + ε) / √(s + ε);  d ← mean of Δ²;  w ← w - η Δ      (Zeiler 2012)
Updated adadelta_update(const Slot& s, const AdadeltaOptions& options) {
  const Tensor g = decayed(s);
  const Tensor squares = blend(s.state[0], square(g), options.decay);
  const Tensor delta = g * sqrt(s.state[1] + options.epsilon) / sqrt(squares + options.epsilon);
  return {s.parameter - times_rate(s, delta), {squares, blend(s.state[1], square(delta), options.decay)}};
}

// Adam's direction r; u = r + λ w;  w ← w - η |w| / |u| · u      (You et al. 2020, algorithm 2, with φ(z) = z)
// The paper's "layer" is a parameter here, each with a ratio of its own, biases and norms too; the ratio is 1 where a
// norm is 0, or a parameter that starts at zero would stay there.
Updated lamb_update(const Slot& s, const LambOptions& options) {
  const Tensor step = s.step.to(s.parameter.dtype());
  const Tensor m = blend(s.state[0], s.gradient, options.beta1);
  const Tensor v = blend(s.state[1], square(s.gradient), options.beta2);
  const Tensor root = sqrt(v / bias_correction(options.beta2, step)) + options.epsilon;
  Tensor u = m / bias_correction(options.beta1, step) / root;
  if (s.weight_decay != 0) u = u + s.weight_decay * s.parameter;
  const Tensor w_norm = norm(s.parameter), u_norm = norm(u);
  const Tensor ratio = where(w_norm > 0 && u_norm > 0, w_norm / u_norm, 1);
  return {s.parameter - times_rate(s, ratio * u), {m, v}};
}

}  // namespace

Optimizer sgd(double rate, SgdOptions options) {
  check_fraction("sgd: momentum", options.momentum);
  if (options.nesterov && options.momentum == 0)
    throw Error("sgd: nesterov needs a momentum, such as 0.9; got momentum 0.");
  const bool plain = options.momentum == 0;
  Optimizer::Rule rule{
      .name = "sgd",
      .state = {},
      .update =
          [options, plain](const Slot& s) {
            return sgd_update(
                s.parameter, s.gradient, plain ? Tensor() : s.state[0], s.rate,
                {.momentum = options.momentum, .nesterov = options.nesterov, .weight_decay = s.weight_decay});
          },
      .elementwise = true,
      .still_at_zero = plain,
      .lazy = options.lazy};
  if (!plain) rule.state = {"velocity"};
  return Optimizer(std::move(rule), rate, options.weight_decay);
}

Optimizer adam(double rate, AdamOptions options) { return adam_rule("adam", rate, options, false); }

Optimizer adamw(double rate, AdamOptions options) { return adam_rule("adamw", rate, options, true); }

Optimizer rmsprop(double rate, RmspropOptions options) {
  check_fraction("rmsprop: decay", options.decay);
  check_fraction("rmsprop: momentum", options.momentum);
  check_at_least("rmsprop: epsilon", options.epsilon, 0);
  if (options.momentum != 0) {
    return Optimizer({.name = "rmsprop",
                      .state = {"v", "velocity"},
                      .update = [options](const Slot& s) { return rmsprop_momentum(s, options); },
                      .elementwise = true,
                      .lazy = options.lazy},
                     rate, options.weight_decay);
  }
  const varve::RmspropOptions fixed{.decay = options.decay, .epsilon = options.epsilon};
  return Optimizer(
      {.name = "rmsprop",
       .state = {"v"},
       .update = [fixed](const Slot& s) { return rmsprop_update(s.parameter, decayed(s), s.state[0], s.rate, fixed); },
       .elementwise = true,
       .lazy = options.lazy},
      rate, options.weight_decay);
}

Optimizer adagrad(double rate, AdagradOptions options) {
  check_at_least("adagrad: epsilon", options.epsilon, 0);
  return Optimizer({.name = "adagrad",
                    .state = {"sum"},
                    .update =
                        [options](const Slot& s) {
                          return adagrad_update(s.parameter, decayed(s), s.state[0], s.rate, options.epsilon);
                        },
                    .elementwise = true,
                    .still_at_zero = true,
                    .lazy = options.lazy},
                   rate, options.weight_decay);
}

Optimizer adadelta(double rate, AdadeltaOptions options) {
  check_fraction("adadelta: decay", options.decay);
  check_positive("adadelta: epsilon", options.epsilon);  // 0 would never leave the start
  return Optimizer({.name = "adadelta",
                    .state = {"squares", "deltas"},
                    .update = [options](const Slot& s) { return adadelta_update(s, options); },
                    .elementwise = true,
                    .lazy = options.lazy},
                   rate, options.weight_decay);
}

Optimizer lamb(double rate, LambOptions options) {
  check_betas("lamb", options.beta1, options.beta2, options.epsilon);
  return Optimizer(
      {.name = "lamb", .state = {"m", "v"}, .update = [options](const Slot& s) { return lamb_update(s, options); }},
      rate, options.weight_decay);
}

}  // namespace varve::optim
