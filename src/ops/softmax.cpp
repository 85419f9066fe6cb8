// Activations along an axis.
#include "ops/softmax.h"
#include "base/text.h"
#include "ops/batching.h"
#include "ops/families.h"
#include "ops/shared.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve {
namespace {

std::vector<TensorType> same_floating(const Call& call) {
  if (!is_floating(call.in[0].dtype))
    throw Error(cat(call.op.name, ": needs floating-point values, got ", call.in[0].str(), "."));
  normalize_axis(call.attrs.integer("axis"), call.in[0].shape.rank(), call.op.name.c_str());
  return {call.in[0]};
}

// Maximum, difference, exponential, sum, quotient.
Cost softmax_cost(const Call& call, const std::vector<TensorType>& out) {
  return {5 * static_cast<double>(out[0].shape.numel()),
          static_cast<double>(call.in[0].bytes()) + static_cast<double>(out[0].bytes())};
}

ReduceOptions along(const Attrs& attrs) { return {.axes = Axes{attrs.integer("axis")}, .keep = true}; }

// Sums of many exponentials need more digits than 16 bits have.
// Less the maximum, so that the largest exponential is 1 and none overflows.
std::vector<Tensor> softmax_parts(const std::vector<Tensor>& in, const Attrs& attrs) {
  if (in[0].numel() == 0) return {identity(in[0])};
  const Tensor x = widened(in[0]);
  const Tensor e = exp(x - max(x, along(attrs)));
  return {(e / sum(e, along(attrs))).to(in[0].dtype())};
}

std::vector<Tensor> log_softmax_parts(const std::vector<Tensor>& in, const Attrs& attrs) {
  if (in[0].numel() == 0) return {identity(in[0])};
  const Tensor x = widened(in[0]);
  const Tensor shifted = x - max(x, along(attrs));
  return {(shifted - log(sum(exp(shifted), along(attrs)))).to(in[0].dtype())};
}

// ---- gradients; in: y, dy

std::vector<TensorType> grad_shape(const Call& call) {
  if (call.in[0] != call.in[1])
    throw Error(cat(call.op.name, ": dy must be ", call.in[0].str(), ", as y, got ", call.in[1].str(), "."));
  return same_floating(call);
}

// Product, sum, difference, product.
Cost grad_cost(const Call& call, const std::vector<TensorType>& out) {
  return {4 * static_cast<double>(out[0].shape.numel()),
          2 * static_cast<double>(call.in[0].bytes()) + static_cast<double>(out[0].bytes())};
}

// yᵢ = eˣⁱ / Σ eˣ      dxᵢ = yᵢ · (dyᵢ - Σ dy·y)
std::vector<Tensor> softmax_grad_parts(const std::vector<Tensor>& in, const Attrs& attrs) {
  const Tensor y = widened(in[0]), dy = widened(in[1]);
  return {(y * (dy - sum(dy * y, along(attrs)))).to(in[0].dtype())};
}

// yᵢ = xᵢ - log Σ eˣ      dxᵢ = dyᵢ - eʸⁱ · Σ dy
std::vector<Tensor> log_softmax_grad_parts(const std::vector<Tensor>& in, const Attrs& attrs) {
  const Tensor y = widened(in[0]), dy = widened(in[1]);
  return {(dy - exp(y) * sum(dy, along(attrs))).to(in[0].dtype())};
}

const OpDef softmax_grad_op = define({.name = "softmax_grad",
                                      .doc = "Gradient of softmax, from its output and dy",
                                      .family = "activation",
                                      .arity = 2,
                                      .shape = grad_shape,
                                      .decompose = softmax_grad_parts,
                                      .cost = grad_cost,
                                      .batching = batch_along_axis,
                                      .in_place = {{0, 0}, {0, 1}}});
const OpDef log_softmax_grad_op = define({.name = "log_softmax_grad",
                                          .doc = "Gradient of log_softmax, from its output and dy",
                                          .family = "activation",
                                          .arity = 2,
                                          .shape = grad_shape,
                                          .decompose = log_softmax_grad_parts,
                                          .cost = grad_cost,
                                          .batching = batch_along_axis,
                                          .in_place = {{0, 0}, {0, 1}}});

std::vector<Tensor> softmax_vjp(const Vjp& v) { return softmax_grad_op.call({v.out[0], v.dy}, v.attrs); }
std::vector<Tensor> log_softmax_vjp(const Vjp& v) { return log_softmax_grad_op.call({v.out[0], v.dy}, v.attrs); }

const OpDef softmax_op = define({.name = "softmax",
                                 .doc = "eˣ over its sum along an axis",
                                 .family = "activation",
                                 .shape = same_floating,
                                 .gradient = softmax_vjp,
                                 .decompose = softmax_parts,
                                 .cost = softmax_cost,
                                 .batching = batch_along_axis,
                                 .in_place = {{0, 0}}});
const OpDef log_softmax_op = define({.name = "log_softmax",
                                     .doc = "log of softmax along an axis, exact for small probabilities",
                                     .family = "activation",
                                     .shape = same_floating,
                                     .gradient = log_softmax_vjp,
                                     .decompose = log_softmax_parts,
                                     .cost = softmax_cost,
                                     .batching = batch_along_axis,
                                     .in_place = {{0, 0}}});

Tensor along_axis(const OpDef& op, const Tensor& x, std::int64_t axis) {
  const int normal = normalize_axis(axis, x.rank(), op.name().c_str());
  return record(op.record(), {is_floating(x.dtype()) ? x : x.to(f32)}, {{"axis", normal}})[0];
}

}  // namespace

Tensor softmax(const Tensor& x, std::int64_t axis) { return along_axis(softmax_op, x, axis); }
Tensor log_softmax(const Tensor& x, std::int64_t axis) { return along_axis(log_softmax_op, x, axis); }

Tensor softmax_grad(const Tensor& y, const Tensor& dy, std::int64_t axis) {
  return softmax_grad_op.call({y, dy}, {{"axis", normalize_axis(axis, y.rank(), "softmax_grad")}})[0];
}

std::vector<const OpRecord*> softmax_ops() {
  return {&softmax_op.record(), &log_softmax_op.record(), &softmax_grad_op.record(), &log_softmax_grad_op.record()};
}

}  // namespace varve
