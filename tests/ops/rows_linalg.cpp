// Linear algebra: factorisations are compared with those of other algorithms (Gauss-Jordan, Gram-Schmidt, rotations of
// the largest entry), on matrices that are far from singular and from equal eigenvalues.
#include "varve/linalg.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/row.h"

namespace varve::test {
namespace {

using Index = std::vector<std::int64_t>;

// One matrix, by rows.
struct Dense {
  std::int64_t rows, columns;
  std::vector<double> data;
  Dense(std::int64_t m, std::int64_t n) : rows(m), columns(n), data(static_cast<std::size_t>(m * n)) {}
  double& operator()(std::int64_t i, std::int64_t j) { return data[static_cast<std::size_t>(i * columns + j)]; }
  double operator()(std::int64_t i, std::int64_t j) const { return data[static_cast<std::size_t>(i * columns + j)]; }
};

Dense times(const Dense& a, const Dense& b) {
  Dense y(a.rows, b.columns);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t k = 0; k < a.columns; ++k)
      for (std::int64_t j = 0; j < b.columns; ++j) y(i, j) += a(i, k) * b(k, j);
  return y;
}

Dense turned(const Dense& a) {
  Dense y(a.columns, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j) y(j, i) = a(i, j);
  return y;
}

std::int64_t batch_of(const Shape& shape) { return Shape(Index(shape.begin(), shape.end() - 2)).numel(); }

Dense matrix_at(const Doubles& x, std::int64_t batch) {
  const int rank = x.shape.rank();
  Dense a(x.shape[rank - 2], x.shape[rank - 1]);
  std::copy_n(x.data.begin() + batch * std::ssize(a.data), a.data.size(), a.data.begin());
  return a;
}

// One result for each matrix of a batch, `last` in place of the matrices' sizes.
Doubles gathered_results(const Doubles& x, const Index& last,
                         const std::function<std::vector<double>(const Dense&)>& f) {
  Index sizes(x.shape.begin(), x.shape.end() - 2);
  sizes.insert(sizes.end(), last.begin(), last.end());
  Doubles y{Shape(sizes), {}};
  for (std::int64_t b = 0; b < batch_of(x.shape); ++b) {
    const std::vector<double> one = f(matrix_at(x, b));
    y.data.insert(y.data.end(), one.begin(), one.end());
  }
  return y;
}

std::int64_t rows_of(const Doubles& x) { return x.shape[x.shape.rank() - 2]; }
std::int64_t columns_of(const Doubles& x) { return x.shape.back(); }

// ---- oracles

Dense symmetrized(const Dense& a) {
  Dense s = a;
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.rows; ++j) s(i, j) = (a(i, j) + a(j, i)) / 2;
  return s;
}

// Column by column.
Dense cholesky_of(const Dense& a) {
  Dense l(a.rows, a.rows);
  for (std::int64_t j = 0; j < a.rows; ++j)
    for (std::int64_t i = j; i < a.rows; ++i) {
      double sum = a(i, j);
      for (std::int64_t k = 0; k < j; ++k) sum -= l(i, k) * l(j, k);
      l(i, j) = i == j ? std::sqrt(sum) : sum / l(j, j);
    }
  return l;
}

// Gauss-Jordan with the largest pivot; answers the determinant.
double eliminate(Dense a, Dense& b) {
  double det = 1;
  for (std::int64_t j = 0; j < a.rows; ++j) {
    std::int64_t best = j;
    for (std::int64_t i = j; i < a.rows; ++i)
      if (std::abs(a(i, j)) > std::abs(a(best, j))) best = i;
    if (best != j) det = -det;
    for (std::int64_t c = 0; c < a.columns; ++c) std::swap(a(j, c), a(best, c));
    for (std::int64_t c = 0; c < b.columns; ++c) std::swap(b(j, c), b(best, c));
    det *= a(j, j);
    if (a(j, j) == 0) return 0;
    for (std::int64_t i = 0; i < a.rows; ++i) {
      const double factor = i == j ? 1 - 1 / a(j, j) : a(i, j) / a(j, j);
      for (std::int64_t c = 0; c < a.columns; ++c) a(i, c) -= factor * a(j, c);
      for (std::int64_t c = 0; c < b.columns; ++c) b(i, c) -= factor * b(j, c);
    }
  }
  return det;
}

