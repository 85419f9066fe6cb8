#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "ops/rows_reduce.h"

namespace varve::test {

void integers(Row& row) {
  no_gradient(row);
  row.types = {i64, i32, i8, u8, boolean};
  row.range = {-5, 5};
  row.values = {0, 1, 0, 2, -3};
}

namespace {

using Values = std::vector<double>;
using Fold = std::function<double(const Values&)>;
using Over = std::optional<Axes>;

std::vector<bool> reduced_axes(const Shape& shape, const Over& axes) {
  std::vector<bool> reduced(static_cast<std::size_t>(shape.rank()), !axes);
  if (axes)
    for (std::int64_t axis : *axes) reduced[static_cast<std::size_t>(axis < 0 ? axis + shape.rank() : axis)] = true;
  return reduced;
}

// Collects the elements that meet in one output, in row-major order, and folds them.
Doubles folded(const Doubles& x, const Over& axes, bool keep, const Fold& fold) {
  const std::vector<bool> reduced = reduced_axes(x.shape, axes);
  Shape with_ones = x.shape, without;
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    if (reduced[static_cast<std::size_t>(axis)])
      with_ones[axis] = 1;
    else
      without.push_back(x.shape[axis]);
  }
  std::vector<Values> groups(static_cast<std::size_t>(with_ones.numel()));
  std::size_t next = 0;
  each_index(x.shape, [&](std::vector<std::int64_t> index) {
    for (std::size_t axis = 0; axis < index.size(); ++axis)
      if (reduced[axis]) index[axis] = 0;
    groups[static_cast<std::size_t>(offset(with_ones, index))].push_back(x.data[next++]);
  });
  Doubles out = doubles(keep ? with_ones : without);
  std::transform(groups.begin(), groups.end(), out.data.begin(), fold);
  return out;
}

struct Reducer {
  std::string op;
  std::function<Tensor(const Tensor&, const Over&, bool)> call;
  Fold fold;
  bool sums = false;  // errors grow with the number of terms
  bool empty = true;  // nothing to reduce is allowed
  std::vector<double> values = {};
  std::function<void(Row&)> more = {};
};

Row reduce_row(const Reducer& r, const std::string& label, const Over& axes, bool keep,
               std::vector<std::vector<Shape>> shapes) {
  Row row{.op = r.op,
          .label = label,
          .call = [=](const Tensors& in) { return r.call(in[0], axes, keep); },
          .oracle = [=](const DoublesList& in) { return folded(in[0], axes, keep, r.fold); },
          .shapes = std::move(shapes),
          .values = r.values};
  if (r.sums)
    row.terms = [axes](const std::vector<Shape>& in) {
      const std::vector<bool> reduced = reduced_axes(in[0], axes);
      double count = 1;
      for (int a = 0; a < in[0].rank(); ++a)
        if (reduced[static_cast<std::size_t>(a)]) count *= static_cast<double>(in[0][a]);
      return count;
    };
  if (r.more) r.more(row);
  return row;
}

// Over everything, over rows, over two axes that are not neighbours, over none.
void add_rows(std::vector<Row>& rows, const Reducer& r) {
  const std::size_t first = rows.size();
  rows.push_back(reduce_row(r, "all", {}, false, {{Shape{}}, {{7}}, {{3, 5}}, {{2, 1, 3}}, {{67, 61}}}));
  rows.push_back(reduce_row(r, "rows", Axes{-1}, true, {{{3, 5}}, {{1, 1}}, {{0, 5}}, {{2, 3, 131}}}));
  rows.push_back(reduce_row(r, "planes", Axes{2, 0}, false, {{{3, 4, 5}}, {{1, 7, 1}}, {{4, 3, 2, 33}}}));
  rows.push_back(reduce_row(r, "none", Axes{}, false, {{{3, 5}}, {Shape{}}}));
  for (std::size_t i = first; i < rows.size(); ++i)
    rows[i].gradient_shapes = {{i == first + 2 ? Shape{3, 2, 4} : Shape{3, 5}}};
  if (r.empty) {
    rows[first].shapes.push_back({{0}});
    rows[first + 1].shapes.push_back({{3, 0}});
    rows[first + 2].shapes.push_back({{0, 2, 3}});
  }
}

double total(const Values& v) { return std::accumulate(v.begin(), v.end(), 0.0); }
double average(const Values& v) { return total(v) / static_cast<double>(v.size()); }
double product_of(const Values& v) { return std::accumulate(v.begin(), v.end(), 1.0, std::multiplies<double>()); }

template <class Better>
std::size_t best_of(const Values& v, Better better) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < v.size(); ++i) {
    if (std::isnan(v[i])) return i;
    if (better(v[i], v[best])) best = i;
  }
  return best;
}
double largest_of(const Values& v) { return v[best_of(v, std::greater<double>())]; }
double smallest(const Values& v) { return v[best_of(v, std::less<double>())]; }

