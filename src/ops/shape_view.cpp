// Shape operators that move nothing: other sizes, strides and offset over the same elements.
#include "ops/shape_view.h"
#include "ops/shared.h"

#include <algorithm>
#include <numeric>

#include "base/text.h"
#include "ops/batching.h"
#include "ops/families.h"
#include "tensor/record.h"

namespace varve {
namespace {

// ---- reshape: attribute shape

std::vector<TensorType> reshape_shape(const Call& call) {
  const Shape to(call.attrs.ints("shape"));
  const Shape& from = call.in[0].shape;
  if (to.numel() != from.numel())
    throw Error(cat("reshape: ", from, " has ", from.numel(), " elements and ", to, " ", to.numel(), "."));
  return {{call.in[0].dtype, to}};
}

// Axes of `from` and `to` are matched in runs of equal product; a run can be viewed when its old axes follow each other
// without a gap, so that they count as one long axis.
std::optional<Layout> reshape_view(const Call& call, const Layout& in, const TensorType& out) {
  const Shape& from = call.in[0].shape;
  if (from.numel() == 0 || is_contiguous(from, in)) return contiguous(out.shape, in.offset);
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // size and stride, without axes of size 1
  for (int a = 0; a < from.rank(); ++a)
    if (from[a] != 1) axes.emplace_back(from[a], in.strides[at(a)]);
  Layout layout{in.offset, Ints(at(out.shape.rank()), 0)};
  int to = out.shape.rank() - 1;
  for (auto i = static_cast<std::ptrdiff_t>(axes.size()) - 1; i >= 0; --i) {
    std::int64_t size = axes[static_cast<std::size_t>(i)].first, stride = axes[static_cast<std::size_t>(i)].second;
    while (size != 1) {
      while (to >= 0 && out.shape[to] == 1) --to;
      const std::int64_t need = out.shape[to];
      while (size % need != 0) {  // the new axis spans more than this old one: join it with the one outside it
        if (i == 0) return std::nullopt;
        const auto& [outer_size, outer_stride] = axes[static_cast<std::size_t>(i - 1)];
        if (outer_stride != stride * size) return std::nullopt;
        size *= outer_size;
        --i;
      }
      layout.strides[at(to--)] = stride;
      size /= need;
      stride *= need;
    }
  }
  return layout;
}

std::vector<Tensor> reshape_vjp(const Vjp& v) { return {reshape(v.dy, v.in[0].shape())}; }

// ---- transpose: attribute order, out axis i is in axis order[i]

std::vector<TensorType> transpose_shape(const Call& call) {
  const Shape& from = call.in[0].shape;
  const Ints& order = call.attrs.ints("order");
  std::vector<bool> seen(at(from.rank()), false);
  Shape to;
  for (const std::int64_t axis : order) {
    if (axis < 0 || axis >= from.rank() || seen[static_cast<std::size_t>(axis)]) break;
    seen[static_cast<std::size_t>(axis)] = true;
    to.push_back(from[static_cast<int>(axis)]);
  }
  if (to.rank() != from.rank() || order.size() != at(from.rank()))
    throw Error(
        cat("transpose: order ", Shape(order), " must name each of the ", from.rank(), " axes of ", from, " once."));
  return {{call.in[0].dtype, to}};
}

std::optional<Layout> transpose_view(const Call& call, const Layout& in, const TensorType&) {
  Layout layout{in.offset, {}};
  for (const std::int64_t axis : call.attrs.ints("order"))
    layout.strides.push_back(in.strides[static_cast<std::size_t>(axis)]);
  return layout;
}

std::vector<Tensor> transpose_vjp(const Vjp& v) {
  const Ints& order = v.attrs.ints("order");
  Axes back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return {transpose(v.dy, back)};
}

// ---- broadcast_to: attribute shape

std::vector<TensorType> broadcast_shape(const Call& call) {
  const Shape to(call.attrs.ints("shape"));
  const Shape& from = call.in[0].shape;
  to.numel();  // refuses negative sizes
  if (broadcast(from, to, "broadcast_to") != to)
    throw Error(cat("broadcast_to: ", from, " does not broadcast to ", to, "."));
  return {{call.in[0].dtype, to}};
}

std::optional<Layout> broadcast_view(const Call& call, const Layout& in, const TensorType& out) {
  const Shape& from = call.in[0].shape;
  const int added = out.shape.rank() - from.rank();
  Layout layout{in.offset, Ints(at(out.shape.rank()), 0)};
  for (int a = 0; a < from.rank(); ++a)
    if (from[a] != 1) layout.strides[at(a + added)] = in.strides[at(a)];
  return layout;
}

std::vector<Tensor> broadcast_vjp(const Vjp& v) { return {sum_to(v.dy, v.in[0].shape())}; }

// ---- slice: attributes begin, step, size, one of each for every axis

void check_window(const Call& call, const Shape& within, const Shape& size) {
  const Ints &begin = call.attrs.ints("begin"), &step = call.attrs.ints("step");
  bool fits = begin.size() == at(within.rank()) && step.size() == begin.size() && size.rank() == within.rank();
  for (int a = 0; fits && a < within.rank(); ++a) {
    std::int64_t last = 0;
    fits = size[a] == 0 || (size[a] > 0 && !__builtin_mul_overflow(size[a] - 1, step[at(a)], &last) &&
                            !__builtin_add_overflow(last, begin[at(a)], &last) && begin[at(a)] >= 0 &&
                            begin[at(a)] < within[a] && last >= 0 && last < within[a]);
  }
  if (!fits) throw Error(cat(call.op.name, ": the window (", call.attrs.str(), ") does not lie in ", within, "."));
}

std::vector<TensorType> slice_shape(const Call& call) {
  const Shape size(call.attrs.ints("size"));
  check_window(call, call.in[0].shape, size);
  return {{call.in[0].dtype, size}};
}

std::optional<Layout> slice_view(const Call& call, const Layout& in, const TensorType&) {
  const Ints &begin = call.attrs.ints("begin"), &step = call.attrs.ints("step");
  Layout layout = in;
  for (std::size_t a = 0; a < begin.size(); ++a) {
    layout.offset += begin[a] * in.strides[a];
    layout.strides[a] *= step[a];
  }
  return layout;
}

// ---- flip: attribute axes

std::vector<TensorType> flip_shape(const Call& call) {
  for (const std::int64_t axis : call.attrs.ints("axes")) normalize_axis(axis, call.in[0].shape.rank(), "flip");
  return {call.in[0]};
}

std::optional<Layout> flip_view(const Call& call, const Layout& in, const TensorType& out) {
  Layout layout = in;
  for (const std::int64_t axis : call.attrs.ints("axes")) {
    const auto a = static_cast<std::size_t>(axis);
    layout.offset += std::max<std::int64_t>(out.shape[static_cast<int>(axis)] - 1, 0) * in.strides[a];
    layout.strides[a] = -layout.strides[a];
  }
  return layout;
}

std::vector<Tensor> flip_vjp(const Vjp& v) { return {flip(v.dy, v.attrs.ints("axes"))}; }

// ---- unslice: the gradient of slice, zeros but for the window; attributes shape, begin, step

std::vector<TensorType> unslice_shape(const Call& call) {
  const Shape to(call.attrs.ints("shape"));
  check_window(call, to, call.in[0].shape);
  return {{call.in[0].dtype, to}};
}

std::vector<Tensor> unslice_vjp(const Vjp& v) {
  return {window_of(v.dy, {v.attrs.ints("begin"), v.attrs.ints("step"), v.in[0].shape().vec()})};
}

// ---- batches: one more axis in front, of which each rule takes everything

std::optional<std::vector<Tensor>> batch_reshape(const Batching& call) {
  return std::vector<Tensor>{reshape(call.in[0], Shape(shape_of_all(call, "shape")))};
}

std::optional<std::vector<Tensor>> batch_transpose(const Batching& call) {
  Axes order{0};
  for (const std::int64_t axis : call.attrs.ints("order")) order.push_back(axis + 1);
  return std::vector<Tensor>{transpose(call.in[0], order)};
}

std::optional<std::vector<Tensor>> batch_broadcast(const Batching& call) {
  const Shape to(shape_of_all(call, "shape"));
  Ints sizes = call.in[0].shape().vec();
  sizes.insert(sizes.begin() + 1, at(to.rank() - call.in[0].rank()), 1);
  return std::vector<Tensor>{broadcast_to(reshape(call.in[0], Shape(std::move(sizes))), to)};
}

// slice and unslice
std::optional<std::vector<Tensor>> batch_window(const Batching& call) {
  Attrs attrs = call.attrs;
  attrs.set("begin", prefixed(attrs.ints("begin"), 0));
  attrs.set("step", prefixed(attrs.ints("step"), 1));
  for (const char* key : {"shape", "size"})
    if (attrs.has(key)) attrs.set(key, shape_of_all(call, key));
  return record(call.op, call.in, attrs);
}

std::optional<std::vector<Tensor>> batch_flip(const Batching& call) {
  return record(call.op, call.in, with_axis_behind(call.attrs, "axes"));
}

const OpDef unslice_op = define({.name = "unslice",
                                 .doc = "zeros of a larger shape, with x in a window of it: the gradient of slice",
                                 .family = "shape",
                                 .shape = unslice_shape,
                                 .gradient = unslice_vjp,
                                 .batching = batch_window});

std::vector<Tensor> slice_vjp(const Vjp& v) {
  return record(unslice_op.record(), {v.dy},
                {{"shape", v.in[0].shape()}, {"begin", v.attrs.ints("begin")}, {"step", v.attrs.ints("step")}});
}

OpDef view(std::string name, std::string doc, ShapeRule shape, ViewRule layout, GradientRule gradient,
           BatchingRule batching) {
  return define({.name = std::move(name),
                 .doc = std::move(doc),
                 .family = "shape",
                 .shape = std::move(shape),
                 .gradient = std::move(gradient),
                 .cost = costs_nothing,
                 .view = std::move(layout),
                 .batching = std::move(batching)});
}

const OpDef reshape_op = view("reshape", "the same elements in row-major order, another shape", reshape_shape,
                              reshape_view, reshape_vjp, batch_reshape);
const OpDef transpose_op =
    view("transpose", "axes in another order", transpose_shape, transpose_view, transpose_vjp, batch_transpose);
const OpDef broadcast_op = view("broadcast_to", "repeated along axes of size 1, and new outer ones", broadcast_shape,
                                broadcast_view, broadcast_vjp, batch_broadcast);
const OpDef slice_op =
    view("slice", "every step-th element of a window", slice_shape, slice_view, slice_vjp, batch_window);
const OpDef flip_op = view("flip", "axes in reverse", flip_shape, flip_view, flip_vjp, batch_flip);

// The size written as -1 is what is left.
Shape with_inferred(const Shape& from, const Shape& to) {
  int inferred = -1;
  std::int64_t known = 1;
  bool bad = false;
  for (int a = 0; a < to.rank(); ++a) {
    if (to[a] == -1 && inferred < 0)
      inferred = a;
    else
      bad = bad || to[a] < 0 || __builtin_mul_overflow(known, to[a], &known);
  }
  if (bad) throw Error(cat("reshape: ", to, " is no shape: sizes are 0 or more, and one may be -1."));
  if (inferred < 0) return to;
  if (known == 0 || from.numel() % known != 0)
    throw Error(
        cat("reshape: ", from, " has ", from.numel(), " elements, which do not fill ", to, " whatever -1 stands for."));
  Shape full = to;
  full[inferred] = from.numel() / known;
  return full;
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) {
  const Shape full = with_inferred(x.shape(), shape);
  return full == x.shape() ? x : record(reshape_op.record(), {x}, {{"shape", full}})[0];
}
Tensor Tensor::reshape(const Shape& shape) const { return varve::reshape(*this, shape); }

Tensor transpose(const Tensor& x, const Axes& order) {
  Ints normal;
  for (const std::int64_t axis : order) normal.push_back(normalize_axis(axis, x.rank(), "transpose"));
  return record(transpose_op.record(), {x}, {{"order", normal}})[0];
}

Tensor transpose(const Tensor& x) {
  if (x.rank() < 2) throw Error(cat("transpose: needs at least two axes to swap, got shape ", x.shape(), "."));
  Axes order(at(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return transpose(x, order);
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  return x.shape() == shape ? x : record(broadcast_op.record(), {x}, {{"shape", shape}})[0];
}

Tensor flip(const Tensor& x, const Axes& axes) {
  Ints normal;
  for (const std::int64_t axis : axes) normal.push_back(normalize_axis(axis, x.rank(), "flip"));
  std::sort(normal.begin(), normal.end());
  if (std::adjacent_find(normal.begin(), normal.end()) != normal.end())
    throw Error(cat("flip: axes ", Shape(axes), " name one axis twice."));
  return record(flip_op.record(), {x}, {{"axes", normal}})[0];
}

void add_range(Window& window, const Range& range, std::int64_t length) {
  if (range.step == 0) throw Error("slice: a step of 0 never arrives.");
  const bool back = range.step < 0;
  const std::int64_t step = std::max(range.step, -kEnd);
  const std::int64_t low = back ? -1 : 0, high = back ? length - 1 : length;
  const auto clipped = [&](std::int64_t p) { return std::clamp(p < 0 ? p + length : p, low, high); };
  const std::int64_t begin = clipped(range.begin);
  const std::int64_t end = back && range.end == kEnd ? -1 : clipped(range.end);
  const std::int64_t span = back ? begin - end : end - begin;
  const std::int64_t size = span <= 0 ? 0 : (span - 1) / (back ? -step : step) + 1;
  // With one element or none the step is not taken: 1 keeps equal windows equal.
  window.begin.push_back(size ? begin : 0);
  window.step.push_back(size > 1 ? step : 1);
  window.size.push_back(size);
}

Window whole_window(const Shape& shape) { return {Ints(at(shape.rank()), 0), Ints(at(shape.rank()), 1), shape.vec()}; }

Tensor window_of(const Tensor& x, const Window& window) {
  if (window.size == x.shape().vec() && std::ranges::all_of(window.step, [](std::int64_t s) { return s == 1; }))
    return x;
  return record(slice_op.record(), {x}, {{"begin", window.begin}, {"step", window.step}, {"size", window.size}})[0];
}

std::vector<const OpRecord*> shape_view_ops() {
  return {&reshape_op.record(), &transpose_op.record(), &broadcast_op.record(),
          &slice_op.record(),   &unslice_op.record(),   &flip_op.record()};
}

}  // namespace varve
