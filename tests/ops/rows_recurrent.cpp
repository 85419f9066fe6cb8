// Recurrence, one sequence and one unit at a time: scan, and the rnn, lstm and gru layers.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "ops/row.h"

namespace varve::test {
namespace {

using Numbers = std::vector<double>;

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

// ---- scan: carries a and b; a' = w·a + x, b' = b + a'·x; out a'·b

ScanStep filter(const Tensors& carry, const Tensors& x, const Tensor& w) {
  const Tensor a = w * carry[0] + x[0];
  return {{a, carry[1] + a * x[0]}, {a * carry[1]}};
}

Row scan_row(const std::string& label, bool reverse) {
  return {.op = "scan",
          .label = label,
          .call =
              [reverse](const Tensors& in) {
                const ScanBody body = [&](const Tensors& carry, const Tensors& x) { return filter(carry, x, in[3]); };
                const ScanResult r = scan(body, {in[0], in[1]}, {in[2]}, {.reverse = reverse});
                return Tensors{r.carry[0], r.carry[1], r.out[0]};
              },
          .oracle =
              [reverse](const DoublesList& in) {
                Doubles a = in[0], b = in[1], out = in[2];
                const std::int64_t steps = in[2].shape[0];
                const std::size_t width = a.data.size();
                for (std::int64_t n = 0; n < steps; ++n) {
                  const std::size_t t = size(reverse ? steps - 1 - n : n);
                  for (std::size_t i = 0; i < width; ++i) {
                    const double x = in[2].data[t * width + i];
                    a.data[i] = in[3].data[i] * a.data[i] + x;
                    out.data[t * width + i] = a.data[i] * b.data[i];
                    b.data[i] += a.data[i] * x;
                  }
                }
                return DoublesList{a, b, out};
              },
          .shapes = {{{3}, {3}, {5, 3}, {3}}, {{2, 2}, {2, 2}, {1, 2, 2}, {2, 2}}, {{3}, {3}, {0, 3}, {3}}},
          .range = {-1, 1},
          .types = {f32, f64}};
}

// Without any x: a number of steps; a' = a·(1.5 - a).
Row scan_length_row() {
  return {.op = "scan",
          .label = "length",
          .call =
              [](const Tensors& in) {
                const ScanBody body = [](const Tensors& carry, const Tensors&) {
                  return ScanStep{{carry[0] * (1.5 - carry[0])}, {}};
                };
                return scan(body, {in[0]}, {}, {.length = 4}).carry[0];
              },
          .oracle =
              [](const DoublesList& in) {
                Doubles a = in[0];
                for (double& v : a.data)
                  for (int n = 0; n < 4; ++n) v *= 1.5 - v;
                return a;
              },
          .shapes = {{{3}}, {Shape{}}, {{0, 2}}},
          .range = {0, 1},
          .types = {f32, f64}};
}

// ---- layers

struct Kind {
  std::string op;
  std::int64_t gates;
  bool relu = false;
  bool has_c() const { return gates == 4; }
  bool has_hidden_bias() const { return gates == 3; }
  std::size_t inputs() const { return 4 + (has_c() || has_hidden_bias() ? 1 : 0); }  // of one direction
};

struct RecurrentCase {
  std::int64_t layers = 1;
  bool bidirectional = false, lengths = false;
  std::int64_t directions() const { return bidirectional ? 2 : 1; }
};

struct Sizes {
  std::int64_t steps, batch, features, hidden;
};

// Inputs: x, lengths when there are some, then for each layer and direction: input and hidden weights, bias, h0, and
// the first c of an lstm or the hidden bias of a gru.
std::vector<Shape> shapes_of(const Kind& kind, const RecurrentCase& c, const Sizes& s) {
  std::vector<Shape> shapes{{s.steps, s.batch, s.features}};
  if (c.lengths) shapes.push_back({s.batch});
  for (std::int64_t layer = 0; layer < c.layers; ++layer)
    for (std::int64_t d = 0; d < c.directions(); ++d) {
      const std::int64_t features = layer == 0 ? s.features : s.hidden * c.directions(), width = kind.gates * s.hidden;
      shapes.insert(shapes.end(), {{features, width}, {s.hidden, width}, {width}, {s.batch, s.hidden}});
      if (kind.has_c()) shapes.push_back({s.batch, s.hidden});
      if (kind.has_hidden_bias()) shapes.push_back({width});
    }
  return shapes;
}

Tensors call_layers(const Kind& kind, const RecurrentCase& c, const Tensors& in) {
  RecurrentOptions options{.bidirectional = c.bidirectional, .relu = kind.relu};
  if (c.lengths) options.lengths = in[1];
  std::vector<RecurrentWeights> layers;
  for (std::size_t at = c.lengths ? 2 : 1; at + kind.inputs() <= in.size(); at += kind.inputs()) {
    layers.push_back({.input = in[at], .hidden = in[at + 1], .bias = in[at + 2]});
    options.h0.push_back(in[at + 3]);
    if (kind.has_c()) options.c0.push_back(in[at + 4]);
    if (kind.has_hidden_bias()) layers.back().hidden_bias = in[at + 4];
  }
  const auto layer = kind.gates == 4 ? lstm : kind.gates == 3 ? gru : rnn;
  const RecurrentResult r = layer(in[0], layers, options);
  Tensors out{r.y};
  out.insert(out.end(), r.h.begin(), r.h.end());
  out.insert(out.end(), r.c.begin(), r.c.end());
  return out;
}

double sigma(double x) { return 1 / (1 + std::exp(-x)); }

// One step of one sequence: x and h times their weights, gate by gate.
void step(const Kind& kind, const Doubles* w, const double* x, Numbers& h, Numbers& c) {
  const std::size_t hidden = h.size(), features = size(w[0].shape[0]), width = size(kind.gates) * hidden;
  const auto share = [&](std::size_t gate, std::size_t unit, bool of_input) {
    const std::size_t column = gate * hidden + unit;
    double sum = of_input ? w[2].data[column] : kind.has_hidden_bias() ? w[4].data[column] : 0;
    for (std::size_t i = 0; i < (of_input ? features : hidden); ++i)
      sum += of_input ? x[i] * w[0].data[i * width + column] : h[i] * w[1].data[i * width + column];
    return sum;
  };
  const auto both = [&](std::size_t gate, std::size_t unit) {
    return share(gate, unit, true) + share(gate, unit, false);
  };
  Numbers next(hidden);
  for (std::size_t u = 0; u < hidden; ++u) {
    if (kind.gates == 4) {
      c[u] = sigma(both(1, u)) * c[u] + sigma(both(0, u)) * std::tanh(both(2, u));
      next[u] = sigma(both(3, u)) * std::tanh(c[u]);
    } else if (kind.gates == 3) {
      const double z = sigma(both(1, u));
      next[u] = (1 - z) * std::tanh(share(2, u, true) + sigma(both(0, u)) * share(2, u, false)) + z * h[u];
    } else {
      next[u] = kind.relu ? std::max(both(0, u), 0.0) : std::tanh(both(0, u));
    }
  }
  h = next;
}

struct Direction {
  Doubles y, h, c;  // y [T, B, H]
};

Direction run_direction(const Kind& kind, const Doubles& x, const Doubles* w, const Doubles* lengths, bool backward) {
  const std::int64_t steps = x.shape[0], batch = x.shape[1], features = x.shape[2], hidden = w[1].shape[0];
  Direction result{doubles({steps, batch, hidden}), w[3], kind.has_c() ? w[4] : doubles({batch, hidden})};
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto first = static_cast<std::ptrdiff_t>(b * hidden);
    Numbers h(result.h.data.begin() + first, result.h.data.begin() + first + hidden);
    Numbers c(result.c.data.begin() + first, result.c.data.begin() + first + hidden);
    const double given = lengths ? lengths->data[size(b)] : static_cast<double>(steps);
    const auto length = static_cast<std::int64_t>(given);
    for (std::int64_t n = 0; n < length; ++n) {
      const std::int64_t t = backward ? length - 1 - n : n;
      step(kind, w, x.data.data() + (t * batch + b) * features, h, c);
      std::copy(h.begin(), h.end(), result.y.data.begin() + (t * batch + b) * hidden);
    }
    std::copy(h.begin(), h.end(), result.h.data.begin() + first);
    std::copy(c.begin(), c.end(), result.c.data.begin() + first);
  }
  return result;
}

Doubles side_by_side(const Doubles& a, const Doubles& b) {
  const std::int64_t width = a.shape[2];
  Doubles y = doubles({a.shape[0], a.shape[1], 2 * width});
  each_index(y.shape, [&](std::vector<std::int64_t> index) {
    const std::size_t to = size(offset(y.shape, index));
    const bool second = index[2] >= width;
    if (second) index[2] -= width;
    y.data[to] = (second ? b : a).data[size(offset(a.shape, index))];
  });
  return y;
}

DoublesList layers_oracle(const Kind& kind, const RecurrentCase& c, const DoublesList& in) {
  Doubles y = in[0];
  DoublesList h, cells;
  std::size_t at = c.lengths ? 2 : 1;
  for (std::int64_t layer = 0; layer < c.layers; ++layer) {
    std::vector<Direction> sides;
    for (std::int64_t d = 0; d < c.directions(); ++d, at += kind.inputs()) {
      sides.push_back(run_direction(kind, y, &in[at], c.lengths ? &in[1] : nullptr, d == 1));
      h.push_back(sides.back().h);
      if (kind.has_c()) cells.push_back(sides.back().c);
    }
    y = c.bidirectional ? side_by_side(sides[0].y, sides[1].y) : sides[0].y;
  }
  DoublesList out{y};
  out.insert(out.end(), h.begin(), h.end());
  out.insert(out.end(), cells.begin(), cells.end());
  return out;
}

Row layer_row(const Kind& kind, const std::string& label, const RecurrentCase& c) {
  return {
      .op = kind.op,
      .label = label,
      .covers = {kind.op + "_grad"},
      .call = [kind, c](const Tensors& in) { return call_layers(kind, c, in); },
      .oracle = [kind, c](const DoublesList& in) { return layers_oracle(kind, c, in); },
      // One sequence, several blocks of them, none; one step, none.
      .shapes = {shapes_of(kind, c, {5, 3, 4, 6}), shapes_of(kind, c, {1, 1, 1, 1}), shapes_of(kind, c, {3, 71, 5, 17}),
                 shapes_of(kind, c, {2, 0, 3, 2}), shapes_of(kind, c, {0, 3, 2, 4})},
      .range = {-0.8, 0.8},
      .types = {f32, f64},
      .slack = 8,  // rounded at every step, and the next one builds on it
      .second = !kind.relu,
      .gradient_shapes = {shapes_of(kind, c, {3, 2, 2, 3}), shapes_of(kind, c, {1, 1, 1, 1}),
                          shapes_of(kind, c, {0, 2, 2, 3})}};
}

// States of these layers are of the order of 1; gates, products and states are rounded to the type one after the other.
Row half_row(const Kind& kind) {
  Row row = layer_row(kind, "half", {});
  row.types = {bf16, f16};
  row.shapes = {shapes_of(kind, {}, {5, 3, 4, 6})};
  row.magnitude = [kind](const DoublesList& in) {
    DoublesList ones = layers_oracle(kind, {}, in);
    for (Doubles& output : ones) output = doubles(output.shape, 1);
    return ones;
  };
  row.roundings = 8;
  row.gradient = false;
  return row;
}

// Lengths from none to all of the steps.
Row ragged_row(const Kind& kind, const std::string& label, RecurrentCase c) {
  c.lengths = true;
  Row row = layer_row(kind, label, c);
  row.integer_inputs = {{1, 6}};
  row.shapes = {shapes_of(kind, c, {5, 7, 3, 4}), shapes_of(kind, c, {5, 65, 3, 4})};
  row.gradient_shapes = {shapes_of(kind, c, {5, 3, 2, 2})};
  return row;
}

// Lengths of i32.
Row narrow_row(const Kind& kind, const std::string& label, const RecurrentCase& c) {
  Row row = ragged_row(kind, label, c);
  row.integer_inputs = {};
  row.fixed_types = {{1, i32}};
  row.adjust = [](DoublesList& in) {
    const double lengths[] = {0, 2, 5, 1, 4};
    for (std::size_t i = 0; i < in[1].data.size(); ++i) in[1].data[i] = lengths[i % std::size(lengths)];
  };
  return row;
}

}  // namespace

std::vector<Row> recurrent_rows() {
  std::vector<Row> rows{scan_row("", false), scan_row("reverse", true), scan_length_row()};
  for (const Kind& kind : {Kind{"rnn", 1}, Kind{"lstm", 4}, Kind{"gru", 3}}) {
    rows.push_back(layer_row(kind, "", {}));
    rows.push_back(half_row(kind));
    rows.push_back(layer_row(kind, "deep", {.layers = 2}));
    rows.push_back(layer_row(kind, "bidirectional", {.layers = 2, .bidirectional = true}));
    rows.back().second = false;  // takes long, and has it from the rows around it: two layers, two directions
    rows.push_back(ragged_row(kind, "lengths", {}));
    rows.push_back(ragged_row(kind, "bidirectionallengths", {.bidirectional = true}));
    rows.push_back(narrow_row(kind, "i32lengths", {.bidirectional = true}));
  }
  rows.push_back(layer_row({"rnn", 1, true}, "relu", {}));
  return rows;
}

}  // namespace varve::test