double squared_distance(const Values& v) {
  double sum = 0;
  for (double x : v) sum += (x - average(v)) * (x - average(v));
  return sum;
}

double log_sum_exp(const Values& v) {
  const double shift = v.empty() ? -kInfinity : largest_of(v);
  if (std::isinf(shift)) return shift;
  double sum = 0;
  for (double x : v) sum += std::exp(x - shift);
  return std::log(sum) + shift;
}

// A public reduction under its options.
using PublicReduce = Tensor (*)(const Tensor&, const ReduceOptions&);
std::function<Tensor(const Tensor&, const Over&, bool)> with_options(PublicReduce f) {
  return [f](const Tensor& x, const Over& axes, bool keep) { return f(x, {.axes = axes, .keep = keep}); };
}

void away_from_ties(Row& row) {
  row.distinct = true;
  row.second = false;
}

void add_sums(std::vector<Row>& rows) {
  add_rows(rows, {.op = "sum", .call = with_options(sum), .fold = total, .sums = true, .values = {1e4, -1e4, -0.0}});
  add_rows(rows, {.op = "mean", .call = with_options(mean), .fold = average, .sums = true, .values = {1e4, -1e4}});
  add_rows(rows,
           {.op = "prod", .call = with_options(prod), .fold = product_of, .values = {-0.0, 1}, .more = [](Row& row) {
              row.range = {0.9, 1.1};
              row.slack = 4;  // each factor rounds
            }});
  const std::vector<std::vector<Shape>> few = {{{3, 5}}, {{0, 4}}, {{4, 0}}};
  for (const Reducer& r : {Reducer{.op = "sum", .call = with_options(sum), .fold = total, .more = integers},
                           Reducer{.op = "prod", .call = with_options(prod), .fold = product_of, .more = integers},
                           Reducer{.op = "mean", .call = with_options(mean), .fold = average, .more = integers}})
    rows.push_back(reduce_row(r, "integers", Axes{1}, false, few));

  // The gradient of a factor is the product_of of the others: with none, one and two zeros in a row.
  Row zeros =
      reduce_row({.op = "prod", .call = with_options(prod), .fold = product_of}, "zeros", Axes{-1}, false, {{{3, 5}}});
  zeros.adjust = [](DoublesList& in) {
    if (in[0].data.size() == 15) in[0].data[6] = in[0].data[10] = in[0].data[13] = 0;
  };
  rows.push_back(zeros);
}

void add_extremes(std::vector<Row>& rows) {
  const Reducer greatest{.op = "max",
                         .call = with_options(max),
                         .fold = largest_of,
                         .empty = false,
                         .values = {2, 2, -0.5, 2},
                         .more = away_from_ties};
  Reducer least = greatest;
  least.op = "min";
  least.call = with_options(min);
  least.fold = smallest;
  least.values = {-2, -2, 0.5, -2};
  for (const Reducer& r : {greatest, least}) {
    add_rows(rows, r);
    Row nan = reduce_row(r, "nan", Axes{0}, false, {{{5, 3}}, {{2, 0}}});
    no_gradient(nan);
    nan.values = {1, kNaN, kInfinity, -kInfinity, -1, kInfinity};
    rows.push_back(nan);
    Row whole = reduce_row(r, "integers", Axes{1}, false, {{{3, 5}}, {{0, 4}}});
    integers(whole);
    rows.push_back(whole);
    // Two equal extremes in each row: a step in one of them alone counts half, as the even share does.
    Row ties = reduce_row(r, "ties", Axes{-1}, false, {{{2, 6}}});
    ties.distinct = false;
    ties.values = {};
    ties.adjust = [sign = r.op == "max" ? 1.0 : -1.0](DoublesList& in) {
      if (in[0].data.size() == 12) in[0].data[1] = in[0].data[4] = in[0].data[6] = in[0].data[11] = 3 * sign;
    };
    rows.push_back(ties);
  }
}

