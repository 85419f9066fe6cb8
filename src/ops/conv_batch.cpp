// Convolutions of many examples as one. Where all share the weights, examples are more images; where each has its own,
// they are groups: what a group convolves is its own business.
#include "ops/conv.h"

namespace varve::conv {
namespace {

// [n, N, H, W, C] as [n·N, H, W, C], and back.
Tensor as_images(const Tensor& x) { return reshape(x, {x.dim(0) * x.dim(1), x.dim(2), x.dim(3), x.dim(4)}); }
Tensor examples_of_images(const Tensor& x, std::int64_t size, std::int64_t images) {
  return reshape(x, {size, images, x.dim(1), x.dim(2), x.dim(3)});
}

// [n, N, H, W, C] as [N, H, W, n·C], and back.
Tensor as_channels(const Tensor& x) {
  return reshape(with_axis_at(x, 0, 3), {x.dim(1), x.dim(2), x.dim(3), x.dim(0) * x.dim(4)});
}
Tensor examples_of_channels(const Tensor& x, std::int64_t size, std::int64_t channels) {
  return with_axis_at(reshape(x, {x.dim(0), x.dim(1), x.dim(2), size, channels}), 3, 0);
}

// [n, O, KH, KW, I] as [n·O, KH, KW, I]
Tensor as_filters(const Tensor& w) { return as_images(w); }

Attrs grouped(Attrs attrs, std::int64_t size) {
  attrs.set("groups", attrs.integer("groups") * size);
  return attrs;
}

Shape shape_of(const Attrs& attrs, const char* key) { return Shape(attrs.ints(key)); }

Tensor call(const Batching& b, const Tensor& first, const Tensor& second, Attrs attrs) {
  return OpDef(&b.op).call({first, second}, std::move(attrs))[0];
}

}  // namespace

// An empty batch has no groups to convolve in: it goes one by one, which is not at all.
std::optional<std::vector<Tensor>> batch_forward(const Batching& b) {
  if (!b.batched[1]) {
    const Tensor y = call(b, as_images(b.in[0]), b.in[1], b.attrs);
    return std::vector<Tensor>{examples_of_images(y, b.size, b.in[0].dim(1))};
  }
  if (b.size == 0) return batch_one_by_one(b);
  const std::vector<Tensor> in = all_batched(b);
  const Tensor y = call(b, as_channels(in[0]), as_filters(in[1]), grouped(b.attrs, b.size));
  return std::vector<Tensor>{examples_of_channels(y, b.size, in[1].dim(1))};
}

std::optional<std::vector<Tensor>> batch_input_grad(const Batching& b) {
  Shape x = shape_of(b.attrs, "input_shape");
  const std::int64_t images = x[0], channels = x[3];
  if (b.size == 0) return batch_one_by_one(b);
  const bool shared_weights = !b.batched[1];
  Attrs attrs = shared_weights ? b.attrs : grouped(b.attrs, b.size);
  x[shared_weights ? 0 : 3] *= b.size;
  attrs.set("input_shape", x);
  if (shared_weights)
    return std::vector<Tensor>{
        examples_of_images(call(b, as_images(b.in[0]), b.in[1], std::move(attrs)), b.size, images)};
  const std::vector<Tensor> in = all_batched(b);
  const Tensor dx = call(b, as_channels(in[0]), as_filters(in[1]), std::move(attrs));
  return std::vector<Tensor>{examples_of_channels(dx, b.size, channels)};
}

std::optional<std::vector<Tensor>> batch_weight_grad(const Batching& b) {
  if (b.size == 0) return batch_one_by_one(b);
  const std::vector<Tensor> in = all_batched(b);
  Shape w = shape_of(b.attrs, "kernel_shape");
  const std::int64_t filters = w[0];
  w[0] *= b.size;
  Attrs attrs = grouped(b.attrs, b.size);
  attrs.set("kernel_shape", w);
  const Tensor dw = call(b, as_channels(in[0]), as_channels(in[1]), std::move(attrs));
  return std::vector<Tensor>{examples_of_images(dw, b.size, filters)};
}

}  // namespace varve::conv
