// Pooling of images, channels last: the operators. The functions that users call stand in pool_call.cpp.
#include "ops/pool.h"

#include "base/text.h"
#include "ops/batching.h"

namespace varve::pool {
namespace {

Cost window_cost(const Geometry& g, double bytes) {
  const double cells = static_cast<double>(g.window[0]) * static_cast<double>(g.window[1]);
  return {static_cast<double>(g.y.numel()) * cells, bytes};
}

double bytes_of(const Call& call, const std::vector<TensorType>& out) {
  double bytes = static_cast<double>(out[0].bytes());
  for (const TensorType& type : call.in) bytes += static_cast<double>(type.bytes());
  return bytes;
}

void check_shape(const std::string& op, const char* what, const Shape& expected, const Shape& got) {
  if (expected != got) throw Error(cat(op, ": ", what, " must have shape ", expected, ", got ", got, "."));
}

void check_same_type(const std::string& op, const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype) throw Error(cat(op, ": takes two tensors of one type, got ", a.str(), " and ", b.str(), "."));
}

// Examples are more images.
std::optional<std::vector<Tensor>> batch_images(const Batching& call) {
  const std::vector<Tensor> in = all_batched(call);
  const std::int64_t images = in[0].dim(1);
  std::vector<Tensor> joined;
  for (const Tensor& x : in) joined.push_back(reshape(x, {call.size * images, x.dim(2), x.dim(3), x.dim(4)}));
  Attrs attrs = call.attrs;
  if (attrs.has("input_shape")) {
    Ints shape = attrs.ints("input_shape");
    shape[0] *= call.size;
    attrs.set("input_shape", shape);
  }
  const Tensor y = OpDef(&call.op).call(joined, attrs)[0];
  return std::vector<Tensor>{reshape(y, {call.size, images, y.dim(1), y.dim(2), y.dim(3)})};
}

// ---- maximum: the first of equals in window order; NaN counts as larger than anything

std::vector<TensorType> max_shape(const Call& call) {
  if (call.in[0].dtype == boolean) throw Error("max_pool2d: takes numbers, got bool. Use any() over windows, or cast.");
  return {{call.in[0].dtype, geometry("max_pool2d", call.in[0].shape, call.attrs).y}};
}

Cost max_cost(const Call& call, const std::vector<TensorType>& out) {
  return window_cost(geometry(call.op.name, call.in[0].shape, call.attrs), bytes_of(call, out));
}

std::vector<TensorType> max_grad_shape(const Call& call) {
  check_same_type("max_pool2d_grad", call.in[0], call.in[1]);
  const Geometry g = geometry("max_pool2d_grad", call.in[0].shape, call.attrs);
  check_shape("max_pool2d_grad", "dy", g.y, call.in[1].shape);
  return {{call.in[0].dtype, g.x}};
}

std::vector<TensorType> max_gather_shape(const Call& call) {
  check_same_type("max_pool2d_gather", call.in[0], call.in[1]);
  const Geometry g = geometry("max_pool2d_gather", call.in[0].shape, call.attrs);
  check_shape("max_pool2d_gather", "values", g.x, call.in[1].shape);
  return {{call.in[0].dtype, g.y}};
}

std::vector<Tensor> max_vjp(const Vjp& v);
std::vector<Tensor> max_grad_vjp(const Vjp& v);
std::vector<Tensor> max_gather_vjp(const Vjp& v);

const OpDef max_op = define(OpRecord{
    .name = "max_pool2d",
    .doc = "The largest value in each window; padding is never chosen",
    .family = "pool",
    .arity = 1,
    .shape = max_shape,
    .gradient = max_vjp,
    .cost = max_cost,
    .batching = batch_images,
});

const OpDef max_grad_op = define(OpRecord{
    .name = "max_pool2d_grad",
    .doc = "The gradient of max_pool2d: each dy goes to the place of its window's maximum in x",
    .family = "pool",
    .arity = 2,
    .shape = max_grad_shape,
    .gradient = max_grad_vjp,
    .cost = max_cost,
    .batching = batch_images,
});

const OpDef max_gather_op = define(OpRecord{
    .name = "max_pool2d_gather",
    .doc = "The values that stand where each window of x has its maximum",
    .family = "pool",
    .arity = 2,
    .shape = max_gather_shape,
    .gradient = max_gather_vjp,
    .cost = max_cost,
    .batching = batch_images,
});

// The places of the maxima do not move with x, so x itself gets a gradient only from the pooling.
std::vector<Tensor> max_vjp(const Vjp& v) { return {max_grad_op.call({v.in[0], v.dy}, v.attrs)[0]}; }
std::vector<Tensor> max_grad_vjp(const Vjp& v) {
  return {Tensor{}, v.needs[1] ? max_gather_op.call({v.in[0], v.dy}, v.attrs)[0] : Tensor{}};
}
std::vector<Tensor> max_gather_vjp(const Vjp& v) {
  return {Tensor{}, v.needs[1] ? max_grad_op.call({v.in[0], v.dy}, v.attrs)[0] : Tensor{}};
}

// ---- average: of the elements that a window covers, or of the whole window when padding counts

std::vector<TensorType> average_shape(const Call& call) {
  if (!is_floating(call.in[0].dtype))
    throw Error(cat("avg_pool2d: takes floating values, got ", call.in[0].str(), "."));
  return {{call.in[0].dtype, geometry("avg_pool2d", call.in[0].shape, call.attrs).y}};
}

std::vector<Tensor> average_vjp(const Vjp& v);

Cost average_cost(const Call& call, const std::vector<TensorType>& out) {
  return window_cost(geometry("avg_pool2d", call.in[0].shape, call.attrs), bytes_of(call, out));
}

const OpDef average_op = define(OpRecord{
    .name = "avg_pool2d",
    .doc = "The mean of each window, over the elements it covers (count_padding: over the whole window)",
    .family = "pool",
    .arity = 1,
    .shape = average_shape,
    .gradient = average_vjp,
    .cost = average_cost,
    .batching = batch_images,
});

Geometry average_grad_geometry(const Call& call) {
  return geometry("avg_pool2d_grad", Shape(call.attrs.ints("input_shape")), call.attrs);
}

std::vector<TensorType> average_grad_shape(const Call& call) {
  if (!is_floating(call.in[0].dtype))
    throw Error(cat("avg_pool2d_grad: takes floating values, got ", call.in[0].str(), "."));
  const Geometry g = average_grad_geometry(call);
  check_shape("avg_pool2d_grad", "dy", g.y, call.in[0].shape);
  return {{call.in[0].dtype, g.x}};
}

// Linear in dy: its gradient is the pooling itself.
std::vector<Tensor> average_grad_vjp(const Vjp& v) {
  Attrs attrs = v.attrs;
  attrs.erase("input_shape");
  return {average_op.call({v.dy}, attrs)[0]};
}

Cost average_grad_cost(const Call& call, const std::vector<TensorType>& out) {
  return window_cost(average_grad_geometry(call), bytes_of(call, out));
}

const OpDef average_grad_op = define(OpRecord{
    .name = "avg_pool2d_grad",
    .doc = "The gradient of avg_pool2d: each dy is spread evenly over its window",
    .family = "pool",
    .arity = 1,
    .shape = average_grad_shape,
    .gradient = average_grad_vjp,
    .cost = average_grad_cost,
    .batching = batch_images,
});

std::vector<Tensor> average_vjp(const Vjp& v) {
  Attrs attrs = v.attrs;
  attrs.set("input_shape", v.in[0].shape());
  return {average_grad_op.call({v.dy}, attrs)[0]};
}

}  // namespace

