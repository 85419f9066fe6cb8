// What gradients become on the wire. tests/distributed has the averages of several ranks.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/row.h"

namespace varve::test {
namespace {

std::vector<Tensor> call(const char* op, const Tensors& in, Attrs attrs) {
  return OpDef(&find_operator(op)).call(in, std::move(attrs));
}

std::size_t columns_of(const Shape& shape) { return static_cast<std::size_t>(shape.back()); }

// x + kept as the operator sees it: in f32.
std::vector<double> together(const DoublesList& in) {
  std::vector<double> all;
  for (std::size_t i = 0; i < in[0].data.size(); ++i)
    all.push_back(static_cast<float>(in[0].data[i]) + static_cast<float>(in[1].data[i]));
  return all;
}

DoublesList one_bit_oracle(const DoublesList& in) {
  const std::vector<double> v = together(in);
  const std::size_t columns = columns_of(in[0].shape);
  DoublesList out = {doubles({static_cast<std::int64_t>((v.size() + 7) / 8)}),
                     doubles({2, static_cast<std::int64_t>(columns)}), doubles(in[0].shape)};
  std::vector<double> counts(2 * columns);
  for (std::size_t i = 0; i < v.size(); ++i) {
    const std::size_t mean = (v[i] >= 0 ? 0 : columns) + i % columns;
    out[1].data[mean] += v[i];
    ++counts[mean];
    if (v[i] >= 0) out[0].data[i / 8] += 1 << (i % 8);
  }
  for (std::size_t c = 0; c < counts.size(); ++c) out[1].data[c] /= std::max(counts[c], 1.0);
  for (std::size_t i = 0; i < v.size(); ++i)
    out[2].data[i] = v[i] - out[1].data[(v[i] >= 0 ? 0 : columns) + i % columns];
  return out;
}

constexpr std::int64_t kTaken = 3;

DoublesList top_entries_oracle(const DoublesList& in) {
  const std::vector<double> v = together(in);
  std::vector<std::size_t> order(v.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto size_at = [&](std::size_t i) { return std::isnan(v[i]) ? kInfinity : std::abs(v[i]); };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return size_at(a) > size_at(b); });
  order.resize(kTaken);
  std::sort(order.begin(), order.end());
  DoublesList out = {doubles({kTaken}), doubles({kTaken}), doubles(in[0].shape)};
  out[2].data = v;
  for (std::size_t k = 0; k < order.size(); ++k) {
    out[0].data[k] = v[order[k]];
    out[1].data[k] = static_cast<double>(order[k]);
    out[2].data[order[k]] = 0;
  }
  return out;
}

// Two ranks' bits and means: random bytes.
constexpr std::int64_t kBytes = 25, kColumns = 20;

DoublesList one_bit_sum_oracle(const DoublesList& in) {
  DoublesList out = {doubles({10, kColumns})};
  for (std::size_t i = 0; i < out[0].data.size(); ++i)
    for (std::size_t r = 0; r < 2; ++r) {
      const auto byte = static_cast<unsigned>(in[0].data[r * kBytes + i / 8]);
      const std::size_t below = (byte >> (i % 8) & 1) != 0 ? 0 : kColumns;
      out[0].data[i] += 0.5 * in[1].data[r * 2 * kColumns + below + i % kColumns];
    }
  return out;
}

}  // namespace

std::vector<Row> compression_rows() {
  return {
      {.op = "one_bit",
       .call =
           [](const Tensors& in) {
             return call("one_bit", in, {{"columns", static_cast<std::int64_t>(columns_of(in[0].shape()))}});
           },
       .oracle = one_bit_oracle,
       .shapes = {{{1}, {1}}, {{5, 3}, {5, 3}}, {{40, 70}, {40, 70}}, {{3, 1500}, {3, 1500}}},
       .types = {f32},
       .slack = 16,  // sums of up to 40 entries, and what is left when they are taken away
       .gradient = false},
      {.op = "one_bit_sum",
       .call =
           [](const Tensors& in) {
             return call("one_bit_sum", in, {{"shape", Shape{10, kColumns}}, {"scale", 0.5}});
           },
       .oracle = one_bit_sum_oracle,
       .shapes = {{{2, kBytes}, {2, 2, kColumns}}},
       .types = {f32},
       .fixed_types = {{0, u8}},
       .adjust =
           [](DoublesList& in) {
             for (std::size_t i = 0; i < in[0].data.size(); ++i) in[0].data[i] = static_cast<double>(i * 37 % 256);
           },
       .gradient = false},
      {.op = "top_entries",
       .call =
           [](const Tensors& in) {
             return call("top_entries", in, {{"count", kTaken}});
           },
       .oracle = top_entries_oracle,
       .shapes = {{{3}, {3}}, {{7}, {7}}, {{40, 70}, {40, 70}}},
       .values = {0, 2, -2, 2, kInfinity},  // equals: the first of them
       .types = {f32},
       .gradient = false},
  };
}

}  // namespace varve::test
