// Writing at positions, searching, counting and choosing.
#include "ops.h"

namespace varve::python {

void bind_indexing(nb::module_& m) {
  op(
      m, "scatter",
      [](const Tensor& x, const Tensor& indices, const Tensor& updates, ScatterMode mode, std::int64_t axis) {
        return scatter(x, indices, updates, {mode, axis});
      },
      R"(x with slices along an axis set to those of updates: where an index occurs twice, the last one stays.

mode: "assign", or how an update joins what is there: "sum", "max", "min" or "product".

>>> x = vv.tensor([1.0, 2.0, 3.0])
>>> vv.scatter(x, vv.tensor([2, 0]), vv.tensor([7.0, 8.0])).tolist()
[8.0, 2.0, 7.0]
>>> vv.scatter(x, vv.tensor([1, 1]), vv.tensor([5.0, 4.0]), mode="max").tolist()
[1.0, 5.0, 3.0])",
      "x"_a, "indices"_a, "updates"_a, "mode"_a = "assign", "axis"_a = 0);
  op(m, "put_along_axis", put_along_axis,
     R"(x with elements set at each row's own positions along an axis, or joined with what is there (see scatter).

>>> vv.put_along_axis(vv.zeros((2, 2)), vv.tensor([[1], [0]]), vv.ones((2, 1)), axis=1).tolist()
[[0.0, 1.0], [1.0, 0.0]])",
     "x"_a, "indices"_a, "updates"_a, "axis"_a, "mode"_a = "assign");
  op(
      m, "searchsorted",
      [](const Tensor& sorted, const Tensor& values, bool right) { return searchsorted(sorted, values, {right}); },
      R"(Where values would be inserted to keep `sorted` in order: before equal elements, or behind them (right=True).

`sorted` has one axis, or the leading axes of values: then each row is searched in its own. NaN comes last.

>>> vv.searchsorted(vv.tensor([1, 3, 3, 7]), vv.tensor([3, 8, 0])).tolist()
[1, 4, 0])",
      "sorted"_a, "values"_a, "right"_a = false);
  op(m, "isin", isin, R"(Which elements of x are among values.

>>> vv.isin(vv.tensor([1, 2, 3]), [3, 1]).tolist()
[True, False, True])",
     "x"_a, "values"_a);
  op(
      m, "bincount",
      [](const Tensor& x, const std::optional<std::int64_t>& bins, const Tensor& weights) {
        return bincount(x, {bins, weights});
      },
      R"(How often 0, 1, … occur in x, or the sums of their weights. Without bins x is read: as many as its largest and one.

>>> vv.bincount(vv.tensor([1, 3, 1])).tolist(), vv.bincount(vv.tensor([1, 3, 1]), bins=5).tolist()
([0, 2, 0, 1], [0, 2, 0, 1, 0]))",
      "x"_a, "bins"_a = nb::none(), "weights"_a = nb::none());
  op(
      m, "histogram",
      [](const Tensor& x, std::int64_t bins, const std::optional<std::vector<double>>& range, const Tensor& weights) {
        HistogramOptions options{.bins = bins, .weights = weights};
        if (range && range->size() != 2) throw Error("histogram: range must be (low, high).");
        if (range) options.range = std::pair((*range)[0], (*range)[1]);
        return histogram(x, options);
      },
      R"(Counts and the bins + 1 edges. The range is that of the values unless given; what is outside counts nowhere.

>>> counts, edges = vv.histogram(vv.tensor([0.1, 0.2, 0.9]), bins=2, range=(0, 1))
>>> counts.tolist(), edges.tolist()
([2, 1], [0.0, 0.5, 1.0]))",
      "x"_a, "bins"_a = 10, "range"_a = nb::none(), "weights"_a = nb::none());
  op(
      m, "unique",
      [](const Tensor& x) {
        Unique found = unique(x);
        return std::tuple(found.values, found.inverse, found.counts);
      },
      R"(The values of x in order, where in them each element stands, and how often each occurs. x is read.

>>> values, inverse, counts = vv.unique(vv.tensor([3, 1, 3]))
>>> values.tolist(), inverse.tolist(), counts.tolist()
([1, 3], [1, 0, 1], [1, 2]))",
      "x"_a);
  op(m, "nonzero", nonzero, R"(The indices of elements that are not zero, a row for each. x is read.

>>> vv.nonzero(vv.tensor([[0, 5], [7, 0]])).tolist()
[[0, 1], [1, 0]])",
     "x"_a);
  op(m, "masked_select", masked_select,
     R"(Elements, or rows, of x where a bool mask of its leading axes is true. The mask is read.

>>> x = vv.tensor([1.0, 2.0, 3.0])
>>> vv.masked_select(x, x > 1.5).tolist()
[2.0, 3.0])",
     "x"_a, "mask"_a);
}

}  // namespace varve::python
