#include <cmath>

#include "ops/row.h"

namespace varve::test {

namespace {

Tensors packed(const Updated& updated) {
  Tensors all = updated.state;
  all.insert(all.begin(), updated.parameter);
  return all;
}

// One element of every array in, new parameter and state out. `in` also holds the scalars.
using Step = std::function<std::vector<double>(const std::vector<double>& in)>;

DoublesList stepped(const DoublesList& in, const Step& step) {
  const std::size_t outputs = step(std::vector<double>(in.size(), 1)).size();
  DoublesList out(outputs, doubles(in[0].shape));
  for (std::size_t i = 0; i < in[0].data.size(); ++i) {
    std::vector<double> element;
    for (const Doubles& input : in) element.push_back(input.data[input.shape.rank() == 0 ? 0 : i]);
    const std::vector<double> result = step(element);
    for (std::size_t o = 0; o < outputs; ++o) out[o].data[i] = result[o];
  }
  return out;
}

// `arrays` tensors of one shape, then scalars.
std::vector<std::vector<Shape>> shapes_of(std::size_t arrays, std::size_t scalars, const std::vector<Shape>& sizes) {
  std::vector<std::vector<Shape>> cases;
  for (const Shape& size : sizes) {
    cases.emplace_back(arrays, size);
    cases.back().resize(arrays + scalars);
  }
  return cases;
}

Row update_row(const std::string& op, const std::string& label, std::size_t arrays, std::size_t scalars,
               Function<Tensor> call, const Step& step) {
  Row row{.op = op,
          .label = label,
          .call = std::move(call),
          .oracle = [=](const DoublesList& in) { return stepped(in, step); },
          .shapes = shapes_of(arrays, scalars, {Shape{}, {0}, {7}, {3, 5}, {2, 1031}}),
          .types = {f32, f64},
          .gradient_shapes = shapes_of(arrays, scalars, {{2, 3}})};
  row.ranges[static_cast<int>(arrays)] = {0.01, 0.2};  // the rate
  return row;
}

// ---- stochastic gradient descent

std::vector<Row> sgd_rows() {
  std::vector<Row> rows;
  rows.push_back(update_row(
      "sgd_update", "", 2, 1,
      [](const Tensors& in) { return packed(sgd_update(in[0], in[1], {}, in[2], {.weight_decay = 0.1})); },
      [](const std::vector<double>& x) { return std::vector{x[0] - x[2] * (x[1] + 0.1 * x[0])}; }));
  for (const bool nesterov : {false, true})
    rows.push_back(update_row(
        nesterov ? "sgd_nesterov_update" : "sgd_momentum_update", "", 3, 1,
        [=](const Tensors& in) {
          return packed(
              sgd_update(in[0], in[1], in[2], in[3], {.momentum = 0.9, .nesterov = nesterov, .weight_decay = 0.01}));
        },
        [=](const std::vector<double>& x) {
          const double g = x[1] + 0.01 * x[0], v = 0.9 * x[2] + g;
          return std::vector{x[0] - x[3] * (nesterov ? g + 0.9 * v : v), v};
        }));
  return rows;
}

// ---- Adam

Step adam_step(const AdamOptions& o) {
  return [o](const std::vector<double>& x) {
    const double rate = x[4], t = x[5];
    const double w = o.decoupled ? x[0] * (1 - rate * o.weight_decay) : x[0];
    const double g = o.decoupled ? x[1] : x[1] + o.weight_decay * x[0];
    const double m = o.beta1 * x[2] + (1 - o.beta1) * g, v = o.beta2 * x[3] + (1 - o.beta2) * g * g;
    const double unbiased_m = m / (1 - std::pow(o.beta1, t)), unbiased_v = v / (1 - std::pow(o.beta2, t));
    return std::vector{w - rate * unbiased_m / (std::sqrt(unbiased_v) + o.epsilon), m, v};
  };
}

Row adam_row(const std::string& label, const AdamOptions& options, double t) {
  Row row = update_row(
      options.decoupled ? "adamw_update" : "adam_update", label, 4, 2,
      [=](const Tensors& in) { return packed(adam_update(in[0], in[1], in[2], in[3], in[4], in[5], options)); },
      adam_step(options));
  row.ranges[3] = {0.1, 1};  // the second moment is a mean of squares
  row.fixed_types = {{5, i64}};
  row.adjust = [t](DoublesList& in) { in[5].data[0] = t; };
  return row;
}

std::vector<Row> adam_rows() {
  Row first = adam_row("firstStep", {}, 1);
  first.adjust = [](DoublesList& in) {
    for (const std::size_t i : {2u, 3u}) std::fill(in[i].data.begin(), in[i].data.end(), 0.0);
    if (!in[1].data.empty()) in[1].data[0] = 0;  // no gradient yet: nothing moves, and nothing is divided by zero
    in[5].data[0] = 1;
  };
  no_gradient(first);
  return {adam_row("", {.weight_decay = 0.1}, 3), adam_row("manySteps", {.beta1 = 0, .epsilon = 0.1}, 12345), first,
          adam_row("", {.weight_decay = 0.1, .decoupled = true}, 10)};
}

// ---- the others

std::vector<Row> scaled_rows() {
  Row rmsprop = update_row(
      "rmsprop_update", "", 3, 1,
      [](const Tensors& in) {
        return packed(rmsprop_update(in[0], in[1], in[2], in[3], {.decay = 0.95, .epsilon = 1e-3}));
      },
      [](const std::vector<double>& x) {
        const double v = 0.95 * x[2] + 0.05 * x[1] * x[1];
        return std::vector{x[0] - x[3] * x[1] / (std::sqrt(v) + 1e-3), v};
      });
  Row adagrad = update_row(
      "adagrad_update", "", 3, 1, [](const Tensors& in) { return packed(adagrad_update(in[0], in[1], in[2], in[3])); },
      [](const std::vector<double>& x) {
        const double sum = x[2] + x[1] * x[1];
        return std::vector{x[0] - x[3] * x[1] / (std::sqrt(sum) + 1e-10), sum};
      });
  for (Row* row : {&rmsprop, &adagrad}) row->ranges[2] = {0.1, 1};
  return {rmsprop, adagrad};
}

}  // namespace

std::vector<Row> optimizer_rows() {
  std::vector<Row> rows;
  for (auto family : {sgd_rows, adam_rows, scaled_rows}) {
    const std::vector<Row> part = family();
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace varve::test
