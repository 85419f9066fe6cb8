// Activations, elementwise and along an axis.
#include <algorithm>
#include <cmath>

#include "ops/rows_arithmetic.h"
#include "tensor/record.h"

namespace varve::test {

namespace {

const std::vector<double> kNasty = {0, -0.0, 1, -1, 3, -3, 6, 0.001, -40, 40, 100, -100, kNaN};

double logistic(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
double log_one_plus_exp(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double between(double x, double low, double high) { return std::isnan(x) ? x : std::clamp(x, low, high); }
double six(double x) { return between(x, 0, 6); }

void add_smooth(std::vector<Row>& rows) {
  const auto row = [&](const OpDef& op, std::function<double(double)> oracle) {
    rows.push_back(unary_row(
        op.name(), [&op](const Tensor& x) { return op(x); }, std::move(oracle), kNasty));
  };
  row(sigmoid, logistic);
  row(log_sigmoid, [](double x) { return -log_one_plus_exp(-x); });
  row(softplus, log_one_plus_exp);
  row(gelu, [](double x) { return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0))); });
  rows.back().covers = {"gelu_slope"};
  row(gelu_tanh,
      [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * std::pow(x, 3)))); });
  row(silu, [](double x) { return x * logistic(x); });
  row(mish, [](double x) { return x * std::tanh(log_one_plus_exp(x)); });
}

void add_kinked(std::vector<Row>& rows) {
  const auto row = [&](const OpDef& op, std::function<double(double)> oracle) {
    rows.push_back(unary_row(
        op.name(), [&op](const Tensor& x) { return op(x); }, std::move(oracle), kNasty, kinked));
  };
  rows.push_back(unary_row(
      "relu", [](const Tensor& x) { return relu(x); }, [](double x) { return x < 0 ? 0 : x; }, kNasty,
      [](Row& r) {
        kinked(r);
        r.covers = {"relu_grad"};
      }));
  row(relu6, six);
  row(selu, [](double x) { return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * (std::exp(x) - 1)); });
  row(softsign, [](double x) { return x / (std::abs(x) + 1); });
  row(hardsigmoid, [](double x) { return six(x + 3) / 6; });
  row(hardswish, [](double x) { return x * six(x + 3) / 6; });
  row(hardtanh, [](double x) { return between(x, -1, 1); });
  rows.push_back(unary_row(
      "relu", [](const Tensor& x) { return relu(x); }, [](double x) { return x < 0 ? 0 : x; }, {},
      [](Row& r) {
        whole_numbers(r);
        r.label = "integers";
      }));
}

void add_with_slope(std::vector<Row>& rows) {
  const auto leaky = [](double x, double slope) { return x > 0 ? x : slope * x; };
  const auto exponential = [](double x, double alpha) { return x > 0 ? x : alpha * std::expm1(x); };
  rows.push_back(unary_row(
      "leaky_relu", [](const Tensor& x) { return leaky_relu(x); }, [=](double x) { return leaky(x, 0.01); }, kNasty,
      kinked));
  rows.push_back(unary_row(
      "elu", [](const Tensor& x) { return elu(x, 1.5); }, [=](double x) { return exponential(x, 1.5); }, kNasty,
      kinked));
  const auto two = [&](const char* op, const char* label, Binary call, std::function<double(double, double)> oracle) {
    rows.push_back(binary_row(op, std::move(call), std::move(oracle), {0, 1, -1, 40, -40, kNaN}, [=](Row& r) {
      kinked(r);
      r.label = label;
      r.shapes = {{Shape{}, Shape{}}, {{0, 3}, {3}}, {{3, 5}, {5}}, {{2, 3, 67}, {67}}, {{7}, {1}}};
      r.gradient_shapes = {{{3, 5}, {5}}, {{2, 3}, {1}}};
    }));
  };
  two(
      "leaky_relu", "prelu", [](const Tensor& x, const Tensor& slope) { return prelu(x, slope); }, leaky);
  two(
      "elu", "tensor", [](const Tensor& x, const Tensor& alpha) { return elu(x, alpha); }, exponential);
}

// Positions of the elements of each line along an axis.
void each_line(const Shape& shape, std::int64_t axis,
               const std::function<void(const std::vector<std::size_t>&)>& visit) {
  const auto a = static_cast<std::size_t>(axis < 0 ? axis + shape.rank() : axis);
  Shape rest = shape;
  rest[static_cast<int>(a)] = 1;
  each_index(rest, [&](std::vector<std::int64_t> index) {
    std::vector<std::size_t> line;
    for (index[a] = 0; index[a] < shape[static_cast<int>(a)]; ++index[a])
      line.push_back(static_cast<std::size_t>(offset(shape, index)));
    visit(line);
  });
}