// Gram-Schmidt, twice. The columns beyond the rows only have their products with q.
std::pair<Dense, Dense> qr_of(const Dense& a) {
  const std::int64_t k = std::min(a.rows, a.columns);
  Dense q(a.rows, k);
  for (std::int64_t j = 0; j < k; ++j) {
    for (std::int64_t i = 0; i < a.rows; ++i) q(i, j) = a(i, j);
    for (int again = 0; again < 2; ++again)
      for (std::int64_t c = 0; c < j; ++c) {
        double along = 0;
        for (std::int64_t i = 0; i < a.rows; ++i) along += q(i, c) * q(i, j);
        for (std::int64_t i = 0; i < a.rows; ++i) q(i, j) -= along * q(i, c);
      }
    double square = 0;
    for (std::int64_t i = 0; i < a.rows; ++i) square += q(i, j) * q(i, j);
    for (std::int64_t i = 0; i < a.rows; ++i) q(i, j) /= std::sqrt(square);
  }
  Dense r = times(turned(q), a);
  for (std::int64_t i = 0; i < k; ++i)
    for (std::int64_t j = 0; j < i; ++j) r(i, j) = 0;
  return {q, r};
}

// Jacobi's original: always the largest entry beside the diagonal.
std::pair<std::vector<double>, Dense> eigh_of(Dense a) {
  const std::int64_t n = a.rows;
  Dense v(n, n);
  for (std::int64_t i = 0; i < n; ++i) v(i, i) = 1;
  for (int step = 0; step < 20000 && n > 1; ++step) {
    std::int64_t p = 0, q = 1;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = i + 1; j < n; ++j)
        if (std::abs(a(i, j)) > std::abs(a(p, q))) p = i, q = j;
    if (std::abs(a(p, q)) < 1e-15) break;
    const double angle = 0.5 * std::atan2(2 * a(p, q), a(q, q) - a(p, p)), c = std::cos(angle), s = std::sin(angle);
    const auto turn = [&](double& x, double& y) {
      const double kept = x;
      x = c * x - s * y;
      y = s * kept + c * y;
    };
    for (std::int64_t i = 0; i < n; ++i) turn(a(p, i), a(q, i));
    for (std::int64_t i = 0; i < n; ++i) turn(a(i, p), a(i, q));
    for (std::int64_t i = 0; i < n; ++i) turn(v(i, p), v(i, q));
  }
  Index order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) { return a(i, i) < a(j, j); });
  std::vector<double> values;
  Dense vectors(n, n);
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t from = order[static_cast<std::size_t>(j)];
    values.push_back(a(from, from));
    double largest = 0, sign = 0;
    for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(v(i, from)));
    for (std::int64_t i = 0; i < n && sign == 0; ++i)
      if (std::abs(v(i, from)) >= 0.9 * largest) sign = v(i, from) < 0 ? -1 : 1;
    for (std::int64_t i = 0; i < n; ++i) vectors(i, j) = sign * v(i, from);
  }
  return {values, vectors};
}

