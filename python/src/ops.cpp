// Operators. Elementwise ones come from the library's own table, so that a new one is here without an edit; those with
// options are named one by one, with NumPy's words for them (axis, keepdims).
#include "bindings.h"

namespace varve::python {
namespace {

using Axis = nb::object;  // None, a number, or several

std::optional<Axes> to_axes(nb::handle axis) {
  if (axis.is_none()) return std::nullopt;
  const Shape axes = to_shape(axis);
  return Axes(axes.begin(), axes.end());
}

Tensor optional_tensor(nb::handle value) { return value.is_none() ? Tensor() : to_tensor(value); }

Reduction to_reduction(const std::string& name) {
  if (name == "mean") return Reduction::mean;
  if (name == "sum") return Reduction::sum;
  if (name == "none") return Reduction::none;
  throw Error("reduction: expected mean, sum or none, got '" + name + "'.");
}

std::vector<std::int64_t> numbers(nb::handle value, std::size_t count) {
  const Shape shape = to_shape(value);
  std::vector<std::int64_t> all(shape.begin(), shape.end());
  if (all.size() == 1) all.resize(count, all[0]);
  return all;
}

// 1, (1, 2) for each axis, or ((before, after), …).
std::vector<Padding> paddings(nb::handle value, std::size_t count) {
  std::int64_t one = 0;
  if (nb::try_cast<std::int64_t>(value, one)) return std::vector<Padding>(count, Padding(one));
  std::vector<Padding> all;
  for (const nb::handle part : nb::cast<nb::sequence>(value)) {
    if (nb::try_cast<std::int64_t>(part, one)) {
      all.emplace_back(one);
    } else {
      const Shape both = to_shape(part);
      if (both.rank() != 2) throw Error("padding: expected a number or (before, after) for each axis.");
      all.emplace_back(both[0], both[1]);
    }
  }
  return all;
}

void bind_elementwise(nb::module_& m) {
  for (const OpRecord* record : operators()) {
    if (!record->elementwise()) continue;
    const OpDef op(record);
    const std::string doc = record->doc;
    if (record->arity == 1)
      m.def(
          record->name.c_str(),
          [op](nb::handle x) {
            const Operand a = to_operand(x);
            return unlocked([&] { return op(a); });
          },
          "x"_a, doc.c_str());
    if (record->arity == 2)
      m.def(
          record->name.c_str(),
          [op](nb::handle x, nb::handle y) {
            const Operand a = to_operand(x), b = to_operand(y);
            return unlocked([&] { return op(a, b); });
          },
          "a"_a, "b"_a, doc.c_str());
    if (record->arity == 3)
      m.def(
          record->name.c_str(),
          [op](nb::handle x, nb::handle y, nb::handle z) {
            const Operand a = to_operand(x), b = to_operand(y), c = to_operand(z);
            return unlocked([&] { return op(a, b, c); });
          },
          "a"_a, "b"_a, "c"_a, doc.c_str());
  }
}

using Reduce = Tensor (*)(const Tensor&, const ReduceOptions&);
void bind_reduction(nb::module_& m, const char* name, Reduce reduce, const char* doc) {
  m.def(
      name,
      [reduce](nb::handle x, Axis axis, bool keepdims) {
        const Tensor t = to_tensor(x);
        const ReduceOptions options{to_axes(axis), keepdims};
        return unlocked([&] { return reduce(t, options); });
      },
      "x"_a, "axis"_a = nb::none(), "keepdims"_a = false, doc);
}

void bind_reductions(nb::module_& m) {
  bind_reduction(m, "sum", sum, "The sum over axes, or over all of them.");
  bind_reduction(m, "mean", mean, "The mean over axes, or over all of them.");
  bind_reduction(m, "prod", prod, "The product over axes, or over all of them.");
  bind_reduction(m, "max", max, "The largest element over axes, or over all of them.");
  bind_reduction(m, "min", min, "The smallest element over axes, or over all of them.");
  bind_reduction(m, "any", any, "Whether any element is true.");
  bind_reduction(m, "all", all, "Whether all elements are true.");
  bind_reduction(m, "logsumexp", logsumexp, "log Σ exp x, without overflow.");
  m.def(
      "var",
      [](nb::handle x, Axis axis, bool keepdims, std::int64_t ddof) {
        const Tensor t = to_tensor(x);
        const VarOptions options{to_axes(axis), keepdims, ddof};
        return unlocked([&] { return var(t, options); });
      },
      "x"_a, "axis"_a = nb::none(), "keepdims"_a = false, "ddof"_a = 0, "The variance over axes.");
  m.def(
      "norm",
      [](nb::handle x, double p, Axis axis, bool keepdims) {
        const Tensor t = to_tensor(x);
        const NormOptions options{p, to_axes(axis), keepdims};
        return unlocked([&] { return norm(t, options); });
      },
      "x"_a, "p"_a = 2.0, "axis"_a = nb::none(), "keepdims"_a = false, "The p-norm over axes: p is 1, 2 or infinity.");
  m.def(
      "argmax",
      [](nb::handle x, std::int64_t axis, bool keepdims) {
        const Tensor t = to_tensor(x);
        return unlocked([&] { return argmax(t, axis, keepdims); });
      },
      "x"_a, "axis"_a = -1, "keepdims"_a = false, "Where the largest element lies along an axis; the first of equals.");
  m.def(
      "argmin",
      [](nb::handle x, std::int64_t axis, bool keepdims) {
        const Tensor t = to_tensor(x);
        return unlocked([&] { return argmin(t, axis, keepdims); });
      },
      "x"_a, "axis"_a = -1, "keepdims"_a = false, "Where the smallest element lies along an axis.");
  m.def(
      "cumsum",
      [](nb::handle x, std::int64_t axis) {
        const Tensor t = to_tensor(x);
        return unlocked([&] { return cumsum(t, axis); });
      },
      "x"_a, "axis"_a = -1);
  m.def(
      "sort",
      [](nb::handle x, std::int64_t axis, bool descending) {
        const Tensor t = to_tensor(x);
        return unlocked([&] { return sort(t, axis, descending); });
      },
      "x"_a, "axis"_a = -1, "descending"_a = false);
  m.def(
      "argsort",
      [](nb::handle x, std::int64_t axis, bool descending) {
        const Tensor t = to_tensor(x);
        return unlocked([&] { return argsort(t, axis, descending); });
      },
      "x"_a, "axis"_a = -1, "descending"_a = false);
  m.def(
      "top_k",
      [](nb::handle x, std::int64_t k, std::int64_t axis) {
        const Tensor t = to_tensor(x);
        return unlocked([&] { return top_k(t, k, axis); });
      },
      "x"_a, "k"_a, "axis"_a = -1, "The k largest along an axis, and where they are.");
  m.def(
      "softmax",
      [](nb::handle x, std::int64_t axis) {
        const Tensor t = to_tensor(x);
        return unlocked([&] { return softmax(t, axis); });
      },
      "x"_a, "axis"_a = -1);
  m.def(
      "log_softmax",
      [](nb::handle x, std::int64_t axis) {
        const Tensor t = to_tensor(x);
        return unlocked([&] { return log_softmax(t, axis); });
      },
      "x"_a, "axis"_a = -1);
}

void bind_creation(nb::module_& m) {
  m.def(
      "full",
      [](nb::handle shape, nb::handle value, nb::object dtype) {
        const Shape s = to_shape(shape);
        if (PyLong_Check(value.ptr()) && !PyBool_Check(value.ptr()))
          return full_int(s, nb::cast<std::int64_t>(value), dtype.is_none() ? i64 : to_dtype(dtype));
        return full(s, nb::cast<double>(value), dtype.is_none() ? f32 : to_dtype(dtype));
      },
      "shape"_a, "value"_a, "dtype"_a = nb::none());
  m.def(
      "zeros", [](nb::handle shape, nb::handle dtype) { return zeros(to_shape(shape), to_dtype(dtype)); }, "shape"_a,
      "dtype"_a = f32);
  m.def(
      "ones", [](nb::handle shape, nb::handle dtype) { return ones(to_shape(shape), to_dtype(dtype)); }, "shape"_a,
      "dtype"_a = f32);
  m.def(
      "eye", [](std::int64_t n, nb::handle dtype) { return eye(n, to_dtype(dtype)); }, "n"_a, "dtype"_a = f32);
  m.def("_arange", [](std::int64_t end) { return arange(end); });
  m.def("_arange", [](double begin, double end, double step, nb::handle dtype) {
    return arange(begin, end, step, to_dtype(dtype));
  });
  m.def(
      "linspace",
      [](double begin, double end, std::int64_t count, nb::handle dtype) {
        return linspace(begin, end, count, to_dtype(dtype));
      },
      "begin"_a, "end"_a, "count"_a, "dtype"_a = f32);
  const auto random = [](std::int64_t seed, const std::string& stream, nb::handle counter, nb::handle dtype) {
    return RandomOptions{seed, stream, optional_tensor(counter), to_dtype(dtype)};
  };
  m.def(
      "uniform",
      [random](nb::handle shape, std::int64_t seed, const std::string& stream, nb::object counter, nb::handle dtype) {
        return uniform(to_shape(shape), random(seed, stream, counter, dtype));
      },
      "shape"_a, "seed"_a = 0, "stream"_a = "", "counter"_a = nb::none(), "dtype"_a = f32,
      "Random numbers in [0, 1): the same for the same seed, stream and counter.");
  m.def(
      "normal",
      [random](nb::handle shape, std::int64_t seed, const std::string& stream, nb::object counter, nb::handle dtype) {
        return normal(to_shape(shape), random(seed, stream, counter, dtype));
      },
      "shape"_a, "seed"_a = 0, "stream"_a = "", "counter"_a = nb::none(), "dtype"_a = f32,
      "Normal random numbers: mean 0, deviation 1.");
  m.def(
      "bernoulli",
      [random](nb::handle shape, nb::handle probability, std::int64_t seed, const std::string& stream,
               nb::object counter) {
        return bernoulli(to_shape(shape), to_operand(probability), random(seed, stream, counter, nb::cast(f32)));
      },
      "shape"_a, "probability"_a, "seed"_a = 0, "stream"_a = "", "counter"_a = nb::none());
  m.def(
      "permutation",
      [random](std::int64_t n, std::int64_t seed, const std::string& stream, nb::object counter) {
        return permutation(n, random(seed, stream, counter, nb::cast(f32)));
      },
      "n"_a, "seed"_a = 0, "stream"_a = "", "counter"_a = nb::none());
  m.def(
      "dropout",
      [random](nb::handle x, double rate, std::int64_t seed, const std::string& stream, nb::object counter) {
        return dropout(to_tensor(x), rate, random(seed, stream, counter, nb::cast(f32)));
      },
      "x"_a, "rate"_a, "seed"_a = 0, "stream"_a = "", "counter"_a = nb::none());
}

void bind_shapes(nb::module_& m) {
  m.def(
      "reshape",
      [](nb::handle x, nb::handle shape) {
        const Tensor t = to_tensor(x);
        const Shape s = to_shape(shape);
        return unlocked([&] { return reshape(t, s); });
      },
      "x"_a, "shape"_a);
  m.def(
      "flatten", [](nb::handle x, std::int64_t start) { return flatten(to_tensor(x), start); }, "x"_a, "start"_a = 1);
  m.def(
      "transpose",
      [](nb::handle x, nb::object axes) {
        const Tensor t = to_tensor(x);
        return axes.is_none() ? transpose(t) : transpose(t, *to_axes(axes));
      },
      "x"_a, "axes"_a = nb::none(), "Axes in another order; the last two swapped unless given.");
  m.def(
      "broadcast_to", [](nb::handle x, nb::handle shape) { return broadcast_to(to_tensor(x), to_shape(shape)); }, "x"_a,
      "shape"_a);
  m.def(
      "expand_dims", [](nb::handle x, std::int64_t axis) { return expand_dims(to_tensor(x), axis); }, "x"_a, "axis"_a);
  m.def(
      "squeeze",
      [](nb::handle x, nb::object axis) {
        const Tensor t = to_tensor(x);
        std::optional<Axes> axes = to_axes(axis);
        if (!axes) {
          axes.emplace();
          for (int a = 0; a < t.rank(); ++a)
            if (t.dim(a) == 1) axes->push_back(a);
        }
        return axes->empty() ? t : squeeze(t, *axes);
      },
      "x"_a, "axis"_a = nb::none());
  m.def("_slice", [](const Tensor& x, const std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>>& ranges) {
    std::vector<Range> all;
    for (const auto& [begin, end, step] : ranges) all.push_back({begin, end, step});
    return slice(x, all);
  });
  m.def(
      "pad",
      [](nb::handle x, const std::vector<std::pair<std::int64_t, std::int64_t>>& widths, double value) {
        return pad(to_tensor(x), widths, {value});
      },
      "x"_a, "widths"_a, "value"_a = 0.0);
  m.def(
      "concat", [](nb::handle parts, std::int64_t axis) { return concat(to_tensors(parts), axis); }, "parts"_a,
      "axis"_a = 0);
  m.def(
      "stack", [](nb::handle parts, std::int64_t axis) { return stack(to_tensors(parts), axis); }, "parts"_a,
      "axis"_a = 0);
  m.def(
      "split",
      [](nb::handle x, nb::handle parts, std::int64_t axis) {
        std::int64_t count = 0;
        if (nb::try_cast<std::int64_t>(parts, count)) return split(to_tensor(x), count, axis);
        return split(to_tensor(x), numbers(parts, 0), axis);
      },
      "x"_a, "parts"_a, "axis"_a = 0, "Equal parts, or parts of these sizes.");
  m.def(
      "flip", [](nb::handle x, nb::handle axis) { return flip(to_tensor(x), *to_axes(axis)); }, "x"_a, "axis"_a);
  m.def(
      "tile", [](nb::handle x, nb::handle repeats) { return tile(to_tensor(x), *to_axes(repeats)); }, "x"_a,
      "repeats"_a);
  m.def(
      "repeat", [](nb::handle x, std::int64_t times, std::int64_t axis) { return repeat(to_tensor(x), times, axis); },
      "x"_a, "times"_a, "axis"_a);
  m.def(
      "tril", [](nb::handle x, std::int64_t diagonal) { return tril(to_tensor(x), diagonal); }, "x"_a,
      "diagonal"_a = 0);
  m.def(
      "triu", [](nb::handle x, std::int64_t diagonal) { return triu(to_tensor(x), diagonal); }, "x"_a,
      "diagonal"_a = 0);
  m.def(
      "sum_to", [](nb::handle x, nb::handle shape) { return sum_to(to_tensor(x), to_shape(shape)); }, "x"_a, "shape"_a);
  m.def(
      "identity", [](nb::handle x) { return identity(to_tensor(x)); }, "x"_a);
  m.def(
      "stop_gradient", [](nb::handle x) { return stop_gradient(to_tensor(x)); }, "x"_a,
      "x, through which no gradient flows.");
  m.def(
      "check_finite", [](nb::handle x, const std::string& what) { return check_finite(to_tensor(x), what); }, "x"_a,
      "what"_a);
  m.def(
      "cast", [](nb::handle x, nb::handle dtype) { return cast(to_tensor(x), to_dtype(dtype)); }, "x"_a, "dtype"_a);
}

void bind_products(nb::module_& m) {
  m.def(
      "gather",
      [](nb::handle x, nb::handle indices, std::int64_t axis) {
        return gather(to_tensor(x), to_tensor(indices), axis);
      },
      "x"_a, "indices"_a, "axis"_a = 0);
  m.def(
      "scatter_add",
      [](nb::handle x, nb::handle indices, nb::handle updates, std::int64_t axis) {
        return scatter_add(to_tensor(x), to_tensor(indices), to_tensor(updates), axis);
      },
      "x"_a, "indices"_a, "updates"_a, "axis"_a = 0, "x with slices of updates added at indices along an axis.");
  m.def(
      "take_along_axis",
      [](nb::handle x, nb::handle indices, std::int64_t axis) {
        return take_along_axis(to_tensor(x), to_tensor(indices), axis);
      },
      "x"_a, "indices"_a, "axis"_a);
  m.def(
      "put_along_axis_add",
      [](nb::handle x, nb::handle indices, nb::handle updates, std::int64_t axis) {
        return put_along_axis_add(to_tensor(x), to_tensor(indices), to_tensor(updates), axis);
      },
      "x"_a, "indices"_a, "updates"_a, "axis"_a);
  m.def(
      "embedding", [](nb::handle table, nb::handle indices) { return embedding(to_tensor(table), to_tensor(indices)); },
      "table"_a, "indices"_a);
  m.def(
      "one_hot",
      [](nb::handle indices, std::int64_t classes, nb::handle dtype) {
        return one_hot(to_tensor(indices), classes, to_dtype(dtype));
      },
      "indices"_a, "classes"_a, "dtype"_a = f32);
  m.def(
      "matmul",
      [](nb::handle a, nb::handle b, bool transpose_a, bool transpose_b) {
        const Tensor x = to_tensor(a), y = to_tensor(b);
        return unlocked([&] { return matmul(x, y, {transpose_a, transpose_b}); });
      },
      "a"_a, "b"_a, "transpose_a"_a = false, "transpose_b"_a = false, "[.., M, K] · [.., K, N]; batches broadcast.");
  m.def("einsum",
        [](const std::string& equation, nb::args operands) { return einsum(equation, to_tensors(operands)); });
  m.def(
      "linear",
      [](nb::handle x, nb::handle w, nb::object bias) {
        return linear(to_tensor(x), to_tensor(w), optional_tensor(bias));
      },
      "x"_a, "w"_a, "bias"_a = nb::none());
  m.def(
      "conv2d",
      [](nb::handle x, nb::handle w, nb::handle stride, nb::handle padding, nb::handle dilation, std::int64_t groups) {
        return conv2d(to_tensor(x), to_tensor(w),
                      {numbers(stride, 2), paddings(padding, 2), numbers(dilation, 2), groups});
      },
      "x"_a, "w"_a, "stride"_a = 1, "padding"_a = 0, "dilation"_a = 1, "groups"_a = 1,
      "x [N, H, W, I] · w [O, KH, KW, I / groups].");
  m.def(
      "conv1d",
      [](nb::handle x, nb::handle w, std::int64_t stride, nb::handle padding, std::int64_t dilation,
         std::int64_t groups) {
        return conv1d(to_tensor(x), to_tensor(w), {stride, paddings(padding, 1).at(0), dilation, groups});
      },
      "x"_a, "w"_a, "stride"_a = 1, "padding"_a = 0, "dilation"_a = 1, "groups"_a = 1);
  m.def(
      "conv2d_transpose",
      [](nb::handle x, nb::handle w, nb::handle stride, nb::handle padding, nb::handle output_padding,
         nb::handle dilation, std::int64_t groups) {
        return conv2d_transpose(
            to_tensor(x), to_tensor(w),
            {numbers(stride, 2), paddings(padding, 2), numbers(output_padding, 2), numbers(dilation, 2), groups});
      },
      "x"_a, "w"_a, "stride"_a = 1, "padding"_a = 0, "output_padding"_a = 0, "dilation"_a = 1, "groups"_a = 1);
  const auto pool = [](nb::handle window, nb::handle stride, nb::handle padding, bool count_padding, bool ceil_mode) {
    return PoolOptions{numbers(window, 2), stride.is_none() ? std::vector<std::int64_t>{} : numbers(stride, 2),
                       paddings(padding, 2), count_padding, ceil_mode};
  };
  m.def(
      "max_pool2d",
      [pool](nb::handle x, nb::handle window, nb::object stride, nb::handle padding, bool ceil_mode) {
        return max_pool2d(to_tensor(x), pool(window, stride, padding, false, ceil_mode));
      },
      "x"_a, "window"_a = 2, "stride"_a = nb::none(), "padding"_a = 0, "ceil_mode"_a = false);
  m.def(
      "avg_pool2d",
      [pool](nb::handle x, nb::handle window, nb::object stride, nb::handle padding, bool count_padding,
             bool ceil_mode) {
        return avg_pool2d(to_tensor(x), pool(window, stride, padding, count_padding, ceil_mode));
      },
      "x"_a, "window"_a = 2, "stride"_a = nb::none(), "padding"_a = 0, "count_padding"_a = false,
      "ceil_mode"_a = false);
  m.def(
      "global_avg_pool2d", [](nb::handle x) { return global_avg_pool2d(to_tensor(x)); }, "x"_a);
  m.def(
      "global_max_pool2d", [](nb::handle x) { return global_max_pool2d(to_tensor(x)); }, "x"_a);
  m.def(
      "adaptive_avg_pool2d",
      [](nb::handle x, std::int64_t h, std::int64_t w) { return adaptive_avg_pool2d(to_tensor(x), h, w); }, "x"_a,
      "height"_a, "width"_a);
  m.def(
      "adaptive_max_pool2d",
      [](nb::handle x, std::int64_t h, std::int64_t w) { return adaptive_max_pool2d(to_tensor(x), h, w); }, "x"_a,
      "height"_a, "width"_a);
  m.def(
      "attention",
      [](nb::handle q, nb::handle k, nb::handle v, nb::object mask, bool causal, std::optional<double> scale) {
        return attention(to_tensor(q), to_tensor(k), to_tensor(v), {optional_tensor(mask), causal, scale});
      },
      "q"_a, "k"_a, "v"_a, "mask"_a = nb::none(), "causal"_a = false, "scale"_a = nb::none(),
      "softmax(q·kᵀ·scale + mask)·v over [.., T, D].");
}

void bind_norms_and_losses(nb::module_& m) {
  m.def(
      "batch_norm",
      [](nb::handle x, nb::object scale, nb::object shift, nb::handle mean, nb::handle var, double epsilon) {
        return batch_norm(to_tensor(x), optional_tensor(scale), optional_tensor(shift), to_tensor(mean), to_tensor(var),
                          epsilon);
      },
      "x"_a, "scale"_a, "shift"_a, "mean"_a, "var"_a, "epsilon"_a = 1e-5);
  m.def(
      "batch_norm_train",
      [](nb::handle x, nb::object scale, nb::object shift, double epsilon) {
        const BatchNorm r = batch_norm_train(to_tensor(x), optional_tensor(scale), optional_tensor(shift), epsilon);
        return nb::make_tuple(r.y, r.mean, r.var);
      },
      "x"_a, "scale"_a = nb::none(), "shift"_a = nb::none(), "epsilon"_a = 1e-5,
      "Normalised values, and the batch's mean and variance.");
  m.def(
      "layer_norm",
      [](nb::handle x, nb::object scale, nb::object shift, double epsilon) {
        return layer_norm(to_tensor(x), optional_tensor(scale), optional_tensor(shift), epsilon);
      },
      "x"_a, "scale"_a = nb::none(), "shift"_a = nb::none(), "epsilon"_a = 1e-5);
  m.def(
      "rms_norm",
      [](nb::handle x, nb::object scale, double epsilon) {
        return rms_norm(to_tensor(x), optional_tensor(scale), epsilon);
      },
      "x"_a, "scale"_a = nb::none(), "epsilon"_a = 1e-6);
  m.def(
      "group_norm",
      [](nb::handle x, std::int64_t groups, nb::object scale, nb::object shift, double epsilon) {
        return group_norm(to_tensor(x), groups, optional_tensor(scale), optional_tensor(shift), epsilon);
      },
      "x"_a, "groups"_a, "scale"_a = nb::none(), "shift"_a = nb::none(), "epsilon"_a = 1e-5);
  m.def(
      "instance_norm",
      [](nb::handle x, nb::object scale, nb::object shift, double epsilon) {
        return instance_norm(to_tensor(x), optional_tensor(scale), optional_tensor(shift), epsilon);
      },
      "x"_a, "scale"_a = nb::none(), "shift"_a = nb::none(), "epsilon"_a = 1e-5);
  m.def(
      "local_response_norm",
      [](nb::handle x, std::int64_t size, double alpha, double beta, double k) {
        return local_response_norm(to_tensor(x), {size, alpha, beta, k});
      },
      "x"_a, "size"_a = 5, "alpha"_a = 1e-4, "beta"_a = 0.75, "k"_a = 1.0);
  m.def(
      "leaky_relu", [](nb::handle x, nb::handle slope) { return leaky_relu(to_tensor(x), to_operand(slope)); }, "x"_a,
      "slope"_a = 0.01);
  m.def(
      "elu", [](nb::handle x, nb::handle alpha) { return elu(to_tensor(x), to_operand(alpha)); }, "x"_a,
      "alpha"_a = 1.0);
  m.def(
      "prelu", [](nb::handle x, nb::handle slope) { return prelu(to_tensor(x), to_tensor(slope)); }, "x"_a, "slope"_a);
  m.def(
      "cross_entropy",
      [](nb::handle logits, nb::handle labels, const std::string& reduction) {
        return cross_entropy(to_tensor(logits), to_tensor(labels), to_reduction(reduction));
      },
      "logits"_a, "labels"_a, "reduction"_a = "mean", "Of logits [.., C] and integer labels [..].");
  m.def(
      "binary_cross_entropy",
      [](nb::handle logits, nb::handle targets, const std::string& reduction) {
        return binary_cross_entropy(to_tensor(logits), to_tensor(targets), to_reduction(reduction));
      },
      "logits"_a, "targets"_a, "reduction"_a = "mean");
  m.def(
      "mse_loss",
      [](nb::handle a, nb::handle b, const std::string& reduction) {
        return mse_loss(to_tensor(a), to_tensor(b), to_reduction(reduction));
      },
      "a"_a, "b"_a, "reduction"_a = "mean");
  m.def(
      "l1_loss",
      [](nb::handle a, nb::handle b, const std::string& reduction) {
        return l1_loss(to_tensor(a), to_tensor(b), to_reduction(reduction));
      },
      "a"_a, "b"_a, "reduction"_a = "mean");
  m.def(
      "huber_loss",
      [](nb::handle a, nb::handle b, double delta, const std::string& reduction) {
        return huber_loss(to_tensor(a), to_tensor(b), delta, to_reduction(reduction));
      },
      "a"_a, "b"_a, "delta"_a = 1.0, "reduction"_a = "mean");
  m.def(
      "kl_div",
      [](nb::handle log_p, nb::handle target, const std::string& reduction) {
        return kl_div(to_tensor(log_p), to_tensor(target), to_reduction(reduction));
      },
      "log_p"_a, "target"_a, "reduction"_a = "mean");
}

}  // namespace

void bind_ops(nb::module_& m) {
  bind_elementwise(m);
  bind_reductions(m);
  bind_creation(m);
  bind_shapes(m);
  bind_products(m);
  bind_norms_and_losses(m);
  m.def("_operators", [] {
    nb::list names;
    for (const OpRecord* record : operators())
      names.append(nb::make_tuple(record->name, record->elementwise(), record->doc));
    return names;
  });
}

}  // namespace varve::python
