// Shape operators that copy, and those composed of others.
#include <algorithm>

#include "base/text.h"
#include "ops/batching.h"
#include "ops/families.h"
#include "ops/shape_view.h"
#include "ops/shared.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve {
namespace {

// ---- pad: attributes before, after (for every axis), value

std::vector<TensorType> pad_shape(const Call& call) {
  const Ints &before = call.attrs.ints("before"), &after = call.attrs.ints("after");
  Shape shape = call.in[0].shape;
  call.attrs.number("value");
  if (before.size() != at(shape.rank()) || after.size() != before.size())
    throw Error(cat("pad: ", before.size(), " widths for a tensor of shape ", shape, ": one pair for each axis."));
  for (int a = 0; a < shape.rank(); ++a) {
    const std::int64_t b = before[at(a)], e = after[at(a)];
    if (b < 0 || e < 0)
      throw Error(cat("pad: widths ", b, " and ", e, " of axis ", a, " must be 0 or more; slice takes away."));
    if (__builtin_add_overflow(shape[a], b, &shape[a]) || __builtin_add_overflow(shape[a], e, &shape[a]))
      throw Error(cat("pad: widths ", b, " and ", e, " of axis ", a, " are too large."));
  }
  return {{call.in[0].dtype, shape}};
}

std::vector<Tensor> pad_vjp(const Vjp& v) {
  Window window = whole_window(v.in[0].shape());
  window.begin = v.attrs.ints("before");
  return {window_of(v.dy, window)};
}

// ---- concat: attribute axis

std::vector<TensorType> concat_shape(const Call& call) {
  if (call.in.empty()) throw Error("concat: needs at least one tensor.");
  Shape shape = call.in[0].shape;
  const int axis = normalize_axis(call.attrs.integer("axis"), shape.rank(), "concat");
  shape[axis] = 0;
  for (const TensorType& part : call.in) {
    bool fits = part.dtype == call.in[0].dtype && part.shape.rank() == shape.rank();
    for (int a = 0; fits && a < shape.rank(); ++a) fits = a == axis || part.shape[a] == shape[a];
    if (!fits)
      throw Error(
          cat("concat: parts ", call.in[0].str(), " and ", part.str(), " differ other than along axis ", axis, "."));
    if (__builtin_add_overflow(shape[axis], part.shape[axis], &shape[axis]))
      throw Error(cat("concat: the parts are too long together along axis ", axis, "."));
  }
  return {{call.in[0].dtype, shape}};
}

// Each part gets back its own stretch.
std::vector<Tensor> concat_vjp(const Vjp& v) {
  const auto axis = static_cast<std::size_t>(v.attrs.integer("axis"));
  std::vector<Tensor> grads;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < v.in.size(); ++i) {
    Window window = whole_window(v.in[i].shape());
    window.begin[axis] = window.size[axis] ? begin : 0;
    begin += window.size[axis];
    grads.push_back(v.needs[i] ? window_of(v.dy, window) : Tensor());
  }
  return grads;
}

std::optional<std::vector<Tensor>> batch_pad(const Batching& call) {
  Attrs attrs = call.attrs;
  for (const char* side : {"before", "after"}) attrs.set(side, prefixed(attrs.ints(side), 0));
  return record(call.op, call.in, attrs);
}

const OpDef pad_op = define({.name = "pad",
                             .doc = "a value around x",
                             .family = "shape",
                             .shape = pad_shape,
                             .gradient = pad_vjp,
                             .cost = moves_only,
                             .batching = batch_pad});
const OpDef concat_op = define({.name = "concat",
                                .doc = "parts joined along an axis",
                                .family = "shape",
                                .arity = -1,
                                .shape = concat_shape,
                                .gradient = concat_vjp,
                                .cost = moves_only,
                                .batching = batch_along_axis});

// Rows below the columns, as a bool matrix: true where column - row <= diagonal.
Tensor below_diagonal(const Tensor& x, std::int64_t diagonal, const char* op) {
  if (x.rank() < 2) throw Error(cat(op, ": needs a matrix or a batch of them, got shape ", x.shape(), "."));
  const std::int64_t rows = x.dim(-2), columns = x.dim(-1);
  return arange(columns) <= expand_dims(arange(rows), 1) + std::clamp(diagonal, -rows - 1, columns);
}

}  // namespace

Tensor flatten(const Tensor& x, std::int64_t from) {
  const int axis = from == x.rank() ? x.rank() : normalize_axis(from, x.rank(), "flatten");
  Shape shape, rest;
  for (int a = 0; a < x.rank(); ++a) (a < axis ? shape : rest).push_back(x.shape()[a]);
  shape.push_back(rest.numel());
  return reshape(x, shape);
}

Tensor expand_dims(const Tensor& x, std::int64_t axis) {
  const int place = normalize_axis(axis, x.rank() + 1, "expand_dims");
  std::vector<std::int64_t> sizes = x.shape().vec();
  sizes.insert(sizes.begin() + place, 1);
  return reshape(x, Shape(std::move(sizes)));
}

Tensor squeeze(const Tensor& x, const Axes& axes) {
  std::vector<bool> gone(at(x.rank()), false);
  for (const std::int64_t axis : axes) {
    const int a = normalize_axis(axis, x.rank(), "squeeze");
    if (x.shape()[a] != 1)
      throw Error(cat("squeeze: axis ", axis, " of ", x.shape(), " has size ", x.shape()[a], ", not 1."));
    gone[at(a)] = true;
  }
  Shape shape;
  for (int a = 0; a < x.rank(); ++a)
    if (!gone[at(a)]) shape.push_back(x.shape()[a]);
  return reshape(x, shape);
}

