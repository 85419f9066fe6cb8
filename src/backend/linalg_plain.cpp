// The textbook's algorithms: Cholesky, LU with partial pivoting, Householder's QR, Jacobi's rotations. Inner loops go
// along rows.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "backend/linalg.h"

namespace varve::backend {
namespace {

constexpr int kMostSweeps = 60;  // of rotations; about ten are enough, and NaN is refused before

double dot(const double* a, const double* b, std::int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(double* y, double scale, const double* x, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] += scale * x[i];
}

void scale(double* x, double by, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) x[i] *= by;
}

// (x, y) = (c·x - s·y, s·x + c·y)
void rotate(double* x, double* y, double c, double s, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const double xi = x[i], yi = y[i];
    x[i] = c * xi - s * yi;
    y[i] = s * xi + c * yi;
  }
}

struct Angle {
  double c, s;
};
// The rotation that makes [app, apq; apq, aqq] diagonal.
Angle angle_of(double app, double apq, double aqq) {
  const double zeta = (aqq - app) / (2 * apq);
  const double t = std::copysign(1.0, zeta) / (std::abs(zeta) + std::sqrt(1 + zeta * zeta));
  const double c = 1 / std::sqrt(1 + t * t);
  return {c, c * t};
}

void make_identity(double* a, std::int64_t rows, std::int64_t columns) {
  std::fill(a, a + rows * columns, 0.0);
  for (std::int64_t i = 0; i < std::min(rows, columns); ++i) a[i * columns + i] = 1;
}

// The power of two near the largest magnitude, by which squares neither overflow nor vanish. 0: not finite.
double scale_of(const double* a, std::int64_t count) {
  double largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(a[i])) return 0;
    largest = std::max(largest, std::abs(a[i]));
  }
  return largest == 0 ? 1 : std::ldexp(1.0, std::clamp(std::ilogb(largest), -1000, 1000));
}

std::vector<std::int64_t> order_of(const double* values, std::int64_t n, bool descending) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
    return descending ? values[i] > values[j] : values[i] < values[j];
  });
  return order;
}

}  // namespace

bool all_finite(const double* a, std::int64_t count) {
  return std::all_of(a, a + count, [](double x) { return std::isfinite(x); });
}

bool cholesky(double* a, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    double* row = a + i * n;
    for (std::int64_t j = 0; j < i; ++j) row[j] = (row[j] - dot(row, a + j * n, j)) / a[j * n + j];
    const double square = row[i] - dot(row, row, i);
    if (!(square > 0) || std::isinf(square)) return false;
    row[i] = std::sqrt(square);
    std::fill(row + i + 1, row + n, 0.0);
  }
  return true;
}

bool lu(double* a, std::int64_t* swaps, std::int64_t n) {
  bool regular = true;
  for (std::int64_t j = 0; j < n; ++j) {
    std::int64_t best = j;
    for (std::int64_t i = j + 1; i < n; ++i)
      if (std::abs(a[i * n + j]) > std::abs(a[best * n + j])) best = i;
    swaps[j] = best;
    if (best != j) std::swap_ranges(a + j * n, a + (j + 1) * n, a + best * n);
    const double pivot = a[j * n + j];
    if (!(std::abs(pivot) > 0) || std::isinf(pivot)) {
      regular = false;
      continue;
    }
    for (std::int64_t i = j + 1; i < n; ++i) {
      const double factor = a[i * n + j] /= pivot;
      add_scaled(a + i * n + j + 1, -factor, a + j * n + j + 1, n - j - 1);
    }
  }
  return regular;
}

void solve_by_lu(const double* lu, const std::int64_t* swaps, double* b, std::int64_t n, std::int64_t k) {
  for (std::int64_t j = 0; j < n; ++j)
    if (swaps[j] != j) std::swap_ranges(b + j * k, b + (j + 1) * k, b + swaps[j] * k);
  solve_triangular(lu, b, n, k, {.lower = true, .transpose = false, .unit = true});
  solve_triangular(lu, b, n, k, {.lower = false, .transpose = false, .unit = false});
}

