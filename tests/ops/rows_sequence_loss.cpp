// Losses of sequences and of embeddings.
#include <algorithm>
#include <cmath>

#include "ops/row.h"
#include "varve/losses.h"

namespace varve::test {
namespace {

using Index = std::vector<std::int64_t>;

// The probability that steps spell the symbols, by every path of classes there is.
double spelled(const Doubles& logits, std::int64_t example, std::int64_t steps, const Index& symbols, Index& path) {
  const std::int64_t classes = logits.shape[2], t = std::ssize(path);
  if (t == steps) {
    Index read;
    for (std::size_t i = 0; i < path.size(); ++i)
      if (path[i] != 0 && (i == 0 || path[i] != path[i - 1])) read.push_back(path[i]);
    return read == symbols ? 1 : 0;
  }
  double total = 0, all = 0;
  for (std::int64_t c = 0; c < classes; ++c) all += std::exp(at(logits, {t, example, c}));
  for (std::int64_t c = 0; c < classes; ++c) {
    path.push_back(c);
    total += std::exp(at(logits, {t, example, c})) / all * spelled(logits, example, steps, symbols, path);
    path.pop_back();
  }
  return total;
}

Doubles ctc_oracle(const DoublesList& in, bool zero_infinity) {
  const std::int64_t batch = in[0].shape[1];
  Doubles losses = doubles({batch});
  for (std::int64_t b = 0; b < batch; ++b) {
    Index symbols, path;
    for (std::int64_t s = 0; s < static_cast<std::int64_t>(at(in[3], {b})); ++s)
      symbols.push_back(static_cast<std::int64_t>(at(in[1], {b, s})));
    const double p = spelled(in[0], b, static_cast<std::int64_t>(at(in[2], {b})), symbols, path);
    losses.data[static_cast<std::size_t>(b)] = p == 0 && zero_infinity ? 0 : -std::log(p);
  }
  return losses;
}

Row ctc_row(const std::string& label, bool zero_infinity) {
  return {.op = "ctc_loss",
          .label = label,
          .call =
              [zero_infinity](const Tensors& in) {
                return ctc_loss(in[0], in[1], in[2], in[3], {.zero_infinity = zero_infinity}, Reduction::none);
              },
          .oracle = [zero_infinity](const DoublesList& in) { return ctc_oracle(in, zero_infinity); },
          .shapes = {{{4, 5, 3}, {5, 2}, {5}, {5}},
                     {{5, 3, 4}, {3, 2}, {3}, {3}},
                     {{4, 1, 3}, {1, 3}, {1}, {1}},
                     {{6, 0, 3}, {0, 2}, {0}, {0}}},
          .types = {f32, f64},
          .integer_inputs = {{1, 2}, {2, 5}, {3, 3}},
          .adjust =
              [](DoublesList& in) {
                for (double& symbol : in[1].data) symbol += 1;  // 0 is the blank
              },
          .slack = 10,  // sums over states and steps
          .gradient = zero_infinity,
          .gradient_shapes = {{{4, 5, 3}, {5, 2}, {5}, {5}}}};
}

// ---- embeddings

double distance(const Doubles& a, const Doubles& b, std::size_t row, double p) {
  const auto width = static_cast<std::size_t>(a.shape.back());
  double total = 0;
  for (std::size_t i = row * width; i < (row + 1) * width; ++i)
    total += std::pow(std::abs(a.data[i] - b.data[i] + 1e-6), p);
  return std::pow(total, 1 / p);
}

double cosine(const Doubles& a, const Doubles& b, std::size_t row) {
  const auto width = static_cast<std::size_t>(a.shape.back());
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = row * width; i < (row + 1) * width; ++i) {
    ab += a.data[i] * b.data[i];
    aa += a.data[i] * a.data[i];
    bb += b.data[i] * b.data[i];
  }
  return ab / std::sqrt(aa * bb);
}

Doubles each_pair(const Doubles& a, const std::function<double(std::size_t)>& f) {
  Doubles y = doubles(Shape(Index(a.shape.begin(), a.shape.end() - 1)));
  for (std::size_t i = 0; i < y.data.size(); ++i) y.data[i] = f(i);
  return y;
}

Row embedding_row(Row row) {
  row.types = {f32, f64};
  row.slack = 10;
  row.second = false;  // kinked
  return row;
}

Row triplet_row(const std::string& label, const TripletOptions& o) {
  return embedding_row(
      {.op = "triplet_loss",
       .label = label,
       .call = [o](const Tensors& in) { return triplet_loss(in[0], in[1], in[2], o, Reduction::none); },
       .oracle =
           [o](const DoublesList& in) {
             return each_pair(in[0], [&](std::size_t i) {
               double apart = distance(in[0], in[2], i, o.p);
               if (o.swap) apart = std::min(apart, distance(in[1], in[2], i, o.p));
               return std::max(distance(in[0], in[1], i, o.p) - apart + o.margin, 0.0);
             });
           },
       .shapes = {{{4, 6}, {4, 6}, {4, 6}}, {{3}, {3}, {3}}, {{2, 3, 5}, {2, 3, 5}, {2, 3, 5}}}});
}

const std::vector<std::vector<Shape>> kPairs = {{{6, 3}, {6, 3}, {6}}, {{2, 3, 4}, {2, 3, 4}, {2, 3}}};

Row contrastive_row() {
  return embedding_row(
      {.op = "contrastive_loss",
       .call = [](const Tensors& in) { return contrastive_loss(in[0], in[1], in[2], 2, Reduction::none); },
       .oracle =
           [](const DoublesList& in) {
             return each_pair(in[0], [&](std::size_t i) {
               const double d = distance(in[0], in[1], i, 2), beyond = std::max(2 - d, 0.0);
               return in[2].data[i] != 0 ? d * d : beyond * beyond;
             });
           },
       .shapes = kPairs,
       .integer_inputs = {{2, 2}}});
}

Row cosine_row() {
  return embedding_row(
      {.op = "cosine_embedding_loss",
       .call = [](const Tensors& in) { return cosine_embedding_loss(in[0], in[1], in[2], 0.1, Reduction::none); },
       .oracle =
           [](const DoublesList& in) {
             return each_pair(in[0], [&](std::size_t i) {
               const double c = cosine(in[0], in[1], i);
               return in[2].data[i] > 0 ? 1 - c : std::max(c - 0.1, 0.0);
             });
           },
       .shapes = kPairs,
       .integer_inputs = {{2, 2}}});
}

}  // namespace

std::vector<Row> sequence_loss_rows() {
  return {ctc_row("", true),
          ctc_row("infinite", false),
          triplet_row("", {}),
          triplet_row("swapped", {.margin = 0.5, .swap = true}),
          triplet_row("city blocks", {.p = 1}),
          contrastive_row(),
          cosine_row()};
}

}  // namespace varve::test
