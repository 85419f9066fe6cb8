#include "backends/cpu/linalg/lapack.h"

#include <dlfcn.h>

#include <algorithm>
#include <limits>

#include "base/levers.h"

namespace varve::cpu {
namespace {

constexpr std::int64_t kSmallest = 16;  // below it the plain rotations are as fast

// Fortran's: everything by address; lengths of texts behind, which nobody reads.
using Eigenvalues = void (*)(const char* job, const char* triangle, const int* n, double* a, const int* lda, double* w,
                             double* work, const int* work_size, int* whole, const int* whole_size, int* info,
                             std::size_t, std::size_t);
using SingularValues = void (*)(const char* job, const int* m, const int* n, double* a, const int* lda, double* s,
                                double* u, const int* ldu, double* vt, const int* ldvt, double* work,
                                const int* work_size, int* whole, int* info, std::size_t);

struct Lapack {
  Eigenvalues eigenvalues = nullptr;
  SingularValues singular_values = nullptr;
};

const Lapack& lapack() {
  static const Lapack loaded = [] {
    Lapack found;
    if (void* library = dlopen("liblapack.so.3", RTLD_NOW | RTLD_LOCAL)) {
      found.eigenvalues = reinterpret_cast<Eigenvalues>(dlsym(library, "dsyevd_"));
      found.singular_values = reinterpret_cast<SingularValues>(dlsym(library, "dgesdd_"));
    }
    return found;
  }();
  return loaded;
}

// Numbers of double for so many integers.
std::int64_t doubles_for(std::int64_t integers) { return (integers + 1) / 2; }

// Column-major matrices are the transposed ones, which for a symmetric matrix are the same, and eigenvectors come as
// rows.
void take_eigh(backend::MatrixCall& call, int n) {
  const std::int64_t count = std::int64_t{n} * n, numbers = 1 + 6 * std::int64_t{n} + 2 * count, whole = 3 + 5 * n;
  if (numbers > std::numeric_limits<int>::max()) return;
  call.work = std::max(call.work, count + numbers + doubles_for(whole));
  call.run = [=, plain = std::move(call.run)](const double* const* in, double* const* out, double* work) {
    double* rows = work;
    std::copy(in[0], in[0] + count, rows);
    if (!backend::all_finite(rows, count)) return false;
    const int numbers_size = static_cast<int>(numbers), whole_size = static_cast<int>(whole);
    int info = 0;  // "U" is the lower triangle by rows
    lapack().eigenvalues("V", "U", &n, rows, &n, out[0], work + count, &numbers_size,
                         reinterpret_cast<int*>(work + count + numbers), &whole_size, &info, 1, 1);
    if (info != 0) return plain(in, out, work);
    backend::choose_signs(rows, n, n, n, 1, [&](std::int64_t i) {
      for (std::int64_t e = i * n; e < (i + 1) * n; ++e) rows[e] = -rows[e];
    });
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) out[1][i * n + j] = rows[j * n + i];
    return true;
  };
}

// aᵀ = v·s·uᵀ, by columns, is a by rows.
void take_svd(backend::MatrixCall& call, int m, int n) {
  const int least = std::min(m, n);
  const std::int64_t count = std::int64_t{m} * n, whole = 8 * std::int64_t{least};
  double best = 0;
  const int query = -1;
  int info = 0, none = 0;
  lapack().singular_values("S", &n, &m, &best, &n, &best, &best, &n, &best, &least, &best, &query, &none, &info, 1);
  if (info != 0 || !(best >= 1 && best < std::numeric_limits<int>::max())) return;
  const int numbers = static_cast<int>(best);
  call.work = std::max(call.work, count + numbers + doubles_for(whole));
  call.run = [=, plain = std::move(call.run)](const double* const* in, double* const* out, double* work) {
    if (!backend::all_finite(in[0], count)) return false;
    std::copy(in[0], in[0] + count, work);
    double *u = out[0], *vt = out[2];
    int failed = 0;
    lapack().singular_values("S", &n, &m, work, &n, out[1], vt, &n, u, &least, work + count, &numbers,
                             reinterpret_cast<int*>(work + count + numbers), &failed, 1);
    if (failed != 0) return plain(in, out, work);
    backend::choose_signs(u, least, 1, m, least, [&](std::int64_t i) {
      for (std::int64_t j = 0; j < m; ++j) u[j * least + i] = -u[j * least + i];
      for (std::int64_t j = 0; j < n; ++j) vt[i * n + j] = -vt[i * n + j];
    });
    return true;
  };
}

}  // namespace

void prefer_lapack(backend::MatrixCall& call, const std::string& op, const Shape& a) {
  const std::int64_t m = a[a.rank() - 2], n = a[a.rank() - 1];
  constexpr std::int64_t kLargest = std::numeric_limits<int>::max();
  if ((op != "eigh" && op != "svd") || std::min(m, n) < kSmallest || std::max(m, n) > kLargest || !lever("lapack"))
    return;
  if (op == "eigh" && lapack().eigenvalues) take_eigh(call, static_cast<int>(n));
  if (op == "svd" && lapack().singular_values) take_svd(call, static_cast<int>(m), static_cast<int>(n));
}

}  // namespace varve::cpu
