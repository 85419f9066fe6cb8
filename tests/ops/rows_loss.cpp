#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/row.h"

namespace varve::test {

namespace {

using Labelled = std::vector<std::vector<Shape>>;
const Labelled kLogitsAndLabels = {{{4, 5}, {4}}, {{2, 3, 7}, {2, 3}}, {{5}, Shape{}},
                                   {{0, 3}, {0}}, {{4, 3}, {4}},       {{33, 131}, {33}}};

std::vector<double> softmax_of(const double* logits, std::size_t classes) {
  std::vector<double> p(logits, logits + classes);
  const double largest = *std::max_element(p.begin(), p.end());
  for (double& v : p) v = std::exp(v - largest);
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& v : p) v /= total;
  return p;
}

Doubles cross_entropies(const Doubles& logits, const Doubles& labels) {
  Doubles out = doubles(labels.shape);
  const auto classes = static_cast<std::size_t>(logits.shape.back());
  for (std::size_t row = 0; row < labels.data.size(); ++row) {
    const double* x = logits.data.data() + row * classes;
    const double largest = *std::max_element(x, x + classes);
    double total = 0;
    for (std::size_t c = 0; c < classes; ++c) total += std::exp(x[c] - largest);
    out.data[row] = std::log(total) + largest - x[static_cast<std::size_t>(labels.data[row])];
  }
  return out;
}

Doubles cross_entropy_gradient(const Doubles& logits, const Doubles& labels, const Doubles& dloss) {
  Doubles out = logits;
  const auto classes = static_cast<std::size_t>(logits.shape.back());
  for (std::size_t row = 0; row < labels.data.size(); ++row) {
    std::vector<double> p = softmax_of(logits.data.data() + row * classes, classes);
    p[static_cast<std::size_t>(labels.data[row])] -= 1;
    for (std::size_t c = 0; c < classes; ++c) out.data[row * classes + c] = p[c] * dloss.data[row];
  }
  return out;
}

Doubles reduced(const Doubles& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  const double total = std::accumulate(losses.data.begin(), losses.data.end(), 0.0);
  return {{}, {reduction == Reduction::sum ? total : total / static_cast<double>(losses.data.size())}};
}

const char* label_of(Reduction reduction) {
  return reduction == Reduction::mean ? "mean" : reduction == Reduction::sum ? "sum" : "none";
}

constexpr Reduction kReductions[] = {Reduction::mean, Reduction::sum, Reduction::none};

std::vector<Row> cross_entropy_rows() {
  std::vector<Row> rows;
  rows.push_back({.op = "softmax_cross_entropy",
                  .covers = {"softmax_cross_entropy_grad"},
                  .call = [](const Tensors& in) { return cross_entropy(in[0], in[1], Reduction::none); },
                  .oracle = [](const DoublesList& in) { return cross_entropies(in[0], in[1]); },
                  .shapes = kLogitsAndLabels,
                  .values = {100, -100, 0},
                  .integer_inputs = {{1, 3}},
                  .gradient_shapes = {{{4, 5}, {4}}, {{5}, Shape{}}, {{2, 3, 4}, {2, 3}}}});
  Labelled with_dloss = kLogitsAndLabels;
  for (std::vector<Shape>& shapes : with_dloss) shapes.push_back(shapes[1]);
  rows.push_back(
      {.op = "softmax_cross_entropy_grad",
       .call = [](const Tensors& in) { return OpDef(&find_operator("softmax_cross_entropy_grad")).call(in); },
       .oracle = [](const DoublesList& in) { return cross_entropy_gradient(in[0], in[1], in[2]); },
       .shapes = with_dloss,
       .integer_inputs = {{1, 3}},
       .gradient_shapes = {{{4, 5}, {4}, {4}}, {{5}, Shape{}, Shape{}}}});
  for (const Reduction reduction : {Reduction::mean, Reduction::sum})
    rows.push_back({.op = "cross_entropy",
                    .label = label_of(reduction),
                    .covers = {"softmax_cross_entropy", "softmax_cross_entropy_grad"},
                    .call = [=](const Tensors& in) { return cross_entropy(in[0], in[1], reduction); },
                    .oracle = [=](const DoublesList& in) { return reduced(cross_entropies(in[0], in[1]), reduction); },
                    .shapes = kLogitsAndLabels,
                    .integer_inputs = {{1, 3}},
                    .slack = 2,  // the losses are rounded, then their sum
                    .gradient_shapes = {{{4, 5}, {4}}}});
  return rows;
}

// ---- pairs of equal shape

struct PairLoss {
  std::string op;
  std::function<Tensor(const Tensor&, const Tensor&, Reduction)> call;
  std::function<double(double, double)> oracle;
  std::function<void(Row&)> more = {};
};

std::vector<Row> pair_rows(const PairLoss& loss) {
  std::vector<Row> rows;
  for (const Reduction reduction : kReductions) {
    Row row{.op = loss.op,
            .label = label_of(reduction),
            .call = [=](const Tensors& in) { return loss.call(in[0], in[1], reduction); },
            .oracle =
                [=](const DoublesList& in) {
                  Doubles out = in[0];
                  for (std::size_t i = 0; i < out.data.size(); ++i)
                    out.data[i] = loss.oracle(in[0].data[i], in[1].data[i]);
                  return reduced(out, reduction);
                },
            .shapes = {{Shape{}, Shape{}}, {{0}, {0}}, {{7}, {7}}, {{3, 5}, {3, 5}}, {{2, 131}, {2, 131}}},
            .slack = 4,  // the elements are rounded, then their sum
            .gradient_shapes = {{{3, 5}, {3, 5}}, {Shape{}, Shape{}}}};
    if (loss.more) loss.more(row);
    rows.push_back(std::move(row));
  }
  return rows;
}

double log_sigmoid_of(double x) { return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x)); }