bool solve_triangular(const double* a, double* b, std::int64_t n, std::int64_t k, Triangle triangle) {
  const bool downwards = triangle.lower != triangle.transpose;
  for (std::int64_t step = 0; step < n; ++step) {
    const std::int64_t j = downwards ? step : n - 1 - step;
    double* row = b + j * k;
    if (!triangle.unit) {
      const double pivot = a[j * n + j];
      if (pivot == 0) return false;
      for (std::int64_t c = 0; c < k; ++c) row[c] /= pivot;
    }
    for (std::int64_t i = downwards ? j + 1 : 0; i < (downwards ? n : j); ++i)
      add_scaled(b + i * k, -(triangle.transpose ? a[j * n + i] : a[i * n + j]), row, k);
  }
  return true;
}

// Reflections 1 - τ·v·vᵀ with v = (1, …) kept below the diagonal; those that would change nothing have τ = 0.
void qr(double* a, double* q, double* r, double* work, std::int64_t m, std::int64_t n) {
  const std::int64_t k = std::min(m, n);
  double *taus = work, *sums = work + m;
  // rows j.. of x less τ·v·(vᵀ·x), with v from column j of a
  const auto reflect = [&](std::int64_t j, double* x, std::int64_t stride, std::int64_t columns) {
    std::fill(sums, sums + columns, 0.0);
    for (std::int64_t i = j; i < m; ++i) add_scaled(sums, i == j ? 1.0 : a[i * n + j], x + i * stride, columns);
    for (std::int64_t i = j; i < m; ++i)
      add_scaled(x + i * stride, -taus[j] * (i == j ? 1.0 : a[i * n + j]), sums, columns);
  };
  for (std::int64_t j = 0; j < k; ++j) {
    double below = 0;
    for (std::int64_t i = j + 1; i < m; ++i) below = std::max(below, std::abs(a[i * n + j]));
    taus[j] = 0;
    if (below == 0) continue;
    const double largest = std::max(below, std::abs(a[j * n + j]));
    double square = 0;
    for (std::int64_t i = j; i < m; ++i) square += (a[i * n + j] / largest) * (a[i * n + j] / largest);
    const double alpha = a[j * n + j], beta = -std::copysign(largest * std::sqrt(square), alpha);
    taus[j] = (beta - alpha) / beta;
    for (std::int64_t i = j + 1; i < m; ++i) a[i * n + j] /= alpha - beta;
    a[j * n + j] = beta;
    reflect(j, a + j + 1, n, n - j - 1);
  }
  for (std::int64_t i = 0; i < k; ++i)
    for (std::int64_t c = 0; c < n; ++c) r[i * n + c] = c < i ? 0 : a[i * n + c];
  make_identity(q, m, k);
  for (std::int64_t j = k - 1; j >= 0; --j) reflect(j, q + j, k, k - j);
  for (std::int64_t j = 0; j < k; ++j) {
    if (r[j * n + j] >= 0) continue;
    for (std::int64_t c = j; c < n; ++c) r[j * n + c] = -r[j * n + c];
    for (std::int64_t i = 0; i < m; ++i) q[i * k + j] = -q[i * k + j];
  }
}

bool eigh(double* a, double* values, double* vectors, double* work, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = i + 1; j < n; ++j) a[i * n + j] = a[j * n + i];
  const double unit = scale_of(a, n * n);
  if (unit == 0) return false;
  scale(a, 1 / unit, n * n);
  double* rows = work;  // eigenvectors
  make_identity(rows, n, n);
  const double least = std::numeric_limits<double>::epsilon() * 0.01 * std::sqrt(dot(a, a, n * n));
  bool rotated = true;
  for (int sweep = 0; rotated && sweep < kMostSweeps; ++sweep) {
    rotated = false;
    for (std::int64_t p = 0; p < n; ++p)
      for (std::int64_t q = p + 1; q < n; ++q) {
        const double apq = a[p * n + q];
        if (std::abs(apq) <= least / static_cast<double>(n)) continue;
        rotated = true;
        const auto [c, s] = angle_of(a[p * n + p], apq, a[q * n + q]);
        rotate(a + p * n, a + q * n, c, s, n);
        for (std::int64_t i = 0; i < n; ++i) rotate(a + i * n + p, a + i * n + q, c, s, 1);
        a[p * n + q] = a[q * n + p] = 0;
        rotate(rows + p * n, rows + q * n, c, s, n);
      }
  }
  std::vector<double> diagonal(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) diagonal[static_cast<std::size_t>(i)] = a[i * n + i] * unit;
  choose_signs(rows, n, n, n, 1, [&](std::int64_t i) { scale(rows + i * n, -1, n); });
  const std::vector<std::int64_t> order = order_of(diagonal.data(), n, false);
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t from = order[static_cast<std::size_t>(j)];
    values[j] = diagonal[static_cast<std::size_t>(from)];
    for (std::int64_t i = 0; i < n; ++i) vectors[i * n + j] = rows[from * n + i];
  }
  return true;
}

