// Normalisations, each from the mean and variance of its set of values.
#include <cmath>

#include "ops/row.h"

namespace varve::test {
namespace {

using Index = std::vector<std::int64_t>;
constexpr double kEpsilon = 1e-5;

// The set that an element is normalised with.
using SetOf = std::function<std::int64_t(const Index& index)>;

struct Statistics {
  std::vector<double> mean, var;
};

Statistics statistics(const Doubles& x, std::int64_t sets, const SetOf& set_of) {
  const auto n = static_cast<std::size_t>(sets);
  std::vector<double> count(n), mean(n), var(n);
  std::size_t next = 0;
  each_index(x.shape, [&](const Index& i) {
    const auto set = static_cast<std::size_t>(set_of(i));
    ++count[set];
    mean[set] += x.data[next++];
  });
  for (std::size_t s = 0; s < n; ++s) mean[s] /= count[s];
  next = 0;
  each_index(x.shape, [&](const Index& i) {
    const auto set = static_cast<std::size_t>(set_of(i));
    var[set] += std::pow(x.data[next++] - mean[set], 2) / count[set];
  });
  return {mean, var};
}

// in: x, scale, shift
Doubles normalised(const DoublesList& in, const Statistics& s, const SetOf& set_of) {
  Doubles y = in[0];
  std::size_t next = 0;
  each_index(y.shape, [&](const Index& i) {
    const auto set = static_cast<std::size_t>(set_of(i)), channel = static_cast<std::size_t>(i.back());
    double& v = y.data[next++];
    v = (v - s.mean[set]) / std::sqrt(s.var[set] + kEpsilon) * in[1].data[channel] + in[2].data[channel];
  });
  return y;
}

std::int64_t channel_of(const Index& i) { return i.back(); }

// The row of the last axis that an element stands in.
SetOf row_in(const Shape& shape) {
  return [shape](const Index& i) { return offset(shape, i) / shape.back(); };
}

DoublesList batch_norm_oracle(const DoublesList& in) {
  const Statistics s = statistics(in[0], in[0].shape.back(), channel_of);
  const Shape channels{in[0].shape.back()};
  return {normalised(in, s, channel_of), {channels, s.mean}, {channels, s.var}};
}

Row batch_norm_row() {
  return {.op = "batch_norm_train",
          .covers = {"batch_norm_train_grad"},
          .call =
              [](const Tensors& in) {
                const BatchNorm r = batch_norm_train(in[0], in[1], in[2], kEpsilon);
                return Tensors{r.y, r.mean, r.var};
              },
          .oracle = batch_norm_oracle,
          .shapes = {{{7, 3}, {3}, {3}},
                     {{2, 4, 5, 3}, {3}, {3}},
                     {{1, 1}, {1}, {1}},
                     {{40, 17}, {17}, {17}},
                     {{3, 0}, {0}, {0}}},
          .gradient_shapes = {{{6, 3}, {3}, {3}}, {{2, 2, 3, 2}, {2}, {2}}}};
}

Row batch_norm_inference_row() {
  return {.op = "batch_norm",
          .call = [](const Tensors& in) { return batch_norm(in[0], in[1], in[2], in[3], in[4], kEpsilon); },
          .oracle =
              [](const DoublesList& in) {
                return normalised(in, {in[3].data, in[4].data}, channel_of);
              },
          .shapes = {{{7, 3}, {3}, {3}, {3}, {3}}, {{2, 4, 5, 3}, {3}, {3}, {3}, {3}}, {{0, 3}, {3}, {3}, {3}, {3}}},
          .ranges = {{4, {0.1, 2}}}};
}

Doubles layer_norm_oracle(const DoublesList& in) {
  const Shape& shape = in[0].shape;
  const std::int64_t rows = Shape(Index(shape.begin(), shape.end() - 1)).numel();
  return normalised(in, statistics(in[0], rows, row_in(shape)), row_in(shape));
}

Row layer_norm_row() {
  return {
      .op = "layer_norm",
      .covers = {"layer_norm_grad"},
      .call = [](const Tensors& in) { return layer_norm(in[0], in[1], in[2], kEpsilon); },
      .oracle = layer_norm_oracle,
      .shapes = {{{7}, {7}, {7}}, {{3, 8}, {8}, {8}}, {{2, 3, 65}, {65}, {65}}, {{0, 4}, {4}, {4}}, {{5, 1}, {1}, {1}}},
      .gradient_shapes = {{{5}, {5}, {5}}, {{2, 3, 4}, {4}, {4}}, {{0, 4}, {4}, {4}}}};
}

// Far from zero: variance as a mean of squares minus a squared mean would have no digits left.
Row far_from_zero_row() {
  Row row = layer_norm_row();
  row.label = "farfromzero";
  row.ranges = {{0, {999, 1001}}};
  row.types = {f32, f64};
  row.slack = 50;  // the mean of thousands in f32 is off by 6e-5
  row.gradient = false;
  return row;
}

// Equal values: variance 0 leaves the shift.
Row constant_row() {
  Row row = layer_norm_row();
  row.label = "constant";
  row.adjust = [](DoublesList& in) {
    for (double& v : in[0].data) v = 3;
  };
  row.gradient = false;
  return row;
}

Row rms_norm_row() {
  return {.op = "rms_norm",
          .call = [](const Tensors& in) { return rms_norm(in[0], in[1], kEpsilon); },
          .oracle =
              [](const DoublesList& in) {
                Doubles y = in[0];
                const std::size_t width = in[1].data.size();
                for (std::size_t begin = 0; begin < y.data.size(); begin += width) {
                  double squares = 0;
                  for (std::size_t i = 0; i < width; ++i) squares += y.data[begin + i] * y.data[begin + i];
                  const double root = std::sqrt(squares / static_cast<double>(width) + kEpsilon);
                  for (std::size_t i = 0; i < width; ++i) y.data[begin + i] *= in[1].data[i] / root;
                }
                return y;
              },
          .shapes = {{{7}, {7}}, {{3, 8}, {8}}, {{2, 3, 65}, {65}}, {{0, 4}, {4}}, {{5, 1}, {1}}},
          .gradient_shapes = {{{5}, {5}}, {{2, 3, 4}, {4}}}};
}

// Without scale and shift.
Row plain_row(const std::string& op, Unary call, const std::function<SetOf(const Shape&)>& sets) {
  return {.op = op,
          .label = "plain",
          .call = [call](const Tensors& in) { return call(in[0]); },
          .oracle =
              [sets](const DoublesList& in) {
                const Shape channels{in[0].shape.back()};
                const SetOf set = sets(in[0].shape);
                return normalised({in[0], doubles(channels, 1), doubles(channels, 0)},
                                  statistics(in[0], in[0].shape.numel(), set), set);
              },
          .shapes = {{{3, 4}}, {{2, 3, 4}}}};
}

// Element [n, .., c] belongs to sample n and group c / (C/groups).
SetOf group_in(const Shape& shape, std::int64_t groups) {
  const std::int64_t size = shape.back() / groups;
  return [groups, size](const Index& i) { return i[0] * groups + i.back() / size; };
}

Row group_norm_row(const std::string& op, std::int64_t groups) {  // groups 0: each channel its own
  const auto groups_of = [groups](const Shape& shape) { return groups ? groups : shape.back(); };
  return {.op = op,
          .call =
              [groups](const Tensors& in) {
                return groups ? group_norm(in[0], groups, in[1], in[2], kEpsilon)
                              : instance_norm(in[0], in[1], in[2], kEpsilon);
              },
          .oracle =
              [groups_of](const DoublesList& in) {
                const std::int64_t count = groups_of(in[0].shape);
                const SetOf set = group_in(in[0].shape, count);
                return normalised(in, statistics(in[0], in[0].shape[0] * count, set), set);
              },
          .shapes = {{{2, 3, 4, 6}, {6}, {6}}, {{3, 5, 2}, {2}, {2}}, {{0, 3, 4, 6}, {6}, {6}}},
          .gradient_shapes = {{{2, 3, 4}, {4}, {4}}}};
}

Row response_row(const std::string& label, const LrnOptions& o) {
  return {.op = "local_response_norm",
          .label = label,
          .call = [o](const Tensors& in) { return local_response_norm(in[0], o); },
          .oracle =
              [o](const DoublesList& in) {
                Doubles y = in[0];
                const std::int64_t channels = y.shape.back();
                for (std::int64_t i = 0; i < std::ssize(y.data); ++i) {
                  const std::int64_t c = i % channels;
                  double squares = 0;
                  for (std::int64_t j = 0; j < channels; ++j)
                    if (j >= c - o.size / 2 && j <= c + (o.size - 1) / 2)
                      squares += std::pow(in[0].data[static_cast<std::size_t>(i - c + j)], 2);
                  y.data[static_cast<std::size_t>(i)] /=
                      std::pow(o.k + o.alpha * squares / static_cast<double>(o.size), o.beta);
                }
                return y;
              },
          .shapes = {{{2, 3, 2, 7}}, {{4, 3}}, {{0, 4}}, {{5}}}};
}

}  // namespace

std::vector<Row> norm_rows() {
  const auto channels = [](const Shape&) -> SetOf { return channel_of; };
  return {
      batch_norm_row(),
      plain_row(
          "batch_norm_train", [](const Tensor& x) { return batch_norm_train(x, {}, {}, kEpsilon).y; }, channels),
      batch_norm_inference_row(),
      layer_norm_row(),
      plain_row(
          "layer_norm", [](const Tensor& x) { return layer_norm(x, {}, {}, kEpsilon); }, row_in),
      far_from_zero_row(),
      constant_row(),
      rms_norm_row(),
      group_norm_row("group_norm", 2),
      group_norm_row("instance_norm", 0),
      response_row("", {.alpha = 0.5}),
      response_row("even", {.size = 4, .alpha = 1, .beta = 0.5, .k = 2}),
      response_row("wide", {.size = 1000, .alpha = 10}),
  };
}

}  // namespace varve::test