void add_truths(std::vector<Row>& rows) {
  const auto some = [](const Values& v) {
    return std::any_of(v.begin(), v.end(), [](double x) { return x != 0; }) ? 1.0 : 0.0;
  };
  const auto every = [](const Values& v) {
    return std::all_of(v.begin(), v.end(), [](double x) { return x != 0; }) ? 1.0 : 0.0;
  };
  const auto common = [](Row& row) {
    no_gradient(row);
    row.types = {f32, f64, bf16, i64, i32, u8, boolean};
  };
  add_rows(rows, {.op = "any", .call = with_options(any), .fold = some, .more = [=](Row& row) {
                    common(row);
                    row.adjust = [](DoublesList& in) {
                      for (double& v : in[0].data) v = v > 1.5 ? v : 0;
                    };
                  }});
  add_rows(rows, {.op = "all", .call = with_options(all), .fold = every, .more = [=](Row& row) {
                    common(row);
                    row.adjust = [](DoublesList& in) {
                      for (double& v : in[0].data) v = v < 1.5 ? 1 : 0;
                    };
                  }});
}

void add_statistics(std::vector<Row>& rows) {
  const auto with_ddof = [](std::int64_t ddof) {
    return [ddof](const Tensor& x, const Over& axes, bool keep) {
      return var(x, {.axes = axes, .keep = keep, .ddof = ddof});
    };
  };
  const auto sized = [](Row& row) {
    row.gradient_shapes = {{{3, 5}}};
    row.slack = 8;  // differences of the rounded mean, squared
  };
  add_rows(rows, {.op = "var",
                  .call = with_ddof(0),
                  .fold = [](const Values& v) { return squared_distance(v) / static_cast<double>(v.size()); },
                  .more = sized});
  rows.push_back(
      reduce_row({.op = "var",
                  .call = with_ddof(1),
                  .fold = [](const Values& v) { return squared_distance(v) / static_cast<double>(v.size() - 1); },
                  .more = sized},
                 "unbiased", Axes{1}, true, {{{3, 5}}, {{2, 67}}}));
  // The mean is a thousand times the deviation: sums of squares would lose it all.
  Row offset = reduce_row({.op = "var",
                           .call = with_ddof(0),
                           .fold = [](const Values& v) { return squared_distance(v) / static_cast<double>(v.size()); }},
                          "offset", Axes{1}, false, {{{3, 129}}});
  offset.range = {999, 1001};
  offset.types = {f32, f64};
  offset.slack = 200;  // of a deviation of 0.6, taken from numbers of 1000
  no_gradient(offset);
  rows.push_back(offset);
}

void add_norms(std::vector<Row>& rows) {
  const auto with_p = [](double p) {
    return [p](const Tensor& x, const Over& axes, bool keep) { return norm(x, {.p = p, .axes = axes, .keep = keep}); };
  };
  const Fold euclid = [](const Values& v) { return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0)); };
  const Fold absolute = [](const Values& v) {
    return std::accumulate(v.begin(), v.end(), 0.0, [](double s, double x) { return s + std::abs(x); });
  };
  const Fold widest = [](const Values& v) {
    return std::accumulate(v.begin(), v.end(), 0.0, [](double s, double x) { return std::max(s, std::abs(x)); });
  };
  add_rows(rows, {.op = "norm", .call = with_p(2), .fold = euclid, .sums = true, .values = {100, -100, 0}});
  rows.push_back(reduce_row({.op = "norm", .call = with_p(1), .fold = absolute, .sums = true, .more = away_from_ties},
                            "one", Axes{0}, false, {{{6, 5}}, {{0, 3}}}));
  rows.push_back(reduce_row({.op = "norm", .call = with_p(kInfinity), .fold = widest, .more = away_from_ties},
                            "largest", Axes{0}, false, {{{6, 5}}, {{6, 0}}}));
  Row zero = reduce_row({.op = "norm", .call = with_p(2), .fold = euclid}, "zero", Axes{1}, false, {{{2, 4}}});
  zero.adjust = [](DoublesList& in) {
    std::fill_n(in[0].data.begin(), std::min<std::size_t>(4, in[0].data.size()), 0.0);
  };
  zero.second = false;  // the length has a corner at 0
  zero.gradient_range = {0.5, 2};
  rows.push_back(zero);
}

