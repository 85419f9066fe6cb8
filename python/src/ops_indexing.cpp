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
}

}  // namespace varve::python
