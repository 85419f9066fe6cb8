// Tensors out of nothing: constants, ranges and random numbers.
#include "ops.h"

namespace varve::python {
namespace {

RandomOptions random(std::int64_t seed, const std::string& stream, const Tensor& counter, DType dtype = f32) {
  return {seed, stream, counter, dtype};
}

void bind_random(nb::module_& m) {
  const auto seed_named = "seed"_a = 0;
  const auto stream_named = "stream"_a = "";
  const auto counter_named = "counter"_a = nb::none();
  op(
      m, "uniform",
      [](const Shape& shape, std::int64_t seed, const std::string& stream, const Tensor& counter, DType dtype) {
        return uniform(shape, random(seed, stream, counter, dtype));
      },
      R"(Random numbers in [0, 1): the same for the same seed, stream and counter.

A stream names the place of use, so that two places differ; a counter is a scalar tensor that is read when a program
runs, so that each run of a compiled function differs.

>>> vv.all(vv.uniform((3,), seed=1) == vv.uniform((3,), seed=1)).item()
True)",
      "shape"_a, seed_named, stream_named, counter_named, "dtype"_a = "f32");
  op(
      m, "normal",
      [](const Shape& shape, std::int64_t seed, const std::string& stream, const Tensor& counter, DType dtype) {
        return normal(shape, random(seed, stream, counter, dtype));
      },
      R"(Random numbers of mean 0 and deviation 1: the same for the same seed, stream and counter.

>>> noise = vv.normal((1000,), seed=7, stream="noise")
>>> abs(noise.mean().item()) < 0.1
True)",
      "shape"_a, seed_named, stream_named, counter_named, "dtype"_a = "f32");
  op(
      m, "bernoulli",
      [](const Shape& shape, const Operand& probability, std::int64_t seed, const std::string& stream,
         const Tensor& counter) { return bernoulli(shape, probability, random(seed, stream, counter)); },
      R"(Bools, each true with this probability.

>>> vv.bernoulli((4,), 1.0).tolist()
[True, True, True, True])",
      "shape"_a, "probability"_a, seed_named, stream_named, counter_named);
  op(
      m, "permutation",
      [](std::int64_t n, std::int64_t seed, const std::string& stream, const Tensor& counter) {
        return permutation(n, random(seed, stream, counter));
      },
      R"(The numbers 0 … n - 1 in a random order.

>>> sorted(vv.permutation(4, seed=3).tolist())
[0, 1, 2, 3])",
      "n"_a, seed_named, stream_named, counter_named);
  op(
      m, "integers",
      [](const Shape& shape, std::int64_t low, std::int64_t high, std::int64_t seed, const std::string& stream,
         const Tensor& counter) { return integers(shape, low, high, random(seed, stream, counter)); },
      R"(Random integers from low up to high, which is not among them.

>>> vv.integers((3,), 5, 6).tolist()
[5, 5, 5])",
      "shape"_a, "low"_a, "high"_a, seed_named, stream_named, counter_named);
  op(
      m, "categorical",
      [](const Tensor& logits, std::int64_t seed, const std::string& stream, const Tensor& counter) {
        return categorical(logits, random(seed, stream, counter));
      },
      R"(A class for each row of the last axis, with probabilities softmax(logits).

>>> vv.categorical([[0.0, 100.0, 0.0], [100.0, 0.0, 0.0]]).tolist()
[1, 0])",
      "logits"_a, seed_named, stream_named, counter_named);
  op(
      m, "dropout",
      [](const Tensor& x, double rate, std::int64_t seed, const std::string& stream, const Tensor& counter) {
        return dropout(x, rate, random(seed, stream, counter));
      },
      R"(x with a share of its elements set to zero, the others scaled by 1 / (1 - rate).

>>> kept = vv.dropout(vv.ones(1000), 0.5).tolist()
>>> sorted(set(kept))
[0.0, 2.0])",
      "x"_a, "rate"_a, seed_named, stream_named, counter_named);
}

}  // namespace

void bind_creation(nb::module_& m) {
  m.def(
      "full",
      [](nb::handle shape, nb::handle value, nb::handle dtype) {
        static const Where at[] = {{"full", "shape", false}, {"full", "value", false}, {"full", "dtype", false}};
        const Shape s(to_integers(shape, at[0]));
        const bool whole = PyIndex_Check(value.ptr()) && !PyBool_Check(value.ptr());
        const DType type = dtype.is_none() ? (whole                       ? i64
                                              : PyBool_Check(value.ptr()) ? boolean
                                                                          : f32)
                                           : to_dtype(dtype, at[2]);
        if (whole) {
          const std::int64_t number = to_integer(value, at[1]);
          return unlocked([&] { return full_int(s, number, type); });
        }
        const double number = to_number(value, at[1]);
        return unlocked([&] { return full(s, number, type); });
      },
      "shape"_a.none(), "value"_a.none(), "dtype"_a = nb::none(),
      nb::sig("def full(shape: ShapeLike, value: float, dtype: DTypeLike | None = None) -> Tensor"),
      R"(A tensor that holds one number everywhere; integers make i64, floats f32, bools bool unless a type is given.

>>> vv.full((2, 2), 7).tolist()
[[7, 7], [7, 7]])");
  op(m, "zeros", zeros, R"(Zeros.

>>> vv.zeros((2, 3)).tolist()
[[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])",
     "shape"_a, "dtype"_a = "f32");
  op(m, "ones", ones, R"(Ones.

>>> vv.ones(3, dtype="i64").tolist()
[1, 1, 1])",
     "shape"_a, "dtype"_a = "f32");
  op(m, "eye", eye, R"(The identity matrix.

>>> vv.eye(2).tolist()
[[1.0, 0.0], [0.0, 1.0]])",
     "n"_a, "dtype"_a = "f32");
  op(m, "linspace", linspace, R"(`count` numbers from begin to end, both included.

>>> vv.linspace(0, 1, 5).tolist()
[0.0, 0.25, 0.5, 0.75, 1.0])",
     "begin"_a, "end"_a, "count"_a, "dtype"_a = "f32");
  op(
      m, "_arange", [](std::int64_t end) { return arange(end); }, "", "end"_a);
  op(
      m, "_arange", [](double begin, double end, double step, DType dtype) { return arange(begin, end, step, dtype); },
      "", "begin"_a, "end"_a, "step"_a, "dtype"_a);
  bind_random(m);
}

}  // namespace varve::python