// By the eigenvectors of a·aᵀ or aᵀ·a, whichever is smaller.
DoublesList svd_of(const Doubles& x) {
  const std::int64_t m = rows_of(x), n = columns_of(x), k = std::min(m, n);
  const auto parts = [&](const Dense& a, int part) {
    const bool wide = m < n;
    const auto [squares, found] = eigh_of(wide ? times(a, turned(a)) : times(turned(a), a));
    Dense shorts(k, k);  // columns, descending
    std::vector<double> s;
    for (std::int64_t j = 0; j < k; ++j) {
      s.push_back(std::sqrt(squares[static_cast<std::size_t>(k - 1 - j)]));
      for (std::int64_t i = 0; i < k; ++i) shorts(i, j) = found(i, k - 1 - j);
    }
    Dense longs = times(wide ? turned(a) : a, shorts);
    for (std::int64_t j = 0; j < k; ++j)
      for (std::int64_t i = 0; i < longs.rows; ++i) longs(i, j) /= s[static_cast<std::size_t>(j)];
    Dense &u = wide ? shorts : longs, &v = wide ? longs : shorts;
    for (std::int64_t j = 0; j < k; ++j) {
      double largest = 0, sign = 0;
      for (std::int64_t i = 0; i < m; ++i) largest = std::max(largest, std::abs(u(i, j)));
      for (std::int64_t i = 0; i < m && sign == 0; ++i)
        if (std::abs(u(i, j)) >= 0.9 * largest) sign = u(i, j) < 0 ? -1 : 1;
      for (std::int64_t i = 0; i < m; ++i) u(i, j) *= sign;
      for (std::int64_t i = 0; i < n; ++i) v(i, j) *= sign;
    }
    return part == 0 ? u.data : part == 1 ? s : turned(v).data;
  };
  return {gathered_results(x, {m, k}, [&](const Dense& a) { return parts(a, 0); }),
          gathered_results(x, {k}, [&](const Dense& a) { return parts(a, 1); }),
          gathered_results(x, {k, n}, [&](const Dense& a) { return parts(a, 2); })};
}

// ---- inputs

// Adds 3, 4.5, 6, … along the diagonal: far from singular, and no two eigenvalues or singular values are close.
void spread_diagonal(Doubles& x) {
  const std::int64_t m = rows_of(x), n = columns_of(x);
  for (std::size_t i = 0; i < x.data.size(); ++i) {
    const std::int64_t at = static_cast<std::int64_t>(i) % (m * n);
    if (at / n == at % n) x.data[i] += 3 + 1.5 * static_cast<double>(at % n);
  }
}
void spread_first(DoublesList& in) { spread_diagonal(in[0]); }

const std::vector<std::vector<Shape>> kSquare = {{{1, 1}},    {{0, 0}},    {{3, 3}},       {{2, 2, 2}},
                                                 {{0, 3, 3}}, {{2, 0, 0}}, {{4, 1, 5, 5}}, {{19, 19}}};
const std::vector<std::vector<Shape>> kSmallSquare = {{{1, 1}}, {{3, 3}}, {{2, 4, 4}}, {{2, 0, 0}}};
const std::vector<std::vector<Shape>> kAnyMatrix = {{{1, 1}},       {{4, 4}},   {{5, 3}},  {{3, 5}},    {{0, 3}},
                                                    {{3, 0}},       {{1, 4}},   {{4, 1}},  {{2, 3, 2}}, {{0, 3, 3}},
                                                    {{2, 1, 4, 6}}, {{23, 17}}, {{17, 23}}};
const std::vector<std::vector<Shape>> kSmallMatrix = {{{3, 3}}, {{5, 3}}, {{3, 5}}, {{2, 4, 2}}, {{0, 2}}};

// Of matrices: everything in f32 and f64, values between -1 and 1 and a large diagonal. Errors grow with the size and
// with what lies between eigenvalues.
Row matrix_row(Row row) {
  row.range = {-0.5, 0.5};
  row.types = {f32, f64};
  row.adjust = spread_first;
  row.slack = 20;
  return row;
}

Row cholesky_row() {
  return matrix_row({.op = "cholesky",
                     .call = [](const Tensors& in) { return linalg::cholesky(in[0]); },
                     .oracle =
                         [](const DoublesList& in) {
                           return gathered_results(in[0], {rows_of(in[0]), rows_of(in[0])},
                                                   [](const Dense& a) { return cholesky_of(symmetrized(a)).data; });
                         },
                     .shapes = kSquare,
                     .gradient_shapes = kSmallSquare});
}