// Sets the first values of an input.
std::function<void(DoublesList&)> beginning(std::size_t input, std::vector<double> values) {
  return [=](DoublesList& in) {
    std::vector<double>& data = in[input].data;
    if (data.size() >= 100) std::copy(values.begin(), values.end(), data.begin());
  };
}

std::vector<PairLoss> pair_losses() {
  return {{.op = "binary_cross_entropy",
           .call = binary_cross_entropy,
           .oracle = [](double x, double z) { return -z * log_sigmoid_of(x) - (1 - z) * log_sigmoid_of(-x); },
           .more =
               [](Row& row) {
                 row.ranges = {{1, {0, 1}}};
                 row.adjust = beginning(0, {0, -0.0, 50, -50, 200, -200});
               }},
          {.op = "mse_loss", .call = mse_loss, .oracle = [](double a, double b) { return (a - b) * (a - b); }},
          {.op = "l1_loss", .call = l1_loss, .oracle = [](double a, double b) { return std::abs(a - b); }},
          {.op = "huber_loss",
           .call = [](const Tensor& a, const Tensor& b, Reduction r) { return huber_loss(a, b, 0.75, r); },
           .oracle =
               [](double a, double b) {
                 const double d = std::abs(a - b);
                 return d <= 0.75 ? d * d / 2 : 0.75 * (d - 0.375);
               }},
          {.op = "kl_div",
           .call = kl_div,
           .oracle = [](double log_p, double target) { return target > 0 ? target * (std::log(target) - log_p) : 0.0; },
           .more =
               [](Row& row) {
                 row.ranges = {{0, {-4, 0}}, {1, {0.1, 1}}};
                 row.adjust = beginning(1, {0, 1, 0, -0.0});
               }}};
}

}  // namespace

std::vector<Row> loss_rows() {
  std::vector<Row> rows = cross_entropy_rows();
  for (const PairLoss& loss : pair_losses()) {
    const std::vector<Row> part = pair_rows(loss);
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace varve::test
