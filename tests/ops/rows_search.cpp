// Searching and counting, what runs along an axis, pairs of everything, rotary embedding.
#include <algorithm>
#include <cmath>

#include "ops/row.h"
#include "varve/indexing.h"

namespace varve::test {
namespace {

using At = std::vector<std::int64_t>;

// Visits every row of x along an axis: the positions of its elements.
void each_row_of(const Shape& shape, int axis, const std::function<void(const std::vector<std::size_t>&)>& visit) {
  Shape others = shape;
  others[axis] = 1;
  each_index(others, [&](const At& index) {
    std::vector<std::size_t> places;
    At at = index;
    for (at[static_cast<std::size_t>(axis)] = 0; at[static_cast<std::size_t>(axis)] < shape[axis];
         ++at[static_cast<std::size_t>(axis)])
      places.push_back(static_cast<std::size_t>(offset(shape, at)));
    visit(places);
  });
}

Row cumprod_row(const std::string& label, int axis, std::vector<std::vector<Shape>> shapes) {
  const auto multiplied = [=](const DoublesList& in) {
    Doubles y = in[0];
    each_row_of(y.shape, axis, [&](const std::vector<std::size_t>& row) {
      for (std::size_t i = 1; i < row.size(); ++i) y.data[row[i]] *= y.data[row[i - 1]];
    });
    return y;
  };
  return {.op = "cumprod",
          .label = label,
          .call = [=](const Tensors& in) { return cumprod(in[0], axis - in[0].rank()); },
          .oracle = multiplied,
          .shapes = std::move(shapes),
          .values = {0, 1.5, -1, 0},  // gradients past zeros
          .range = {-1.5, 1.5},
          .types = {f32, f64, bf16, f16, i64, i32},
          .adjust =
              [](DoublesList& in) {
                for (std::size_t i = 0; i < in[0].data.size(); i += 5) in[0].data[i] = 0;
              },
          .terms = 16};
}

Row extreme_row(bool largest, const std::string& label, int axis, std::vector<std::vector<Shape>> shapes) {
  return {.op = largest ? "cummax" : "cummin",
          .label = label,
          .call = [=](const Tensors& in) { return largest ? cummax(in[0], axis) : cummin(in[0], axis); },
          .oracle =
              [=](const DoublesList& in) {
                Doubles y = in[0], from = doubles(in[0].shape);
                each_row_of(y.shape, axis, [&](const std::vector<std::size_t>& row) {
                  std::size_t best = 0;
                  for (std::size_t i = 0; i < row.size(); ++i) {
                    const double now = in[0].data[row[i]], before = in[0].data[row[best]];
                    if (std::isnan(now) || (largest ? now >= before : now <= before)) best = i;
                    y.data[row[i]] = in[0].data[row[best]];
                    from.data[row[i]] = static_cast<double>(best);
                  }
                });
                return std::pair(y, from);
              },
          .shapes = std::move(shapes),
          .values = {1, kNaN, kInfinity, -kInfinity, 1, -0.0, 0.0},
          .types = kEveryType,
          .bitwise = true,
          .second = false};
}

std::vector<Row> running_rows() {
  return {cumprod_row("last", 1, {{{3, 7}}, {{2, 1}}, {{2, 0}}, {{4, 16}}}),
          cumprod_row("first", 0, {{{5, 3}}, {{9}}}),
          extreme_row(true, "last", 1, {{{3, 7}}, {{2, 1}}, {{2, 0}}, {{2, 33}}}),
          extreme_row(true, "first", 0, {{{5, 3}}, {{9}}}),
          extreme_row(false, "last", 1, {{{3, 7}}, {{2, 33}}}),
          extreme_row(false, "first", 0, {{{5, 3}}})};
}

// ---- searching and counting

Row searchsorted_row(const std::string& label, bool right, std::vector<std::vector<Shape>> shapes) {
  Row row{.op = "searchsorted",
          .label = label,
          .call = [=](const Tensors& in) { return searchsorted(in[0], in[1], {.right = right}); },
          .oracle =
              [=](const DoublesList& in) {
                Doubles found = doubles(in[1].shape);
                const auto n = in[0].shape.back(), wanted = in[1].shape.rank() ? in[1].shape.back() : 1;
                for (std::size_t i = 0; i < found.data.size(); ++i) {
                  const auto line = in[0].shape.rank() == 1 ? 0 : static_cast<std::int64_t>(i) / wanted;
                  const double value = in[1].data[i];
                  for (std::int64_t k = 0; k < n; ++k) {
                    const double element = in[0].data[static_cast<std::size_t>(line * n + k)];
                    const bool before = std::isnan(value) ? right || !std::isnan(element)
                                        : right           ? element <= value
                                                          : element < value;
                    found.data[i] += before;
                  }
                }
                return found;
              },
          .shapes = std::move(shapes),
          .values = {1, 1, 0, kNaN, kInfinity, -kInfinity},
          .types = {f32, f64, bf16},
          .adjust =
              [](DoublesList& in) {
                const auto n = static_cast<std::ptrdiff_t>(in[0].shape.back());
                for (auto line = in[0].data.begin(); n > 0 && line < in[0].data.end(); line += n)
                  std::sort(line, line + n,
                            [](double a, double b) { return a < b || (!std::isnan(a) && std::isnan(b)); });
              },
          .bitwise = true};
  no_gradient(row);
  return row;
}

std::vector<Row> search_and_count_rows() {
  Row isin_row{.op = "isin",
               .call = [](const Tensors& in) { return isin(in[0], in[1]); },
               .oracle =
                   [](const DoublesList& in) {
                     Doubles found = in[0];
                     for (double& v : found.data)
                       v = std::find(in[1].data.begin(), in[1].data.end(), v) != in[1].data.end();
                     return found;
                   },
               .shapes = {{{3, 4}, {5}}, {{7}, {0}}, {Shape{}, {2, 3}}, {{0}, {3}}},
               .values = {1, 2, 0, kNaN, kInfinity},
               .types = {f32, f64, bf16, i64, i32, u8},
               .bitwise = true};
  Row counts{.op = "bincount",
             .call =
                 [](const Tensors& in) {
                   return std::pair(bincount(in[0], {.bins = 6}), bincount(in[0], {.bins = 6, .weights = in[1]}));
                 },
             .oracle =
                 [](const DoublesList& in) {
                   Doubles count = doubles({6}), sum = doubles({6});
                   for (std::size_t i = 0; i < in[0].data.size(); ++i) {
                     ++count.data[static_cast<std::size_t>(in[0].data[i])];
                     sum.data[static_cast<std::size_t>(in[0].data[i])] += in[1].data[i];
                   }
                   return std::pair(count, sum);
                 },
             .shapes = {{{9}, {9}}, {{3, 4}, {3, 4}}, {{0}, {0}}},
             .types = {f32, f64},
             .integer_inputs = {{0, 6}},
             .terms = 12};
  const auto histogram_row = [](const std::string& label, const HistogramOptions& o) {
    return Row{.op = "histogram",
               .label = label,
               .call = [o](const Tensors& in) { return histogram(in[0], o); },
               .oracle =
                   [o](const DoublesList& in) {
                     const auto [least, most] = std::minmax_element(in[0].data.begin(), in[0].data.end());
                     double low = o.range ? o.range->first : *least, high = o.range ? o.range->second : *most;
                     if (low == high) low -= 0.5, high += 0.5;
                     const double bins = static_cast<double>(o.bins);
                     Doubles count = doubles({o.bins}), edges = doubles({o.bins + 1});
                     for (std::size_t i = 0; i < edges.data.size(); ++i)
                       edges.data[i] = low + (high - low) * static_cast<double>(i) / bins;
                     for (const double v : in[0].data)
                       if (v >= low && v <= high)
                         ++count.data[static_cast<std::size_t>(
                             std::min(std::floor((v - low) / (high - low) * bins), bins - 1))];
                     return std::pair(count, edges);
                   },
               .shapes = {{{40}}, {{5, 6}}, {{1}}},
               .types = {f32, f64},
               .gradient = false,
               .second = false};
  };
  Row whole = searchsorted_row("whole", true, {{{7}, {3, 4}}, {{8}, {9}}});
  whole.values = {};
  whole.range = {0, 9};
  whole.types = {i64, i32, u8};
  no_gradient(isin_row);
  counts.differentiable = {1};
  counts.differentiable_outputs = {1};
  return {searchsorted_row("", false, {{{7}, {3, 4}}, {{1}, {5}}, {{0}, {4}}, {{8}, Shape{}}, {{131}, {67}}}),
          searchsorted_row("right", true, {{{7}, {3, 4}}, {{8}, {9}}}),
          searchsorted_row("rows", false, {{{3, 5}, {3, 4}}, {{2, 3, 4}, {2, 3, 7}}}),
          whole,
          isin_row,
          counts,
          histogram_row("", {}),
          histogram_row("range", {.bins = 7, .range = std::pair(-1.3, 1.1)})};
}

// ---- pairs, and others

Doubles kronecker(const DoublesList& in) {
  const Shape &a = in[0].shape, &b = in[1].shape;
  const int rank = std::max(a.rank(), b.rank());
  const auto size = [&](const Shape& s, int axis) { return axis < rank - s.rank() ? 1 : s[axis - (rank - s.rank())]; };
  Shape shape;
  for (int axis = 0; axis < rank; ++axis) shape.push_back(size(a, axis) * size(b, axis));
  Doubles y = doubles(shape);
  std::size_t next = 0;
  each_index(shape, [&](const At& index) {
    At in_a, in_b;
    for (int axis = 0; axis < rank; ++axis) {
      const std::int64_t i = index[static_cast<std::size_t>(axis)];
      if (axis >= rank - a.rank()) in_a.push_back(i / size(b, axis));
      if (axis >= rank - b.rank()) in_b.push_back(i % size(b, axis));
    }
    y.data[next++] = at(in[0], in_a) * at(in[1], in_b);
  });
  return y;
}

Row cdist_row(const std::string& label, const CdistOptions& o) {
  const bool product = !o.exact && o.p == 2;
  return {.op = "cdist",
          .label = label,
          .call = [o](const Tensors& in) { return cdist(in[0], in[1], o); },
          .oracle =
              [o](const DoublesList& in) {
                const Shape &a = in[0].shape, &b = in[1].shape;
                Shape shape = a;
                shape[a.rank() - 1] = b[b.rank() - 2];
                Doubles y = doubles(shape);
                std::size_t next = 0;
                each_index(shape, [&](const At& i) {
                  At from = i, to = i;
                  to[to.size() - 2] = i.back();
                  double sum = 0;
                  for (std::int64_t d = 0; d < a.back(); ++d) {
                    from.back() = to.back() = d;
                    const double apart = std::abs(at(in[0], from) - at_broadcast(in[1], to));
                    sum = o.p == 1 ? sum + apart : o.p == 2 ? sum + apart * apart : std::max(sum, apart);
                  }
                  y.data[next++] = o.p == 2 ? std::sqrt(sum) : sum;
                });
                return y;
              },
          .shapes = {{{4, 3}, {5, 3}}, {{2, 4, 3}, {2, 5, 3}}, {{2, 3, 2}, {4, 2}}, {{0, 3}, {2, 3}}},
          .types = {f32, f64},
          .terms = product ? 256 : 8};  // what cancels is up to the squared lengths
}

Row rope_row(const std::string& label, bool interleaved, std::int64_t features, double base, bool positions) {
  return {.op = "rope",
          .label = label,
          .call =
              [=](const Tensors& in) {
                return rope(in[0], {.positions = positions ? in[1] : Tensor{},
                                    .base = base,
                                    .features = features,
                                    .interleaved = interleaved});
              },
          .oracle =
              [=](const DoublesList& in) {
                Doubles y = in[0];
                const std::int64_t width = in[0].shape.back(), turned = features ? features : width;
                each_index(in[0].shape, [&](const At& i) {
                  if (i.back() >= turned) return;
                  const std::int64_t pair = interleaved ? i.back() / 2 : i.back() % (turned / 2);
                  const bool second = interleaved ? i.back() % 2 == 1 : i.back() >= turned / 2;
                  At first = i, other = i;
                  first.back() = interleaved ? 2 * pair : pair;
                  other.back() = interleaved ? 2 * pair + 1 : pair + turned / 2;
                  const At step(i.begin(), i.end() - 1);
                  const double where = positions ? at_broadcast(in[1], step) : static_cast<double>(step.back());
                  const double angle =
                      where / std::pow(base, 2.0 * static_cast<double>(pair) / static_cast<double>(turned));
                  const double a = at(in[0], first), b = at(in[0], other);
                  y.data[static_cast<std::size_t>(offset(y.shape, i))] =
                      second ? b * std::cos(angle) + a * std::sin(angle) : a * std::cos(angle) - b * std::sin(angle);
                });
                return y;
              },
          .shapes = positions ? std::vector<std::vector<Shape>>{{{2, 3, 4, 6}, {2, 1, 4}}, {{5, 6}, {5}}}
                              : std::vector<std::vector<Shape>>{{{2, 3, 4, 6}}, {{5, 6}}, {{0, 4, 6}}},
          .types = {f32, f64, bf16},
          .integer_inputs = positions ? std::map<int, std::int64_t>{{1, 50}} : std::map<int, std::int64_t>{},
          .terms = 16,  // angles of tens of radians, rounded in f32
          .magnitude = [](const DoublesList& in) { return doubles(in[0].shape, 6); }};
}

std::vector<Row> pair_rows() {
  Row kron_row{.op = "kron",
               .call = [](const Tensors& in) { return kron(in[0], in[1]); },
               .oracle = kronecker,
               .shapes = {{{2, 3}, {4, 2}}, {{3}, {2}}, {{2, 2}, {3}}, {Shape{}, {2, 2}}, {{0}, {3}}},
               .types = {f32, f64, bf16, i64}};
  Row roll_row{.op = "roll",
               .call =
                   [](const Tensors& in) {
                     return roll(in[0], {-2, 7}, {-1, 0});
                   },
               .oracle =
                   [](const DoublesList& in) {
                     Doubles y = in[0];
                     const Shape& s = y.shape;
                     each_index(s, [&](const At& i) {
                       At to = i;
                       to[0] = (i[0] + 7) % s[0];
                       to.back() = (to.back() + 5 * s.back() - 2) % s.back();
                       y.data[static_cast<std::size_t>(offset(s, to))] = at(in[0], i);
                     });
                     return y;
                   },
               .shapes = {{{3, 5}}, {{4, 2, 3}}, {{9}}, {{0, 3}}},
               .types = kEveryType,
               .bitwise = true};
  Row finite{.op = "nan_to_num",
             .call =
                 [](const Tensors& in) {
                   return std::pair(nan_to_num(in[0], {.nan = 2, .posinf = 5, .neginf = -7}), nan_to_num(in[0]));
                 },
             .oracle =
                 [](const DoublesList& in) {
                   Doubles given = in[0], largest = in[0];
                   for (std::size_t i = 0; i < given.data.size(); ++i) {
                     const double v = in[0].data[i];
                     if (std::isnan(v)) given.data[i] = 2, largest.data[i] = 0;
                     if (std::isinf(v))
                       given.data[i] = v > 0 ? 5 : -7, largest.data[i] = std::copysign(3.4028234663852886e38, v);
                   }
                   return std::pair(given, largest);
                 },
             .shapes = {{{7}}, {{3, 5}}, {Shape{}}, {{0}}},
             .values = {kNaN, kInfinity, -kInfinity, 1, -0.0},
             .types = {f32},
             .bitwise = true,
             .second = false};
  return {kron_row,
          roll_row,
          finite,
          cdist_row("", {}),
          cdist_row("exact", {.exact = true}),
          cdist_row("one", {.p = 1}),
          cdist_row("largest", {.p = kInfinity}),
          rope_row("halves", false, 0, 10000, false),
          rope_row("neighbours", true, 0, 10000, false),
          rope_row("some", false, 4, 100, true),
          rope_row("someNeighbours", true, 2, 500, true)};
}

}  // namespace

std::vector<Row> search_rows() {
  std::vector<Row> rows;
  for (auto family : {running_rows, search_and_count_rows, pair_rows}) {
    const std::vector<Row> part = family();
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace varve::test
