// Operators along one axis: running sums and order.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/rows_reduce.h"

namespace varve::test {

namespace {

using Values = std::vector<double>;

// Replaces each line along an axis by a function of it.
Doubles along(const Doubles& x, int axis, const std::function<Values(const Values&)>& f) {
  if (axis < 0) axis += x.shape.rank();
  Doubles out = x;
  Shape starts = x.shape;
  starts[axis] = 1;
  each_index(starts, [&](std::vector<std::int64_t> index) {
    Values line(static_cast<std::size_t>(x.shape[axis]));
    const auto at = [&](std::size_t k) {
      index[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(k);
      return static_cast<std::size_t>(offset(x.shape, index));
    };
    for (std::size_t k = 0; k < line.size(); ++k) line[k] = x.data[at(k)];
    line = f(line);
    for (std::size_t k = 0; k < line.size(); ++k) out.data[at(k)] = line[k];
  });
  return out;
}

void add_cumsum(std::vector<Row>& rows) {
  const auto row = [](const std::string& label, int axis, std::vector<std::vector<Shape>> shapes) {
    return Row{
        .op = "cumsum",
        .label = label,
        .call = [=](const Tensors& in) { return cumsum(in[0], axis); },
        .oracle =
            [=](const DoublesList& in) {
              return along(in[0], axis, [](Values v) {
                std::partial_sum(v.begin(), v.end(), v.begin());
                return v;
              });
            },
        .shapes = std::move(shapes),
        .terms =
            [](const std::vector<Shape>& s) { return static_cast<double>(std::max<std::int64_t>(s[0].numel(), 2)); }};
  };
  rows.push_back(row("last", -1, {{{7}}, {{3, 5}}, {{0, 3}}, {{3, 0}}, {{2, 131}}}));
  rows.push_back(row("first", 0, {{{7, 3}}, {{3, 2, 2}}}));
  Row whole = row("integers", 1, {{{3, 5}}});
  integers(whole);
  rows.push_back(whole);
}

std::vector<std::size_t> order_of(const Values& v, bool descending) {
  std::vector<std::size_t> order(v.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (std::isnan(v[a]) || std::isnan(v[b])) return std::isnan(v[b]) && !std::isnan(v[a]);
    return descending ? v[a] > v[b] : v[a] < v[b];
  });
  return order;
}

Doubles sorted(const Doubles& x, int axis, bool descending, bool positions) {
  return along(x, axis, [=](const Values& v) {
    Values out;
    for (std::size_t i : order_of(v, descending)) out.push_back(positions ? static_cast<double>(i) : v[i]);
    return out;
  });
}

void add_order(std::vector<Row>& rows) {
  const auto sort_row = [](const std::string& label, int axis, bool descending,
                           std::vector<std::vector<Shape>> shapes) {
    return Row{.op = "sort",
               .label = label,
               .call =
                   [=](const Tensors& in) {
                     return std::pair(sort(in[0], axis, descending), argsort(in[0], axis, descending));
                   },
               .oracle =
                   [=](const DoublesList& in) {
                     return std::pair(sorted(in[0], axis, descending, false), sorted(in[0], axis, descending, true));
                   },
               .shapes = std::move(shapes),
               .distinct = true,
               .second = false};
  };
  rows.push_back(sort_row("up", -1, false, {{{7}}, {{3, 5}}, {{0, 3}}, {{3, 0}}, {{2, 131}}}));
  rows.push_back(sort_row("down", 0, true, {{{7, 3}}, {{5, 2, 2}}, {{67, 3}}}));
  for (const bool descending : {false, true}) {
    Row ties = sort_row(descending ? "tiesDown" : "tiesUp", 1, descending, {{{4, 6}}, {{2, 40}}});
    no_gradient(ties);
    ties.types = {f32, f64, bf16, f16, i64, i32, i8, u8, boolean};
    ties.values = {1, kNaN, 1, 0, -kInfinity, 0, 1, kNaN, kInfinity, 1, -1};
    rows.push_back(ties);
  }
  rows.push_back({.op = "top_k",
                  .covers = {"sort", "take_along_axis"},
                  .call = [](const Tensors& in) { return top_k(in[0], 2, 1); },
                  .oracle =
                      [](const DoublesList& in) {
                        const std::int64_t columns = in[0].shape[1];
                        Doubles values = doubles({in[0].shape[0], 2}), indices = values;
                        for (int what = 0; what < 2; ++what) {
                          const Doubles all = sorted(in[0], 1, true, what == 1);
                          Doubles& out = what == 0 ? values : indices;
                          for (std::size_t i = 0; i < out.data.size(); ++i)
                            out.data[i] = all.data[i / 2 * static_cast<std::size_t>(columns) + i % 2];
                        }
                        return std::pair(values, indices);
                      },
                  .shapes = {{{3, 5}}, {{4, 2}}, {{0, 3}}},
                  .distinct = true,
                  .second = false});
}

}  // namespace

std::vector<Row> axis_rows() {
  std::vector<Row> rows;
  add_cumsum(rows);
  add_order(rows);
  return rows;
}

}  // namespace varve::test
