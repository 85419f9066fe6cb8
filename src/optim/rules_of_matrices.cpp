// Rules that look at a parameter as a whole, or at all of them. w: parameter, g: gradient, η: rate, λ: weight decay.
#include <algorithm>
#include <cmath>

#include "optim/named.h"
#include "varve/optim.h"

namespace varve::optim {
namespace {

using Slot = Optimizer::Slot;

// In the type of the parameter, where numbers would otherwise be f32.
Tensor rate_of(const Slot& s) { return s.rate.to(s.parameter.dtype()); }

// x + (to - x) · share
Tensor moved(const Tensor& x, const Tensor& to, const Operand& share) { return x + (to - x) * share; }

// c = β₁ m + (1 - β₁) g;  w ← w - η (sign c + λ w);  m ← β₂ m + (1 - β₂) g      (Chen et al. 2023)
Updated lion_update(const Slot& s, const LionOptions& options) {
  Tensor step = sign(moved(s.state[0], s.gradient, 1 - options.beta1));
  if (s.weight_decay != 0) step = step + s.weight_decay * s.parameter;
  return {s.parameter - rate_of(s) * step, {moved(s.state[0], s.gradient, 1 - options.beta2)}};
}

// ---- Adafactor

// The two largest axes, in their order: along them the squares are kept as a row and a column.
struct Factored {
  std::int64_t first = -1, second = -1;
  bool is() const { return second >= 0; }
};
Factored factored(const Shape& shape) {
  if (shape.rank() < 2) return {};
  std::vector<std::int64_t> axes(static_cast<std::size_t>(shape.rank()));
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
  std::stable_sort(axes.begin(), axes.end(), [&](std::int64_t a, std::int64_t b) {
    return shape[static_cast<int>(a)] > shape[static_cast<int>(b)];
  });
  return {std::min(axes[0], axes[1]), std::max(axes[0], axes[1])};
}

Shape without(const Shape& shape, std::int64_t axis) {
  std::vector<std::int64_t> sizes = shape.vec();
  sizes[static_cast<std::size_t>(axis)] = 1;
  return Shape(sizes);
}

// rows: mean of g² along the second axis, columns: along the first; g²  ≈ rows · columns / mean(rows). A parameter of
// one axis keeps them all.
Shape adafactor_shape(const std::string& state, const Variable& parameter) {
  const Factored axes = factored(parameter.shape());
  if (!axes.is()) return state == "rows" ? parameter.shape() : Shape{};
  return without(parameter.shape(), state == "rows" ? axes.second : axes.first);
}

Tensor root_mean_square(const Tensor& x) { return sqrt(mean(square(x))); }

// ρ = 1 - t^-decay of the old squares are kept; u = g / √v, at most `clip` in the root mean square;
// w ← w - min(η, 1/√t) max(ε, |w|) u      (Shazeer & Stern 2018)
Updated adafactor_update(const Slot& s, const AdafactorOptions& options) {
  const DType dtype = s.parameter.dtype();
  const Tensor step = s.step.to(dtype), share = power(step, -options.decay);
  const Factored axes = factored(s.parameter.shape());
  const Tensor squares = square(s.gradient);
  Tensor rows, columns = s.state[1], v;
  if (axes.is()) {
    rows = moved(s.state[0], mean(squares, {.axes = Axes{axes.second}, .keep = true}), share);
    columns = moved(s.state[1], mean(squares, {.axes = Axes{axes.first}, .keep = true}), share);
    v = rows * columns / maximum(mean(rows, {.axes = Axes{axes.first}, .keep = true}), 1e-30);
  } else {
    rows = v = moved(s.state[0], squares, share);
  }
  Tensor u = s.gradient / sqrt(maximum(v, 1e-14));
  u = u / maximum(root_mean_square(u) / options.clip, 1);
  const Tensor rate = minimum(rate_of(s), rsqrt(step)) * maximum(root_mean_square(s.parameter), options.epsilon);
  const Tensor kept = s.weight_decay == 0 ? s.parameter : s.parameter * (1 - rate_of(s) * s.weight_decay);
  return {kept - rate * u, {rows, columns}};
}

// ---- Muon

bool is_matrix(const Variable& parameter) {
  return parameter.shape().rank() >= 2 && parameter.name().find("embedding") == std::string::npos;
}

// An orthogonal matrix near x: x (xᵀx)^-½, by a polynomial of odd powers that drives all singular values towards 1.
// The coefficients are Jordan's (2024): fast, to within some 30%.
Tensor orthogonal(const Tensor& x, int iterations) {
  const bool tall = x.dim(0) > x.dim(1);
  Tensor y = tall ? transpose(x) : x;
  y = y / maximum(norm(y), 1e-7);
  for (int i = 0; i < iterations; ++i) {
    const Tensor a = matmul(y, y, {.transpose_b = true});
    y = 3.4445 * y + matmul(-4.7750 * a + 2.0315 * matmul(a, a), y);
  }
  return tall ? transpose(y) : y;
}

// What a matrix maps from and to. Of kernels [O, …, I] the outputs come first, of all others [I, O] last.
struct Sides {
  std::int64_t rows, columns;
  double out_over_in;
};
Sides sides(const Shape& shape) {
  const std::int64_t rows = shape[0], columns = rows == 0 ? 0 : shape.numel() / rows;
  const bool kernel = shape.rank() > 2;
  const auto in = static_cast<double>(kernel ? columns : rows), out = static_cast<double>(kernel ? rows : columns);
  return {rows, columns, in == 0 ? 1 : out / in};
}

// m ← μ m + (1 - μ) g;  u = orthogonal(μ m + (1 - μ) g);  w ← (1 - ηλ) w - η √max(1, out/in) u
Updated muon_matrix_update(const Slot& s, const MuonOptions& options) {
  const Tensor m = moved(s.state[0], s.gradient, 1 - options.momentum);
  const Tensor direction = options.nesterov ? moved(s.gradient, m, options.momentum) : m;
  const Shape& shape = s.parameter.shape();
  const Sides of = sides(shape);
  const Tensor u = reshape(orthogonal(reshape(direction, {of.rows, of.columns}), options.iterations), shape);
  const Tensor kept = s.weight_decay == 0 ? s.parameter : s.parameter * (1 - rate_of(s) * s.weight_decay);
  return {kept - rate_of(s) * std::sqrt(std::max(1.0, of.out_over_in)) * u, {m, s.state[1]}};
}

Updated muon_update(const Slot& s, double rate, const MuonOptions& options) {
  if (s.state[1].shape() != s.parameter.shape()) return muon_matrix_update(s, options);
  const Tensor adam_rate = s.rate * (rate == 0 ? 0 : options.adam_rate / rate);
  return adam_update(s.parameter, s.gradient, s.state[0], s.state[1], adam_rate, s.step,
                     {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = s.weight_decay, .decoupled = true});
}

// ---- L-BFGS

// Of all parameters as one vector.
Tensor dot(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  Tensor total;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Tensor part = sum(a[i] * b[i]);
    total = total.defined() ? total + part.to(total.dtype()) : part;
  }
  return total;
}

std::vector<Tensor> added(const std::vector<Tensor>& a, const std::vector<Tensor>& b, const Tensor& times) {
  std::vector<Tensor> all;
  for (std::size_t i = 0; i < a.size(); ++i) all.push_back(a[i] + b[i] * times.to(a[i].dtype()));
  return all;
}

// The step and the change of the gradient k steps ago, 0 the newest.
std::vector<Tensor> remembered(const std::vector<Tensor>& histories, std::int64_t k) {
  std::vector<Tensor> all;
  for (const Tensor& history : histories) {
    const std::int64_t at = history.dim(0) - 1 - k;
    all.push_back(squeeze(history.slice({{at, at + 1}}), {0}));
  }
  return all;
}

Tensor inverse_or_zero(const Tensor& x) { return where(x > 0, reciprocal(where(x > 0, x, 1)), 0); }

// H g, by the two loops over what is remembered (Nocedal 1980). Places that hold nothing are zero and change nothing.
std::vector<Tensor> inverse_hessian_times(std::vector<Tensor> q, const std::vector<Tensor>& steps,
                                          const std::vector<Tensor>& changes, int history) {
  std::vector<Tensor> alphas;
  for (int k = 0; k < history; ++k) {
    const std::vector<Tensor> s = remembered(steps, k), y = remembered(changes, k);
    alphas.push_back(inverse_or_zero(dot(s, y)) * dot(s, q));
    q = added(q, y, -alphas.back());
  }
  // The scale of the newest pair; at first, a step of length one at most.
  const std::vector<Tensor> s = remembered(steps, 0), y = remembered(changes, 0);
  Tensor ones_norm;
  for (const Tensor& each : q) {
    const Tensor part = sum(abs(each));
    ones_norm = ones_norm.defined() ? ones_norm + part.to(ones_norm.dtype()) : part;
  }
  const Tensor sy = dot(s, y),
               scale = where(sy > 0, sy * inverse_or_zero(dot(y, y)), minimum(1, inverse_or_zero(ones_norm)));
  for (Tensor& each : q) each = each * scale.to(each.dtype());
  for (int k = history - 1; k >= 0; --k) {
    const std::vector<Tensor> s_k = remembered(steps, k), y_k = remembered(changes, k);
    const Tensor beta = inverse_or_zero(dot(s_k, y_k)) * dot(y_k, q);
    q = added(q, s_k, alphas[static_cast<std::size_t>(k)] - beta);
  }
  return q;
}

Tensor pushed(const Tensor& history, const Tensor& newest, const Tensor& when) {
  const Tensor next = concat({history.slice({{1, kEnd}}), expand_dims(newest, 0)}, 0);
  return where(when, next, history);
}

// State: the last steps, the last changes of the gradient, the last gradient, the last step.
enum LbfgsState : std::uint8_t { kSteps, kChanges, kGradient, kStep };

std::vector<Updated> lbfgs_update(const std::vector<Slot>& slots, int history) {
  if (slots.empty()) return {};
  std::vector<Tensor> g, last_step, change, steps, changes;
  for (const Slot& slot : slots) {
    g.push_back(slot.weight_decay == 0 ? slot.gradient : slot.gradient + slot.weight_decay * slot.parameter);
    last_step.push_back(slot.state[kStep]);
    change.push_back(g.back() - slot.state[kGradient]);
  }
  // A pair without positive curvature (noise, say) would make the model of the loss useless: it is not remembered.
  const Tensor sy = dot(last_step, change);
  const Tensor keeps = slots[0].step.to(sy.dtype()) > 1 && sy > 1e-10 * dot(change, change) && is_finite(sy);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    steps.push_back(pushed(slots[i].state[kSteps], last_step[i], keeps));
    changes.push_back(pushed(slots[i].state[kChanges], change[i], keeps));
  }
  const std::vector<Tensor> direction = inverse_hessian_times(g, steps, changes, history);
  std::vector<Updated> all;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Tensor step = -rate_of(slots[i]) * direction[i];
    all.push_back({slots[i].parameter + step, {steps[i], changes[i], g[i], step}});
  }
  return all;
}

}  // namespace