// The largest exponent taken out first.
Doubles log_probabilities(const Doubles& x, std::int64_t axis) {
  Doubles out = x;
  each_line(x.shape, axis, [&](const std::vector<std::size_t>& line) {
    double largest = -kInfinity, total = 0;
    bool nan = false;
    for (const std::size_t i : line) {
      largest = std::max(largest, x.data[i]);
      nan = nan || std::isnan(x.data[i]);
    }
    for (const std::size_t i : line) total += std::exp(x.data[i] - largest);
    for (const std::size_t i : line) out.data[i] = nan ? kNaN : x.data[i] - largest - std::log(total);
  });
  return out;
}

// y · (dy - Σ dy·y), or dy - eʸ · Σ dy; `sign` of what is subtracted: with +1 and absolute values the sum's magnitude.
Doubles softmax_gradient(const DoublesList& in, bool log, std::int64_t axis, double sign) {
  const Doubles &y = in[0], &dy = in[1];
  Doubles dx = dy;
  each_line(y.shape, axis, [&](const std::vector<std::size_t>& line) {
    double total = 0;
    for (const std::size_t i : line) total += log ? dy.data[i] : dy.data[i] * y.data[i];
    for (const std::size_t i : line)
      dx.data[i] = log ? dy.data[i] + sign * std::exp(y.data[i]) * total : y.data[i] * (dy.data[i] + sign * total);
  });
  return dx;
}

// Straight through the records: softmax itself gives them no values but its own.
void add_softmax_gradients(std::vector<Row>& rows) {
  for (const std::string op : {"softmax_grad", "log_softmax_grad"})
    for (const std::int64_t axis : {1, 0}) {
      const bool log = op == "log_softmax_grad";
      rows.push_back({.op = op,
                      .label = axis == 1 ? "last" : "first",
                      .call =
                          [op, axis](const Tensors& in) {
                            return record(find_operator(op), in, {{"axis", axis}});
                          },
                      .oracle = [=](const DoublesList& in) { return softmax_gradient(in, log, axis, -1); },
                      .shapes = {{{3, 5}, {3, 5}}, {{1, 1}, {1, 1}}, {{0, 3}, {0, 3}}, {{4, 67}, {4, 67}}},
                      .terms = [axis](const std::vector<Shape>& s) { return 2 + static_cast<double>(s[0][axis == 1]); },
                      .magnitude =
                          [=](DoublesList in) {
                            for (double& v : in[0].data) v = log ? v : std::abs(v);
                            for (double& v : in[1].data) v = std::abs(v);
                            return softmax_gradient(in, log, axis, 1);
                          },
                      .gradient_shapes = {{{3, 5}, {3, 5}}}});
    }
}

void add_softmax(std::vector<Row>& rows) {
  const auto both = [&](const std::string& label, std::int64_t axis, std::vector<std::vector<Shape>> shapes,
                        std::vector<double> values) {
    const auto log_oracle = [axis](const DoublesList& in) { return log_probabilities(in[0], axis); };
    const auto oracle = [axis](const DoublesList& in) {
      Doubles out = log_probabilities(in[0], axis);
      for (double& v : out.data) v = std::exp(v);
      return out;
    };
    rows.push_back({.op = "softmax",
                    .label = label,
                    .covers = {"softmax_grad"},
                    .call = [axis](const Tensors& in) { return softmax(in[0], axis); },
                    .oracle = oracle,
                    .shapes = shapes,
                    .values = values,
                    .range = {-4, 4}});
    rows.push_back({.op = "log_softmax",
                    .label = label,
                    .covers = {"log_softmax_grad"},
                    .call = [axis](const Tensors& in) { return log_softmax(in[0], axis); },
                    .oracle = log_oracle,
                    .shapes = std::move(shapes),
                    .values = std::move(values),
                    .range = {-4, 4}});
  };
  const std::vector<double> large = {1000, -1000, 90, -90, 0, -kInfinity};
  both("last", -1, {{{7}}, {{3, 5}}, {{2, 3, 4}}, {{1, 1}}, {{0, 3}}, {{3, 0}}}, large);
  both("first", 0, {{{7, 3}}, {{1, 5}}}, large);
  both("middle", 1, {{{2, 5, 3}}}, {});
  both("nan", -1, {{{4, 3}}}, {kNaN, 1, 2, 3});
}

}  // namespace

std::vector<Row> activation_rows() {
  std::vector<Row> rows;
  add_smooth(rows);
  add_kinked(rows);
  add_with_slope(rows);
  add_softmax(rows);
  add_softmax_gradients(rows);
  return rows;
}

}  // namespace varve::test