void add_logsumexp(std::vector<Row>& rows) {
  const Reducer r{.op = "logsumexp",
                  .call = with_options(logsumexp),
                  .fold = log_sum_exp,
                  .values = {1000, -1000, 1000, -kInfinity}};
  add_rows(rows, r);
  Row nothing = reduce_row(r, "minusInfinity", Axes{1}, true, {{{3, 4}}});
  nothing.values = {-kInfinity, -kInfinity, -kInfinity, -kInfinity};
  rows.push_back(nothing);
  Row infinite = reduce_row(r, "infinity", Axes{1}, true, {{{3, 4}}});
  infinite.values = {1, kInfinity, -kInfinity, 0};
  rows.push_back(infinite);
}

void add_positions(std::vector<Row>& rows) {
  const auto index_row = [](const std::string& op, const std::string& label, auto f, auto better, std::int64_t axis,
                            bool keep, std::vector<std::vector<Shape>> shapes) {
    Row row{.op = op,
            .label = label,
            .call = [=](const Tensors& in) { return f(in[0], axis, keep); },
            .oracle =
                [=](const DoublesList& in) {
                  return folded(in[0], Axes{axis}, keep,
                                [=](const Values& v) { return static_cast<double>(best_of(v, better)); });
                },
            .shapes = std::move(shapes),
            .values = {1, 1, -1, -1, kNaN, 2, kNaN, 2, 2, kInfinity, -kInfinity, -2, -2},
            .types = {f32, f64, bf16, f16, i64, i32, u8}};
    no_gradient(row);
    return row;
  };
  const std::vector<std::vector<Shape>> shapes = {{{4, 5}}, {{3, 1}}, {{0, 2}}, {{2, 3, 67}}},
                                        columns = {{{5, 4}}, {{67, 3}}};
  rows.push_back(index_row("argmax", "rows", argmax, std::greater<double>(), -1, false, shapes));
  rows.push_back(index_row("argmin", "rows", argmin, std::less<double>(), -1, false, shapes));
  rows.push_back(index_row("argmax", "columns", argmax, std::greater<double>(), 0, true, columns));
  rows.push_back(index_row("argmin", "columns", argmin, std::less<double>(), 0, true, columns));
}

void add_sum_to(std::vector<Row>& rows) {
  rows.push_back(
      {.op = "sum_to",
       .call =
           [](const Tensors& in) {
             return sum_to(in[0], {3, 1});
           },
       .oracle =
           [](const DoublesList& in) {
             Doubles out = folded(in[0], Axes{0, 2}, false, total);
             return Doubles{{3, 1}, out.data};
           },
       .shapes = {{{2, 3, 4}}, {{1, 3, 1}}, {{0, 3, 4}}, {{7, 3, 33}}},
       .terms =
           [](const std::vector<Shape>& s) { return static_cast<double>(std::max<std::int64_t>(s[0].numel(), 2)); }});
}

}  // namespace

std::vector<Row> reduce_rows() {
  std::vector<Row> rows;
  for (auto add :
       {add_sums, add_extremes, add_truths, add_statistics, add_norms, add_logsumexp, add_positions, add_sum_to})
    add(rows);
  const std::vector<Row> along_axis = axis_rows();
  rows.insert(rows.end(), along_axis.begin(), along_axis.end());
  return rows;
}

}  // namespace varve::test
