// Shapes: views where free.
#include "ops.h"

namespace varve::python {
namespace {

Tensor squeezed(const Tensor& x, const std::optional<Axes>& given) {
  if (given) return squeeze(x, *given);
  Axes axes;
  for (int a = 0; a < x.rank(); ++a)
    if (x.dim(a) == 1) axes.push_back(a);
  return axes.empty() ? x : squeeze(x, axes);
}

void bind_joins(nb::module_& m) {
  op(m, "concat", concat, R"(Tensors one after the other along an axis.

>>> vv.concat([vv.ones(2), vv.zeros(1)]).tolist()
[1.0, 1.0, 0.0])",
     "parts"_a, "axis"_a = 0);
  op(m, "stack", stack, R"(Tensors of one shape, side by side along a new axis.

>>> vv.stack([vv.ones(2), vv.zeros(2)]).tolist()
[[1.0, 1.0], [0.0, 0.0]])",
     "parts"_a, "axis"_a = 0);
  m.def(
      "split",
      [](nb::handle x, nb::handle parts, nb::handle axis) {
        static const Where at[] = {{"split", "x", false}, {"split", "parts", false}, {"split", "axis", false}};
        const Tensor t = to_tensor(x, at[0]);
        const std::int64_t along = to_integer(axis, at[2]);
        if (PyIndex_Check(parts.ptr())) {
          const std::int64_t count = to_integer(parts, at[1]);
          return unlocked([&] { return split(t, count, along); });
        }
        const std::vector<std::int64_t> sizes = to_integers(parts, at[1]);
        return unlocked([&] { return split(t, sizes, along); });
      },
      "x"_a.none(), "parts"_a.none(), "axis"_a = 0,
      nb::sig("def split(x: TensorLike, parts: ShapeLike, axis: int = 0) -> list[Tensor]"),
      R"(Equal parts along an axis (a number of them), or parts of these sizes.

>>> [part.tolist() for part in vv.split(vv.arange(5), [2, 3])]
[[0, 1], [2, 3, 4]])");
  op(m, "tile", tile, R"(x repeated as a whole, so many times along each axis.

>>> vv.tile(vv.tensor([1, 2]), 2).tolist()
[1, 2, 1, 2])",
     "x"_a, "repeats"_a);
  op(m, "repeat", repeat, R"(Each element repeated along an axis.

>>> vv.repeat(vv.tensor([1, 2]), 2, axis=0).tolist()
[1, 1, 2, 2])",
     "x"_a, "times"_a, "axis"_a);
  op(m, "barrier", barrier, R"(The tensors, none of which is used before all are computed.

>>> a, b = vv.barrier([vv.ones(1), vv.zeros(1)])
>>> (a + b).item()
1.0)",
     "xs"_a);
}

void bind_values(nb::module_& m) {
  op(m, "identity", identity, R"(x itself, as a tensor of its own.

>>> vv.identity(3.0).item()
3.0)",
     "x"_a);
  op(m, "stop_gradient", stop_gradient, R"(x, through which no gradient flows.

>>> vv.grad(lambda x: (x * vv.stop_gradient(x)).sum())(vv.tensor([3.0])).tolist()
[3.0])",
     "x"_a);
  op(m, "check_finite", check_finite,
     R"(x; an infinite or NaN value in it is an error at the next read, which names `what`.

>>> vv.check_finite(vv.tensor([1.0]), "the loss").tolist()
[1.0])",
     "x"_a, "what"_a);
  op(
      m, "nan_to_num",
      [](const Tensor& x, double nan, const std::optional<double>& posinf, const std::optional<double>& neginf) {
        return nan_to_num(x, {nan, posinf, neginf});
      },
      R"(x with numbers in place of NaN and infinities: the type's largest and smallest for those unless given.

>>> vv.nan_to_num(vv.tensor([float("nan"), float("inf"), 2.0]), posinf=9.0).tolist()
[0.0, 9.0, 2.0])",
      "x"_a, "nan"_a = 0.0, "posinf"_a = nb::none(), "neginf"_a = nb::none());
  op(m, "cast", cast, R"(x in another element type.

>>> vv.cast(vv.tensor([1.7, -1.7]), "i32").tolist()
[1, -1])",
     "x"_a, "dtype"_a);
}

}  // namespace

