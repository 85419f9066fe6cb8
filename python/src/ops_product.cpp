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
Of [.., heads, T, D], k and v may have fewer heads: each then serves a run of q's heads.

scale is 1/√D unless given; causal lets a position see itself and those before it only.

>>> q = vv.normal((2, 5, 8), seed=1)
>>> vv.attention(q, q, q, causal=True).shape
(2, 5, 8))",
      "q"_a, "k"_a, "v"_a, "mask"_a = nb::none(), "causal"_a = false, "scale"_a = nb::none());
  op(m, "kron", kron, R"(Each element of a times all of b, axis by axis.

>>> vv.kron(vv.tensor([1, 10]), vv.tensor([2, 3])).tolist()
[2, 3, 20, 30])",
     "a"_a, "b"_a);
  op(
      m, "cdist",
      [](const Tensor& a, const Tensor& b, double p, bool exact) {
        return cdist(a, b, {p, exact});
      },
      R"(Distances of all points of a [.., M, D] to all of b [.., N, D]: [.., M, N]. p is 1, 2 or infinity.

exact=True takes differences also where p is 2: more memory, and no cancellation between close points.

>>> vv.cdist(vv.tensor([[0.0, 0.0]]), vv.tensor([[3.0, 4.0], [0.0, 1.0]])).tolist()
[[5.0, 1.0]])",
      "a"_a, "b"_a, "p"_a = 2.0, "exact"_a = false);
  op(
      m, "rope",
      [](const Tensor& x, const Tensor& positions, double base, std::int64_t features, bool interleaved) {
        return rope(x, {positions, base, features, interleaved});
      },
      R"(Rotary embedding of x [.., T, D]: pairs of features turned by angles that grow with the position.

Pairs are the halves (i, i + D/2), as LLaMA has them, or neighbours (2i, 2i + 1) with interleaved=True. positions
broadcasts to [.., T] and is 0, 1, … unless given; features is how many are turned, 0 for all.

>>> q = vv.normal((2, 4, 5, 8), seed=1)
>>> vv.rope(q).shape
(2, 4, 5, 8))",
      "x"_a, "positions"_a = nb::none(), "base"_a = 10000.0, "features"_a = 0, "interleaved"_a = false);
}

}  // namespace varve::python
