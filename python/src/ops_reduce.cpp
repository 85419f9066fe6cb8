// Reductions, order and positions along axes.
#include "ops.h"

namespace varve::python {
namespace {

using Reduce = Tensor (*)(const Tensor&, const ReduceOptions&);

void bind_reduction(nb::module_& m, const char* name, Reduce reduce, const char* doc) {
  op(
      m, name,
      [reduce](const Tensor& x, const std::optional<Axes>& axis, bool keep) {
        return reduce(x, {axis, keep});
      },
      doc, "x"_a, "axis"_a = nb::none(), "keepdims"_a = false);
}

}  // namespace

void bind_reductions(nb::module_& m) {
  bind_reduction(m, "sum", sum, R"(The sum over axes, or over all of them.

>>> vv.sum(vv.tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0).tolist()
[4.0, 6.0])");
  bind_reduction(m, "mean", mean, R"(The mean over axes, or over all of them.

>>> vv.mean(vv.tensor([1.0, 2.0, 6.0])).item()
3.0)");
  bind_reduction(m, "prod", prod, R"(The product over axes, or over all of them.

>>> vv.prod(vv.tensor([2.0, 3.0, 4.0])).item()
24.0)");
  bind_reduction(m, "max", max, R"(The largest element over axes, or over all of them.

>>> vv.max(vv.tensor([[1.0, 5.0], [3.0, 4.0]]), axis=1, keepdims=True).tolist()
[[5.0], [4.0]])");
  bind_reduction(m, "min", min, R"(The smallest element over axes, or over all of them.

>>> vv.min(vv.tensor([3, 1, 2])).item()
1)");
  bind_reduction(m, "any", any, R"(Whether any element is true, over axes or over all of them.

>>> vv.any(vv.tensor([1.0, -1.0]) < 0).item()
True)");
  bind_reduction(m, "all", all, R"(Whether all elements are true, over axes or over all of them.

>>> vv.all(vv.tensor([1.0, -1.0]) < 0).item()
False)");
  bind_reduction(m, "logsumexp", logsumexp, R"(log Σ exp x over axes, or over all of them, without overflow.

>>> vv.logsumexp(vv.tensor([1000.0, -1000.0])).item()
1000.0)");
  op(
      m, "var",
      [](const Tensor& x, const std::optional<Axes>& axis, bool keep, std::int64_t ddof) {
        return var(x, {axis, keep, ddof});
      },
      R"(The variance over axes, or over all of them: squared distances from the mean, divided by N - ddof.

>>> vv.var(vv.tensor([1.0, 3.0])).item(), vv.var(vv.tensor([1.0, 3.0]), ddof=1).item()
(1.0, 2.0))",
      "x"_a, "axis"_a = nb::none(), "keepdims"_a = false, "ddof"_a = 0);
  op(
      m, "norm",
      [](const Tensor& x, double p, const std::optional<Axes>& axis, bool keep) {
        return norm(x, {p, axis, keep});
      },
      R"(The p-norm over axes, or over all of them: p is 1, 2 or infinity.

>>> vv.norm(vv.tensor([3.0, 4.0])).item(), vv.norm(vv.tensor([3.0, 4.0]), p=1).item()
(5.0, 7.0))",
      "x"_a, "p"_a = 2.0, "axis"_a = nb::none(), "keepdims"_a = false);
  op(m, "argmax", argmax, R"(Where the largest element lies along an axis; the first of equals.

>>> vv.argmax(vv.tensor([[1.0, 7.0], [5.0, 2.0]])).tolist()
[1, 0])",
     "x"_a, "axis"_a = -1, "keepdims"_a = false);
  op(m, "argmin", argmin, R"(Where the smallest element lies along an axis; the first of equals.

>>> vv.argmin(vv.tensor([3.0, 1.0, 2.0])).item()
1)",
     "x"_a, "axis"_a = -1, "keepdims"_a = false);
  op(m, "cumsum", cumsum, R"(The running sum along an axis.

>>> vv.cumsum(vv.tensor([1, 2, 3])).tolist()
[1, 3, 6])",
     "x"_a, "axis"_a = -1);
  op(m, "cumprod", cumprod, R"(The running product along an axis.

>>> vv.cumprod(vv.tensor([1, 2, 3])).tolist()
[1, 2, 6])",
     "x"_a, "axis"_a = -1);
  op(m, "cummax", cummax, R"(The largest element so far along an axis, and where it is: of equal ones the last.

>>> values, at = vv.cummax(vv.tensor([1, 3, 2]))
>>> values.tolist(), at.tolist()
([1, 3, 3], [0, 1, 1]))",
     "x"_a, "axis"_a = -1);
  op(m, "cummin", cummin, R"(The smallest element so far along an axis, and where it is: of equal ones the last.

>>> vv.cummin(vv.tensor([2, 3, 1]))[0].tolist()
[2, 2, 1])",
     "x"_a, "axis"_a = -1);
  op(m, "sort", sort, R"(The elements in order along an axis; equal ones keep their order, NaN comes last.

>>> vv.sort(vv.tensor([2, 3, 1]), descending=True).tolist()
[3, 2, 1])",
     "x"_a, "axis"_a = -1, "descending"_a = false);
  op(m, "argsort", argsort, R"(The positions that sort the elements along an axis.

>>> vv.argsort(vv.tensor([2.0, 3.0, 1.0])).tolist()
[2, 0, 1])",
     "x"_a, "axis"_a = -1, "descending"_a = false);
  op(m, "top_k", top_k, R"(The k largest along an axis, largest first, and where they are.

>>> values, positions = vv.top_k(vv.tensor([2.0, 9.0, 5.0]), 2)
>>> values.tolist(), positions.tolist()
([9.0, 5.0], [1, 2]))",
     "x"_a, "k"_a, "axis"_a = -1);
  op(m, "sum_to", sum_to, R"(The inverse of broadcasting: sums what was repeated, so that the result has this shape.

>>> vv.sum_to(vv.ones((4, 3)), (1, 3)).tolist()
[[4.0, 4.0, 4.0]])",
     "x"_a, "shape"_a);
  op(m, "softmax", softmax, R"(exp x / Σ exp x along an axis.

>>> vv.softmax(vv.tensor([1.0, 1.0])).tolist()
[0.5, 0.5])",
     "x"_a, "axis"_a = -1);
  op(m, "log_softmax", log_softmax, R"(The logarithm of softmax along an axis, without its loss of precision.

>>> vv.log_softmax(vv.tensor([0.0, -1000.0])).tolist()
[0.0, -1000.0])",
     "x"_a, "axis"_a = -1);
}

}  // namespace varve::python
