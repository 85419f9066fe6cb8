// Operators that leave values as they are: conversion of the type, and marks on the graph.
#include "base/text.h"
#include "ops/batching.h"
#include "ops/families.h"
#include "ops/shared.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve {
namespace {

Expr same_value(Expr x) { return x; }

std::vector<TensorType> same_types(const Call& call) { return call.in; }

std::optional<Layout> same_layout(const Call&, const Layout& in, const TensorType&) { return in; }

std::vector<Tensor> pass_gradient(const Vjp& v) { return {v.dy}; }

std::vector<TensorType> cast_shape(const Call& call) { return {{call.attrs.dtype("dtype"), call.in[0].shape}}; }

std::vector<Tensor> cast_vjp(const Vjp& v) {
  const bool through = is_floating(v.in[0].dtype()) && is_floating(v.attrs.dtype("dtype"));
  return {through ? cast(v.dy, v.in[0].dtype()) : Tensor()};
}

std::vector<TensorType> check_finite_shape(const Call& call) {
  call.attrs.text("what");
  return call.in;
}

// Undefined gradients stay undefined: nothing flowed into that output.
std::vector<Tensor> barrier_vjp(const Vjp& v) { return v.dys; }

const OpDef cast_op = define({.name = "cast",
                              .doc = "the same values as another type; floating to integer truncates",
                              .family = "arithmetic",
                              .shape = cast_shape,
                              .gradient = cast_vjp,
                              .cost = moves_only,
                              .formula = same_value});
const OpDef identity_op = define({.name = "identity",
                                  .doc = "x",
                                  .family = "arithmetic",
                                  .shape = same_types,
                                  .gradient = pass_gradient,
                                  .cost = costs_nothing,
                                  .view = same_layout,
                                  .batching = batch_leading});
const OpDef stop_gradient_op = define({.name = "stop_gradient",
                                       .doc = "x, but no gradient flows through it",
                                       .family = "arithmetic",
                                       .shape = same_types,
                                       .cost = costs_nothing,
                                       .view = same_layout,
                                       .batching = batch_leading,
                                       .differentiable = false,
                                       .smooth = false});
// Two barriers around equal computations keep them two: that is how values are computed again instead of being kept.
const OpDef barrier_op = define({.name = "barrier",
                                 .doc = "its inputs; computations on either side are not merged",
                                 .family = "arithmetic",
                                 .arity = -1,
                                 .shape = same_types,
                                 .gradient = barrier_vjp,
                                 .cost = moves_only,
                                 .batching = batch_leading,
                                 .pure = false});
const OpDef check_finite_op = define({.name = "check_finite",
                                      .doc = "x; a NaN or infinite value is an error at the next read",
                                      .family = "arithmetic",
                                      .shape = check_finite_shape,
                                      .gradient = pass_gradient,
                                      .batching = batch_leading,
                                      .in_place = {{0, 0}}});

}  // namespace

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return record(cast_op.record(), {x}, {{"dtype", dtype}})[0];
}
Tensor Tensor::to(DType dtype) const { return cast(*this, dtype); }

Tensor identity(const Tensor& x) { return record(identity_op.record(), {x})[0]; }
Tensor stop_gradient(const Tensor& x) { return record(stop_gradient_op.record(), {x})[0]; }
std::vector<Tensor> barrier(const std::vector<Tensor>& xs) { return record(barrier_op.record(), xs); }
Tensor check_finite(const Tensor& x, const std::string& what) {
  return record(check_finite_op.record(), {x}, {{"what", what}})[0];
}

std::vector<const OpRecord*> cast_ops() {
  return {&cast_op.record(), &identity_op.record(), &stop_gradient_op.record(), &barrier_op.record(),
          &check_finite_op.record()};
}

}  // namespace varve