Doubles solved_by_elimination(const Doubles& a, const Doubles& b, const std::function<Dense(Dense)>& read) {
  const bool vector = b.shape.rank() == 1;
  const Shape rows = vector ? Shape{b.shape[0], 1} : b.shape;
  Shape shape =
      broadcast(Shape(Index(a.shape.begin(), a.shape.end() - 2)), Shape(Index(rows.begin(), rows.end() - 2)), "oracle");
  const Shape batches = shape;
  shape.push_back(rows[rows.rank() - 2]);
  shape.push_back(rows.back());
  Doubles y{shape, {}};
  each_index(batches, [&](const Index& index) {
    const auto place = [&](const Shape& matrices) {
      return broadcast_offset(Shape(Index(matrices.begin(), matrices.end() - 2)), index);
    };
    Dense right = matrix_at({rows, b.data}, place(rows));
    eliminate(read(matrix_at(a, place(a.shape))), right);
    y.data.insert(y.data.end(), right.data.begin(), right.data.end());
  });
  if (vector) y.shape = Shape(Index(shape.begin(), shape.end() - 1));
  return y;
}

const std::vector<std::vector<Shape>> kSystems = {
    {{1, 1}, {1, 1}},          {{3, 3}, {3, 2}},       {{4, 4}, {4}},       {{2, 3, 3}, {2, 3, 1}},
    {{0, 0}, {0, 3}},          {{3, 3}, {3, 0}},       {{2, 3, 3}, {3, 2}}, {{3, 3}, {2, 1, 3, 2}},
    {{2, 1, 3, 3}, {4, 3, 2}}, {{0, 2, 2}, {0, 2, 1}}, {{33, 33}, {33, 5}}};
const std::vector<std::vector<Shape>> kSmallSystems = {
    {{3, 3}, {3, 2}}, {{3, 3}, {3}}, {{2, 2, 2}, {2, 2, 1}}, {{2, 2}, {3, 2, 2}}};

Row solve_row() {
  return matrix_row(
      {.op = "solve",
       .call = [](const Tensors& in) { return linalg::solve(in[0], in[1]); },
       .oracle = [](const DoublesList& in) { return solved_by_elimination(in[0], in[1], [](Dense a) { return a; }); },
       .shapes = kSystems,
       .gradient_shapes = kSmallSystems});
}

Row triangular_row(const std::string& label, const linalg::TriangularOptions& o) {
  const auto read = [o](Dense a) {
    for (std::int64_t i = 0; i < a.rows; ++i)
      for (std::int64_t j = 0; j < a.rows; ++j) {
        if (o.lower ? j > i : j < i) a(i, j) = 0;
        if (i == j && o.unit_diagonal) a(i, j) = 1;
      }
    return o.transpose ? turned(a) : a;
  };
  return matrix_row({.op = "triangular_solve",
                     .label = label,
                     .call = [o](const Tensors& in) { return linalg::triangular_solve(in[0], in[1], o); },
                     .oracle = [read](const DoublesList& in) { return solved_by_elimination(in[0], in[1], read); },
                     .shapes = kSystems,
                     .gradient_shapes = kSmallSystems});
}

Row inv_row() {
  return matrix_row({.op = "solve",
                     .label = "inv",
                     .call = [](const Tensors& in) { return linalg::inv(in[0]); },
                     .oracle =
                         [](const DoublesList& in) {
                           const std::int64_t n = rows_of(in[0]);
                           return gathered_results(in[0], {n, n}, [n](const Dense& a) {
                             Dense one(n, n);
                             for (std::int64_t i = 0; i < n; ++i) one(i, i) = 1;
                             eliminate(a, one);
                             return one.data;
                           });
                         },
                     .shapes = kSquare,
                     .gradient_shapes = kSmallSquare});
}

