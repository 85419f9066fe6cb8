// Linear algebra: what varve.linalg offers.
#include <varve/linalg.h>

#include "ops.h"

namespace varve::python {

void bind_linalg(nb::module_& m) {
  op(m, "_cholesky", linalg::cholesky, "", "a"_a);
  op(m, "_solve", linalg::solve, "", "a"_a, "b"_a);
  op(
      m, "_triangular_solve",
      [](const Tensor& a, const Tensor& b, bool lower, bool transpose, bool unit_diagonal) {
        return linalg::triangular_solve(a, b, {lower, transpose, unit_diagonal});
      },
      "", "a"_a, "b"_a, "lower"_a = true, "transpose"_a = false, "unit_diagonal"_a = false);
  op(m, "_inv", linalg::inv, "", "a"_a);
  op(m, "_det", linalg::det, "", "a"_a);
  op(
      m, "_slogdet",
      [](const Tensor& a) {
        const auto [sign, log] = linalg::slogdet(a);
        return std::pair(sign, log);
      },
      "", "a"_a);
  op(
      m, "_qr",
      [](const Tensor& a) {
        const auto [q, r] = linalg::qr(a);
        return std::pair(q, r);
      },
      "", "a"_a);
  op(
      m, "_eigh",
      [](const Tensor& a) {
        const auto [values, vectors] = linalg::eigh(a);
        return std::pair(values, vectors);
      },
      "", "a"_a);
  op(
      m, "_svd",
      [](const Tensor& a) {
        const auto [u, s, vt] = linalg::svd(a);
        return std::tuple(u, s, vt);
      },
      "", "a"_a);
}

}  // namespace varve::python