void bind_shapes(nb::module_& m) {
  op(m, "reshape", reshape, R"(The same elements in another shape; one size may be -1.

>>> vv.reshape(vv.arange(6), (2, -1)).tolist()
[[0, 1, 2], [3, 4, 5]])",
     "x"_a, "shape"_a);
  op(m, "flatten", flatten, R"(All axes from `start` on as one.

>>> vv.flatten(vv.zeros((2, 3, 4))).shape
(2, 12))",
     "x"_a, "start"_a = 1);
  op(
      m, "transpose",
      [](const Tensor& x, const std::optional<Axes>& axes) { return axes ? transpose(x, *axes) : transpose(x); },
      R"(The axes in another order; the last two swapped unless given.

>>> vv.transpose(vv.zeros((2, 3, 4)), (2, 0, 1)).shape
(4, 2, 3))",
      "x"_a, "axes"_a = nb::none());
  op(m, "broadcast_to", broadcast_to, R"(x repeated to fill a shape, without a copy.

>>> vv.broadcast_to(vv.tensor([1.0, 2.0]), (2, 2)).tolist()
[[1.0, 2.0], [1.0, 2.0]])",
     "x"_a, "shape"_a);
  op(m, "expand_dims", expand_dims, R"(A new axis of size 1.

>>> vv.expand_dims(vv.zeros(3), 0).shape
(1, 3))",
     "x"_a, "axis"_a);
  op(m, "squeeze", squeezed, R"(Without axes of size 1: these, or all of them.

>>> vv.squeeze(vv.zeros((1, 3, 1))).shape
(3,))",
     "x"_a, "axis"_a = nb::none());
  m.def("_slice", [](const Tensor& x, const std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>>& ranges) {
    std::vector<Range> all;
    for (const auto& [begin, end, step] : ranges) all.push_back({begin, end, step});
    return unlocked([&] { return slice(x, all); });
  });
  op(
      m, "pad",
      [](const Tensor& x, const Paddings& widths, double value) {
        std::vector<std::pair<std::int64_t, std::int64_t>> all;
        for (const Padding& width : widths.all) all.emplace_back(width.before, width.after);
        return pad(x, all, {value});
      },
      R"(x with a border of one value: (before, after) for each axis.

>>> vv.pad(vv.ones(2), [(1, 2)]).tolist()
[0.0, 1.0, 1.0, 0.0, 0.0])",
      "x"_a, "widths"_a, "value"_a = 0.0);
  op(m, "flip", flip, R"(Reversed along axes.

>>> vv.flip(vv.arange(3), 0).tolist()
[2, 1, 0])",
     "x"_a, "axis"_a);
  op(m, "roll", roll, R"(What leaves at one end of an axis comes in at the other.

>>> vv.roll(vv.arange(4), 1, axis=0).tolist()
[3, 0, 1, 2])",
     "x"_a, "shifts"_a, "axis"_a);
  op(m, "tril", tril, R"(The lower triangle; zeros above a diagonal.

>>> vv.tril(vv.ones((2, 2))).tolist()
[[1.0, 0.0], [1.0, 1.0]])",
     "x"_a, "diagonal"_a = 0);
  op(m, "triu", triu, R"(The upper triangle; zeros below a diagonal.

>>> vv.triu(vv.ones((2, 2))).tolist()
[[1.0, 1.0], [0.0, 1.0]])",
     "x"_a, "diagonal"_a = 0);
  bind_joins(m);
  bind_values(m);
}

}  // namespace varve::python