double det_of(const Dense& a) {
  Dense none(a.rows, 0);
  return eliminate(a, none);
}

Row det_row() {
  return matrix_row({.op = "det",
                     .call = [](const Tensors& in) { return linalg::det(in[0]); },
                     .oracle =
                         [](const DoublesList& in) {
                           return gathered_results(in[0], {}, [](const Dense& a) { return std::vector{det_of(a)}; });
                         },
                     .shapes = {{{1, 1}}, {{0, 0}}, {{3, 3}}, {{2, 2, 2}}, {{0, 3, 3}}, {{4, 1, 5, 5}}, {{9, 9}}},
                     .gradient_shapes = kSmallSquare});
}

Row slogdet_row() {
  Row row = matrix_row(
      {.op = "slogdet",
       .call =
           [](const Tensors& in) {
             const auto [sign, log] = linalg::slogdet(in[0]);
             return Tensors{sign, log};
           },
       .oracle =
           [](const DoublesList& in) {
             return DoublesList{
                 gathered_results(in[0], {}, [](const Dense& a) { return std::vector{det_of(a) < 0 ? -1.0 : 1.0}; }),
                 gathered_results(in[0], {},
                                  [](const Dense& a) { return std::vector{std::log(std::abs(det_of(a)))}; })};
           },
       .shapes = kSquare,
       .gradient_shapes = kSmallSquare});
  row.adjust = [](DoublesList& in) {  // both signs
    spread_first(in);
    if (!in[0].data.empty()) in[0].data[0] *= -1;
  };
  return row;
}

Row qr_row() {
  return matrix_row({.op = "qr",
                     .call =
                         [](const Tensors& in) {
                           const auto [q, r] = linalg::qr(in[0]);
                           return Tensors{q, r};
                         },
                     .oracle =
                         [](const DoublesList& in) {
                           const std::int64_t m = rows_of(in[0]), n = columns_of(in[0]), k = std::min(m, n);
                           return DoublesList{
                               gathered_results(in[0], {m, k}, [](const Dense& a) { return qr_of(a).first.data; }),
                               gathered_results(in[0], {k, n}, [](const Dense& a) { return qr_of(a).second.data; })};
                         },
                     .shapes = kAnyMatrix,
                     .gradient_shapes = kSmallMatrix});
}

Row eigh_row() {
  return matrix_row(
      {.op = "eigh",
       .call =
           [](const Tensors& in) {
             const auto [values, vectors] = linalg::eigh(in[0]);
             return Tensors{values, vectors};
           },
       .oracle =
           [](const DoublesList& in) {
             const std::int64_t n = rows_of(in[0]);
             return DoublesList{
                 gathered_results(in[0], {n}, [](const Dense& a) { return eigh_of(symmetrized(a)).first; }),
                 gathered_results(in[0], {n, n}, [](const Dense& a) { return eigh_of(symmetrized(a)).second.data; })};
           },
       .shapes = kSquare,
       .gradient_shapes = kSmallSquare});
}

Row svd_row() {
  return matrix_row({.op = "svd",
                     .call =
                         [](const Tensors& in) {
                           const auto [u, s, vt] = linalg::svd(in[0]);
                           return Tensors{u, s, vt};
                         },
                     .oracle = [](const DoublesList& in) { return svd_of(in[0]); },
                     .shapes = kAnyMatrix,
                     .gradient_shapes = kSmallMatrix});
}

}  // namespace

std::vector<Row> linalg_rows() {
  return {cholesky_row(),
          solve_row(),
          inv_row(),
          triangular_row("lower", {}),
          triangular_row("upper", {.lower = false}),
          triangular_row("transposed", {.transpose = true}),
          triangular_row("upper transposed", {.lower = false, .transpose = true}),
          triangular_row("unit", {.unit_diagonal = true}),
          det_row(),
          slogdet_row(),
          qr_row(),
          eigh_row(),
          svd_row()};
}

}  // namespace varve::test