Optimizer lion(double rate, LionOptions options) {
  check_fraction("lion: beta1", options.beta1);
  check_fraction("lion: beta2", options.beta2);
  return Optimizer({.name = "lion",
                    .state = {"m"},
                    .update = [options](const Slot& s) { return lion_update(s, options); },
                    .elementwise = true},
                   rate, options.weight_decay);
}

Optimizer adafactor(double rate, AdafactorOptions options) {
  check_positive("adafactor: decay", options.decay);
  check_at_least("adafactor: epsilon", options.epsilon, 0);
  check_positive("adafactor: clip", options.clip);
  return Optimizer({.name = "adafactor",
                    .state = {"rows", "columns"},
                    .update = [options](const Slot& s) { return adafactor_update(s, options); },
                    .shape = adafactor_shape},
                   rate, options.weight_decay);
}

Optimizer muon(double rate, MuonOptions options) {
  check_fraction("muon: momentum", options.momentum);
  check_at_least("muon: adam_rate", options.adam_rate, 0);
  if (options.iterations < 1 || options.iterations > 100)
    throw Error("muon: iterations is " + std::to_string(options.iterations) + "; expected 1 to 100.");
  if (!options.orthogonal) options.orthogonal = is_matrix;
  const auto shape = [match = options.orthogonal](const std::string& state, const Variable& parameter) {
    const bool matrix = parameter.shape().rank() >= 2 && match(parameter);
    return matrix && state == "v" ? Shape{} : parameter.shape();
  };
  return Optimizer({.name = "muon",
                    .state = {"m", "v"},
                    .update = [rate, options](const Slot& s) { return muon_update(s, rate, options); },
                    .shape = shape},
                   rate, options.weight_decay);
}

Optimizer lbfgs(double rate, LbfgsOptions options) {
  constexpr int kMost = 100;
  if (options.history < 1 || options.history > kMost)
    throw Error("lbfgs: history is " + std::to_string(options.history) + "; expected 1 to " + std::to_string(kMost) +
                ".");
  const auto shape = [history = options.history](const std::string& state, const Variable& parameter) {
    if (state != "steps" && state != "changes") return parameter.shape();
    std::vector<std::int64_t> sizes = parameter.shape().vec();
    sizes.insert(sizes.begin(), history);
    return Shape(sizes);
  };
  return Optimizer({.name = "lbfgs",
                    .state = {"steps", "changes", "gradient", "step"},
                    .update = {},
                    .shape = shape,
                    .update_all = [history = options.history](
                                      const std::vector<Slot>& slots) { return lbfgs_update(slots, history); }},
                   rate, options.weight_decay);
}

}  // namespace varve::optim
