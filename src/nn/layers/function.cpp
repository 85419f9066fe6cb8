// Layers without variables.
#include "nn/check.h"
#include "nn/steps.h"

namespace varve::nn {

Function function(const std::string& kind, std::function<Tensor(const Tensor&)> f) {
  return {kind, [f = std::move(f)](const Tensor& x, Mode) { return f(x); }};
}

Function identity() {
  return function("identity", [](const Tensor& x) { return x; });
}

Function global_avg_pool2d() {
  return function("global_avg_pool2d", [](const Tensor& x) { return varve::global_avg_pool2d(x); });
}
Function global_max_pool2d() {
  return function("global_max_pool2d", [](const Tensor& x) { return varve::global_max_pool2d(x); });
}
Function adaptive_avg_pool2d(Pair size) {
  check_pair("adaptive_avg_pool2d", "the output size", size);
  return function("adaptive_avg_pool2d",
                  [size](const Tensor& x) { return varve::adaptive_avg_pool2d(x, size.height, size.width); });
}

Function reshape(const Shape& sample) {
  return function("reshape", [sample](const Tensor& x) {
    if (x.rank() < 1) throw Error("expected a batch [N, …], got a scalar.");
    Shape shape{x.dim(0)};
    for (const std::int64_t size : sample) shape.push_back(size);
    return varve::reshape(x, shape);
  });
}

Function permute(const Axes& order) {
  return function("permute", [order](const Tensor& x) {
    Axes axes = {0};
    axes.insert(axes.end(), order.begin(), order.end());
    return transpose(x, axes);
  });
}

Function zero_pad2d(Padding rows, Padding columns) {
  return function("zero_pad2d", [rows, columns](const Tensor& x) {
    check_rank("zero_pad2d", x, 4, "[N, H, W, C]");
    return pad(x, {{0, 0}, {rows.before, rows.after}, {columns.before, columns.after}, {0, 0}});
  });
}

Function upsample2d(Pair factor) {
  check_pair("upsample2d", "the factor", factor);
  return function("upsample2d", [factor](const Tensor& x) {
    check_rank("upsample2d", x, 4, "[N, H, W, C]");
    return repeat(repeat(x, factor.height, 1), factor.width, 2);
  });
}

// Channels g·k + i go to i·groups + g: the next grouped convolution sees every group.
Function channel_shuffle(std::int64_t groups) {
  check_size("channel_shuffle", "groups", groups);
  return function("channel_shuffle", [groups](const Tensor& x) {
    check_rank("channel_shuffle", x, 4, "[N, H, W, C]");
    if (x.dim(3) % groups != 0)
      throw Error("channel_shuffle: " + std::to_string(x.dim(3)) + " channels cannot be split into " +
                  std::to_string(groups) + " groups.");
    const Tensor grouped = varve::reshape(x, {x.dim(0), x.dim(1), x.dim(2), groups, x.dim(3) / groups});
    return varve::reshape(transpose(grouped), x.shape());
  });
}

namespace {

void check_steps(const char* kind, const Tensor& x) {
  check_rank(kind, x, 3, "[N, T, C]");
  if (x.dim(1) < 1) throw Error(std::string(kind) + ": the input " + x.shape().str() + " has no steps.");
}

}  // namespace

Function last_step() {
  return {"last_step", [](const Tensor& x, Mode, const Mask& mask) {
            check_steps("last_step", x);
            return Masked{mask.defined() ? last_valid(x, mask) : squeeze(x.slice({{}, {x.dim(1) - 1, kEnd}}), {1})};
          }};
}
Function mean_steps() {
  return {"mean_steps", [](const Tensor& x, Mode, const Mask& mask) {
            check_rank("mean_steps", x, 3, "[N, T, C]");
            return Masked{mask.defined() ? mean_valid(x, mask) : mean(x, {.axes = Axes{1}})};
          }};
}
Function max_steps() {
  return {"max_steps", [](const Tensor& x, Mode, const Mask& mask) {
            check_steps("max_steps", x);
            return Masked{mask.defined() ? max_valid(x, mask) : max(x, {.axes = Axes{1}})};
          }};
}

Function mask_steps(double value) {
  return {"mask_steps", [value](const Tensor& x, Mode, const Mask& mask) {
            check_rank("mask_steps", x, 3, "[N, T, C]");
            const Tensor some = any(x != value, {.axes = Axes{2}});
            return Masked{varve::identity(x), Mask::of_valid(mask.defined() ? logical_and(mask.valid(), some) : some)};
          }};
}
Function unmask() {
  return {"unmask", [](const Tensor& x, Mode, const Mask&) { return Masked{varve::identity(x)}; }};
}

Function local_response_norm(const LrnOptions& options) {
  return function("local_response_norm", [options](const Tensor& x) {
    return compute_type(varve::local_response_norm(x.dtype() == f64 ? x : x.to(f32), options));
  });
}

}  // namespace varve::nn