Geometry geometry(const std::string& op, const Shape& x, const Attrs& attrs) {
  Geometry g{attrs.ints("window"), attrs.ints("stride"), attrs.ints("padding"), x, {}};
  if (x.rank() != 4) throw Error(cat(op, ": the input must be [N, H, W, channels], got ", x, "."));
  if (g.window.size() != 2 || g.stride.size() != 2 || g.padding.size() != 4)
    throw Error(cat(op, ": takes a window and a stride of two numbers and padding of four."));
  x.numel();
  Ints sizes;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t size = x[1 + static_cast<int>(i)], window = g.window[i], stride = g.stride[i];
    const std::int64_t before = g.padding[2 * i], after = g.padding[2 * i + 1];
    const char* side = i == 0 ? "high" : "wide";
    if (window < 1 || stride < 1 || window > kMostSize || stride > kMostSize || size > kMostSize)
      throw Error(cat(op, ": window ", Shape(g.window), " and stride ", Shape(g.stride),
                      " must be 1 or more, and no size past 2^31."));
    if (before < 0 || after < 0 || before >= window || after >= window)
      throw Error(cat(op, ": padding ", Shape(g.padding), " must be 0 or more and smaller than the window ",
                      Shape(g.window), ": a window of padding alone has no value."));
    if (size < 1) throw Error(cat(op, ": the images of ", x, " are empty."));
    const std::int64_t padded = size + before + after;
    if (window > padded)
      throw Error(cat(op, ": a window ", window, " ", side, " does not fit the input ", x, ", ", padded, " ", side,
                      " with its padding."));
    sizes.push_back((padded - window) / stride + 1);
  }
  g.y = {x[0], sizes[0], sizes[1], x[3]};
  return g;
}

Tensor max(const Tensor& x, const Attrs& attrs) { return max_op.call({x}, attrs)[0]; }
Tensor average(const Tensor& x, const Attrs& attrs) { return average_op.call({x}, attrs)[0]; }

std::vector<const OpRecord*> ops() {
  return {&max_op.record(), &max_grad_op.record(), &max_gather_op.record(), &average_op.record(),
          &average_grad_op.record()};
}

}  // namespace varve::pool
