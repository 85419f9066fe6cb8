// Plain linear algebra in double, one row-major matrix at a time: what the reference backend computes with, and others
// where no library does. One call of an operator on one matrix of its batch is a function of pointers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "varve/op.h"

namespace varve::backend {

// Each answers false where the matrix has no answer; what it wrote means nothing then.
bool cholesky(double* a, std::int64_t n);                 // the lower triangle; zeros above
bool lu(double* a, std::int64_t* swaps, std::int64_t n);  // row j was swapped with row swaps[j]; false: singular
void solve_by_lu(const double* lu, const std::int64_t* swaps, double* b, std::int64_t n, std::int64_t k);
struct Triangle {
  bool lower, transpose, unit;
};
bool solve_triangular(const double* a, double* b, std::int64_t n, std::int64_t k, Triangle triangle);
void qr(double* a, double* q, double* r, double* work, std::int64_t m, std::int64_t n);  // work: m + 2n
bool eigh(double* a, double* values, double* vectors, double* work, std::int64_t n);     // work: n·n
// work: min·max + min·min + max of m and n
bool svd(const double* a, double* u, double* s, double* vt, double* work, std::int64_t m, std::int64_t n);

bool all_finite(const double* a, std::int64_t count);

// Turns the sign of `count` vectors by their entries at `data[i * step + entry * stride]`: the first entry of at least
// 0.9 times the largest magnitude becomes positive. Calls flip(i) for each vector that is to be negated.
template <class T, class Flip>
void choose_signs(const T* data, std::int64_t count, std::int64_t step, std::int64_t size, std::int64_t stride,
                  Flip flip) {
  for (std::int64_t i = 0; i < count; ++i) {
    T largest = 0;
    const auto at = [&](std::int64_t entry) { return data[i * step + entry * stride]; };
    const auto magnitude = [&](std::int64_t entry) { return at(entry) < 0 ? -at(entry) : at(entry); };
    for (std::int64_t e = 0; e < size; ++e) largest = magnitude(e) > largest ? magnitude(e) : largest;
    std::int64_t first = 0;
    while (first + 1 < size && magnitude(first) < static_cast<T>(0.9) * largest) ++first;
    if (size > 0 && at(first) < 0) flip(i);
  }
}

struct MatrixCall {
  std::int64_t batch = 1;
  std::vector<std::int64_t> in, out;  // elements of one matrix of each operand
  std::int64_t work = 0;              // doubles
  std::string complaint;              // when `run` answers false; {} is the number of the matrix
  std::function<bool(const double* const* in, double* const* out, double* work)> run;
};
// Any operator of the family linalg.
MatrixCall matrix_call(const std::string& op, const Attrs& attrs, const std::vector<TensorType>& in,
                       const std::vector<TensorType>& out);
const std::vector<std::string>& matrix_operators();
// "cholesky: matrix {} of f32 [2, 3, 3] is not positive definite. …"
std::string matrix_complaint(const std::string& op, const TensorType& a);

}  // namespace varve::backend
