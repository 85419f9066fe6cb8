// Products, and reading and writing at positions.
#include "ops.h"

namespace varve::python {

void bind_products(nb::module_& m) {
  op(m, "gather", gather, R"(x at positions along an axis: the axis is replaced by the positions' shape.

A position out of range is an error when the result is read.

>>> vv.gather(vv.tensor([10, 20, 30]), vv.tensor([2, 0])).tolist()
[30, 10])",
     "x"_a, "indices"_a, "axis"_a = 0);
  op(m, "scatter_add", scatter_add, R"(x with slices of updates added at positions along an axis.

>>> vv.scatter_add(vv.zeros(3), vv.tensor([1, 1]), vv.tensor([5.0, 2.0])).tolist()
[0.0, 7.0, 0.0])",
     "x"_a, "indices"_a, "updates"_a, "axis"_a = 0);
  op(m, "take_along_axis", take_along_axis, R"(For each row its own positions: indices have x's shape but for the axis.

>>> vv.take_along_axis(vv.tensor([[1, 2], [3, 4]]), vv.tensor([[1], [0]]), axis=1).tolist()
[[2], [3]])",
     "x"_a, "indices"_a, "axis"_a);
  op(m, "put_along_axis_add", put_along_axis_add, R"(x with updates added at each row's own positions along an axis.

>>> vv.put_along_axis_add(vv.zeros((2, 2)), vv.tensor([[1], [0]]), vv.ones((2, 1)), axis=1).tolist()
[[0.0, 1.0], [1.0, 0.0]])",
     "x"_a, "indices"_a, "updates"_a, "axis"_a);
  op(m, "embedding", embedding, R"(Rows of a table [V, D] at positions of any shape.

>>> vv.embedding(vv.tensor([[1.0, 2.0], [3.0, 4.0]]), vv.tensor([1, 1])).tolist()
[[3.0, 4.0], [3.0, 4.0]])",
     "table"_a, "indices"_a);
  op(m, "one_hot", one_hot, R"(A one at each position, zeros elsewhere.

>>> vv.one_hot(vv.tensor([1, 0]), 3).tolist()
[[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])",
     "indices"_a, "classes"_a, "dtype"_a = "f32");
  op(
      m, "matmul",
      [](const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
        return matmul(a, b, {transpose_a, transpose_b});
      },
      R"([.., M, K] · [.., K, N]; batches broadcast. `a @ b` is the same.

>>> vv.matmul(vv.tensor([[1.0, 2.0]]), vv.tensor([[3.0, 4.0]]), transpose_b=True).tolist()
[[11.0]])",
      "a"_a, "b"_a, "transpose_a"_a = false, "transpose_b"_a = false);
  m.def(
      "einsum",
      [](nb::handle equation, nb::args operands) {
        static const Where at[] = {{"einsum", "equation", false}, {"einsum", "operands", false}};
        const std::string text = to_text(equation, at[0]);
        const std::vector<Tensor> all = to_tensors(operands, at[1]);
        return unlocked([&] { return einsum(text, all); });
      },
      "equation"_a.none(), "operands"_a, nb::sig("def einsum(equation: str, *operands: TensorLike) -> Tensor"),
      R"(Einstein's sums: axes with one letter are multiplied, those absent from the result summed.

>>> vv.einsum("ij,j->i", vv.ones((2, 3)), vv.tensor([1.0, 2.0, 3.0])).tolist()
[6.0, 6.0])");
  op(m, "linear", linear, R"(x [.., I] · w [I, O] + bias [O].

>>> vv.linear(vv.tensor([[1.0, 2.0]]), vv.eye(2), vv.tensor([10.0, 20.0])).tolist()
[[11.0, 22.0]])",
     "x"_a, "w"_a, "bias"_a = nb::none());
  op(
      m, "attention",
      [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, bool causal,
         const std::optional<double>& scale) {
        return attention(q, k, v, {mask, causal, scale});
      },
      R"(softmax(q·kᵀ·scale + mask)·v over [.., T, D]. A mask is added to the scores, or bool: false is masked out.

scale is 1/√D unless given; causal lets a position see itself and those before it only.

>>> q = vv.normal((2, 5, 8), seed=1)
>>> vv.attention(q, q, q, causal=True).shape
(2, 5, 8))",
      "q"_a, "k"_a, "v"_a, "mask"_a = nb::none(), "causal"_a = false, "scale"_a = nb::none());
}

}  // namespace varve::python
