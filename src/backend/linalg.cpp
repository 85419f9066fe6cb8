#include "backend/linalg.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "varve/error.h"

namespace varve::backend {
namespace {

std::int64_t rows_of(const Shape& shape) { return shape[shape.rank() - 2]; }
std::int64_t columns_of(const Shape& shape) { return shape[shape.rank() - 1]; }

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

void copy(const double* from, double* to, std::int64_t count) { std::copy(from, from + count, to); }

using Run = std::function<bool(const double* const* in, double* const* out, double* work)>;

Run run_cholesky(std::int64_t n) {
  return [n](const double* const* in, double* const* out, double*) {
    copy(in[0], out[0], n * n);
    return cholesky(out[0], n);
  };
}

Run run_triangular(std::int64_t n, std::int64_t k, const Attrs& attrs) {
  const Triangle triangle{attrs.flag("lower"), attrs.flag("transpose"), attrs.flag("unit_diagonal")};
  return [=](const double* const* in, double* const* out, double*) {
    copy(in[1], out[0], n * k);
    return solve_triangular(in[0], out[0], n, k, triangle);
  };
}

Run run_solve(std::int64_t n, std::int64_t k) {
  return [=](const double* const* in, double* const* out, double* work) {
    std::vector<std::int64_t> swaps(size(n));
    copy(in[0], work, n * n);
    copy(in[1], out[0], n * k);
    if (!lu(work, swaps.data(), n)) return false;
    solve_by_lu(work, swaps.data(), out[0], n, k);
    return true;
  };
}

// det, or sign and logarithm.
Run run_det(std::int64_t n, bool logarithm) {
  return [=](const double* const* in, double* const* out, double* work) {
    std::vector<std::int64_t> swaps(size(n));
    copy(in[0], work, n * n);
    lu(work, swaps.data(), n);
    double sign = 1, product = 1, log = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      const double pivot = work[j * n + j], parity = swaps[size(j)] != j ? -1 : 1;
      product *= parity * pivot;
      log += std::log(std::abs(pivot));
      sign *= parity * (pivot < 0 ? -1.0 : pivot > 0 ? 1.0 : pivot);  // 0 of a singular matrix, NaN
    }
    *out[0] = (logarithm ? sign : product) + 0.0;  // no -0
    if (logarithm) *out[1] = log;
    return true;
  };
}

}  // namespace

const std::vector<std::string>& matrix_operators() {
  static const std::vector<std::string> names = {
      "cholesky", "triangular_solve", "solve", "det", "slogdet", "qr", "eigh", "svd"};
  return names;
}

std::string matrix_complaint(const std::string& op, const TensorType& a) {
  const std::string which = cat(op, ": matrix {} of ", a.str(), " ");
  if (op == "cholesky")
    return cat(which, "is not positive definite. Add a small multiple of the identity, or use eigh.");
  if (op == "eigh" || op == "svd") return cat(which, "has values that are NaN or infinite.");
  return cat(which, "is singular: it has no inverse.");
}

MatrixCall matrix_call(const std::string& op, const Attrs& attrs, const std::vector<TensorType>& in,
                       const std::vector<TensorType>& out) {
  const Shape& a = in[0].shape;
  const std::int64_t m = rows_of(a), n = columns_of(a), least = std::min(m, n), most = std::max(m, n);
  MatrixCall call;
  call.batch = Shape(Ints(a.begin(), a.end() - 2)).numel();
  const auto elements = [&](const TensorType& type) {
    const int batch_rank = a.rank() - 2;
    return Shape(Ints(type.shape.begin() + batch_rank, type.shape.end())).numel();
  };
  for (const TensorType& type : in) call.in.push_back(elements(type));
  for (const TensorType& type : out) call.out.push_back(elements(type));
  call.complaint = matrix_complaint(op, in[0]);
  if (op == "cholesky") {
    call.run = run_cholesky(n);
  } else if (op == "triangular_solve") {
    call.run = run_triangular(n, columns_of(in[1].shape), attrs);
  } else if (op == "solve") {
    call.work = n * n;
    call.run = run_solve(n, columns_of(in[1].shape));
  } else if (op == "det" || op == "slogdet") {
    call.work = n * n;
    call.run = run_det(n, op == "slogdet");
  } else if (op == "qr") {
    call.work = m * n + m + 2 * n;
    call.run = [m, n](const double* const* from, double* const* to, double* work) {
      copy(from[0], work, m * n);
      qr(work, to[0], to[1], work + m * n, m, n);
      return true;
    };
  } else if (op == "eigh") {
    call.work = 2 * n * n;
    call.run = [n](const double* const* from, double* const* to, double* work) {
      copy(from[0], work, n * n);
      return eigh(work, to[0], to[1], work + n * n, n);
    };
  } else if (op == "svd") {
    call.work = least * most + least * least + most;
    call.run = [m, n](const double* const* from, double* const* to, double* work) {
      return svd(from[0], to[0], to[1], to[2], work, m, n);
    };
  } else {
    throw Error(cat(op, ": is no operator of matrices."));
  }
  return call;
}

}  // namespace varve::backend