Tensor slice(const Tensor& x, const std::vector<Range>& ranges) {
  if (ranges.size() > at(x.rank()))
    throw Error(cat("slice: ", ranges.size(), " ranges for a tensor of shape ", x.shape(), "."));
  Window window;
  for (int a = 0; a < x.rank(); ++a) add_range(window, at(a) < ranges.size() ? ranges[at(a)] : Range{}, x.shape()[a]);
  return window_of(x, window);
}
Tensor Tensor::slice(std::initializer_list<Range> ranges) const { return varve::slice(*this, ranges); }

Tensor pad(const Tensor& x, const std::vector<std::pair<std::int64_t, std::int64_t>>& widths,
           const PadOptions& options) {
  Ints before, after;
  for (const auto& [b, a] : widths) {
    before.push_back(b);
    after.push_back(a);
  }
  return record(pad_op.record(), {x}, {{"before", before}, {"after", after}, {"value", options.value}})[0];
}

Tensor concat(const std::vector<Tensor>& parts, std::int64_t axis) {
  if (parts.empty()) throw Error("concat: needs at least one tensor.");
  DType dtype = parts[0].dtype();
  for (const Tensor& part : parts) dtype = promote(dtype, part.dtype());
  const int normal = normalize_axis(axis, parts[0].rank(), "concat");
  if (parts.size() == 1) return parts[0];
  std::vector<Tensor> same;
  for (const Tensor& part : parts) same.push_back(part.to(dtype));
  return record(concat_op.record(), same, {{"axis", normal}})[0];
}

Tensor stack(const std::vector<Tensor>& parts, std::int64_t axis) {
  if (parts.empty()) throw Error("stack: needs at least one tensor.");
  const int place = normalize_axis(axis, parts[0].rank() + 1, "stack");
  std::vector<Tensor> layers;
  for (const Tensor& part : parts) {
    if (part.shape() != parts[0].shape())
      throw Error(cat("stack: parts of different shapes ", parts[0].shape(), " and ", part.shape(), "."));
    layers.push_back(expand_dims(part, place));
  }
  return concat(layers, place);
}

std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, std::int64_t axis) {
  const int a = normalize_axis(axis, x.rank(), "split");
  std::int64_t left = x.shape()[a];
  bool fits = true;
  for (const std::int64_t size : sizes) {
    fits = fits && size >= 0 && size <= left;
    if (fits) left -= size;
  }
  if (!fits || left != 0)
    throw Error(cat("split: sizes ", Shape(sizes), " do not add up to the ", x.shape()[a], " of axis ", axis, " of ",
                    x.shape(), "."));
  std::vector<Tensor> parts;
  Window window = whole_window(x.shape());
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    window.begin[at(a)] = size ? begin : 0;
    window.size[at(a)] = size;
    begin += size;
    parts.push_back(window_of(x, window));
  }
  return parts;
}

std::vector<Tensor> split(const Tensor& x, std::int64_t parts, std::int64_t axis) {
  const int a = normalize_axis(axis, x.rank(), "split");
  if (parts < 1 || x.shape()[a] % parts != 0)
    throw Error(cat("split: axis ", axis, " of ", x.shape(), " does not divide into ", parts, " equal parts."));
  if (parts > std::max<std::int64_t>(x.shape()[a], 1))
    throw Error(cat("split: ", parts, " parts of an axis without elements (shape ", x.shape(), ")."));
  return split(x, Ints(static_cast<std::size_t>(parts), x.shape()[a] / parts), axis);
}

// Each axis [n] as [1, n], broadcast to [r, n], joined to [r·n].
Tensor tile(const Tensor& x, const Axes& repeats) {
  const int rank = std::max(x.rank(), static_cast<int>(repeats.size()));
  Shape apart, wide, joined;
  for (int a = 0; a < rank; ++a) {
    const int in_x = a - (rank - x.rank()), in_repeats = a - (rank - static_cast<int>(repeats.size()));
    const std::int64_t size = in_x < 0 ? 1 : x.shape()[in_x], times = in_repeats < 0 ? 1 : repeats[at(in_repeats)];
    if (times < 0) throw Error(cat("tile: repeats ", Shape(repeats), " must be 0 or more."));
    apart.push_back(1);
    apart.push_back(size);
    wide.push_back(times);
    wide.push_back(size);
    joined.push_back(Shape{times, size}.numel());
  }
  return reshape(broadcast_to(reshape(x, apart), wide), joined);
}

Tensor repeat(const Tensor& x, std::int64_t times, std::int64_t axis) {
  const int a = normalize_axis(axis, x.rank(), "repeat");
  if (times < 0) throw Error(cat("repeat: ", times, " times: it must be 0 or more."));
  const Tensor apart = expand_dims(x, a + 1);
  Shape wide = apart.shape(), joined = x.shape();
  wide[a + 1] = times;
  joined[a] = Shape{times, joined[a]}.numel();
  return reshape(broadcast_to(apart, wide), joined);
}

Tensor tril(const Tensor& x, std::int64_t diagonal) {
  return where(below_diagonal(x, diagonal, "tril"), x, zeros({}, x.dtype()));
}

Tensor triu(const Tensor& x, std::int64_t diagonal) {
  // Above the diagonal before it; clamped first, since the smallest integer has no predecessor.
  const std::int64_t before = std::max(diagonal, -kEnd) - 1;
  return where(below_diagonal(x, before, "triu"), zeros({}, x.dtype()), x);
}

std::vector<const OpRecord*> shape_ops() {
  std::vector<const OpRecord*> list = shape_view_ops();
  list.push_back(&pad_op.record());
  list.push_back(&concat_op.record());
  return list;
}

}  // namespace varve