namespace {

// A unit vector orthogonal to `count` orthonormal rows: the first axis with enough left of it.
void complete(double* row, const double* rows, std::int64_t count, std::int64_t size) {
  const double enough = 0.5 * static_cast<double>(size - count) / static_cast<double>(size);
  for (std::int64_t axis = 0; axis < size; ++axis) {
    std::fill(row, row + size, 0.0);
    row[axis] = 1;
    for (int again = 0; again < 2; ++again)
      for (std::int64_t i = 0; i < count; ++i) add_scaled(row, -dot(row, rows + i * size, size), rows + i * size, size);
    const double square = dot(row, row, size);
    if (square < enough && axis + 1 < size) continue;
    return scale(row, 1 / std::sqrt(square), size);
  }
}

}  // namespace

// One-sided: rotates the `least` long vectors of a (its rows, or its columns) until they are orthogonal.
bool svd(const double* a, double* u, double* s, double* vt, double* work, std::int64_t m, std::int64_t n) {
  const std::int64_t least = std::min(m, n), most = std::max(m, n);
  const bool wide = m < n;
  const double unit = scale_of(a, m * n);
  if (unit == 0) return false;
  double *longs = work, *shorts = work + least * most;
  for (std::int64_t i = 0; i < least; ++i)
    for (std::int64_t j = 0; j < most; ++j) longs[i * most + j] = (wide ? a[i * n + j] : a[j * n + i]) / unit;
  make_identity(shorts, least, least);
  constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
  const double small = kEpsilon * std::sqrt(static_cast<double>(most));
  const double noise = kEpsilon * kEpsilon * dot(longs, longs, least * most);
  bool rotated = true;
  for (int sweep = 0; rotated && sweep < kMostSweeps; ++sweep) {
    rotated = false;
    for (std::int64_t p = 0; p < least; ++p)
      for (std::int64_t q = p + 1; q < least; ++q) {
        double *x = longs + p * most, *y = longs + q * most;
        const double xx = dot(x, x, most), yy = dot(y, y, most), xy = dot(x, y, most);
        if (std::abs(xy) <= small * std::sqrt(xx) * std::sqrt(yy) || std::min(xx, yy) <= noise * 1e-4) continue;
        rotated = true;
        const Angle angle = angle_of(xx, xy, yy);
        rotate(x, y, angle.c, angle.s, most);
        rotate(shorts + p * least, shorts + q * least, angle.c, angle.s, least);
      }
  }
  std::vector<double> lengths(static_cast<std::size_t>(least));
  for (std::int64_t i = 0; i < least; ++i)
    lengths[static_cast<std::size_t>(i)] = std::sqrt(dot(longs + i * most, longs + i * most, most));
  const std::vector<std::int64_t> order = order_of(lengths.data(), least, true);
  // Sorted into the results' memory row by row, long vectors first: vt of a wide matrix, u of a tall one.
  std::vector<double> sorted(static_cast<std::size_t>(least * most));
  for (std::int64_t i = 0; i < least; ++i) {
    const std::int64_t from = order[static_cast<std::size_t>(i)];
    const double length = lengths[static_cast<std::size_t>(from)];
    double* row = sorted.data() + i * most;
    s[i] = length * unit;
    if (length * length > noise) {
      std::copy(longs + from * most, longs + (from + 1) * most, row);
      scale(row, 1 / length, most);
    } else {
      complete(row, sorted.data(), i, most);
    }
  }
  for (std::int64_t i = 0; i < least; ++i) {
    const double *row = sorted.data() + i * most, *other = shorts + order[static_cast<std::size_t>(i)] * least;
    for (std::int64_t j = 0; j < most; ++j) (wide ? vt[i * n + j] : u[j * least + i]) = row[j];
    for (std::int64_t j = 0; j < least; ++j) (wide ? u[j * least + i] : vt[i * n + j]) = other[j];
  }
  choose_signs(u, least, 1, m, least, [&](std::int64_t i) {
    for (std::int64_t j = 0; j < m; ++j) u[j * least + i] = -u[j * least + i];
    scale(vt + i * n, -1, n);
  });
  return true;
}

}  // namespace varve::backend
