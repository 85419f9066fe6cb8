// The two gradients of a convolution as operators of their own. Each of the three is linear in its operands, so their
// gradients are one another.
#include "base/text.h"
#include "ops/conv.h"

namespace varve::conv {
namespace {

Shape shape_attr(const Attrs& attrs, const char* key) { return Shape(attrs.ints(key)); }

// The attributes of the convolution, without the shape that its gradient was told.
Attrs plain(Attrs attrs) {
  attrs.erase("input_shape");
  attrs.erase("kernel_shape");
  return attrs;
}

Geometry checked(const std::string& op, const Shape& x, const Shape& w, const Shape& dy, const Attrs& attrs) {
  Geometry g = geometry(op, x, w, attrs);
  if (g.y != dy)
    throw Error(
        cat(op, ": a convolution of ", x, " with ", w, " gives ", g.y, ", but the gradient has shape ", dy, "."));
  return g;
}

// ---- dx of dy [N,OH,OW,O] and w [O,KH,KW,I/groups]

Geometry input_geometry(const Call& call) {
  return checked("conv2d_input_grad", shape_attr(call.attrs, "input_shape"), call.in[1].shape, call.in[0].shape,
                 call.attrs);
}

std::vector<TensorType> input_grad_shape(const Call& call) {
  const DType dtype = common_floating("conv2d_input_grad", call.in[0], call.in[1]);
  return {{dtype, input_geometry(call).x}};
}

std::vector<Tensor> input_grad_vjp(const Vjp& v) {
  const Tensor &dy = v.in[0], &w = v.in[1], &ddx = v.dy;
  const Attrs attrs = plain(v.attrs);
  return {v.needs[0] ? forward(ddx, w, attrs) : Tensor{},
          v.needs[1] ? weight_grad(ddx, dy, w.shape(), attrs) : Tensor{}};
}

Cost input_grad_cost(const Call& call, const std::vector<TensorType>& out) {
  return cost(input_geometry(call), out[0].dtype);
}

const OpDef input_grad_op = define(OpRecord{
    .name = "conv2d_input_grad",
    .doc = "The gradient of conv2d for its input, from dy [N,OH,OW,O] and w; also the transposed convolution",
    .family = "conv",
    .arity = 2,
    .shape = input_grad_shape,
    .gradient = input_grad_vjp,
    .cost = input_grad_cost,
    .batching = batch_input_grad,
});

// ---- dw of x [N,H,W,I] and dy [N,OH,OW,O]

Geometry weight_geometry(const Call& call) {
  return checked("conv2d_weight_grad", call.in[0].shape, shape_attr(call.attrs, "kernel_shape"), call.in[1].shape,
                 call.attrs);
}

std::vector<TensorType> weight_grad_shape(const Call& call) {
  const DType dtype = common_floating("conv2d_weight_grad", call.in[0], call.in[1]);
  return {{dtype, weight_geometry(call).w}};
}

std::vector<Tensor> weight_grad_vjp(const Vjp& v) {
  const Tensor &x = v.in[0], &dy = v.in[1], &ddw = v.dy;
  const Attrs attrs = plain(v.attrs);
  return {v.needs[0] ? input_grad(dy, ddw, x.shape(), attrs) : Tensor{},
          v.needs[1] ? forward(x, ddw, attrs) : Tensor{}};
}

Cost weight_grad_cost(const Call& call, const std::vector<TensorType>& out) {
  return cost(weight_geometry(call), out[0].dtype);
}

const OpDef weight_grad_op = define(OpRecord{
    .name = "conv2d_weight_grad",
    .doc = "The gradient of conv2d for its weights, from x and dy [N,OH,OW,O]",
    .family = "conv",
    .arity = 2,
    .shape = weight_grad_shape,
    .gradient = weight_grad_vjp,
    .cost = weight_grad_cost,
    .batching = batch_weight_grad,
});

}  // namespace

Tensor input_grad(const Tensor& dy, const Tensor& w, const Shape& x, Attrs attrs) {
  attrs.set("input_shape", x);
  return input_grad_op.call({dy, w}, std::move(attrs))[0];
}

Tensor weight_grad(const Tensor& x, const Tensor& dy, const Shape& w, Attrs attrs) {
  attrs.set("kernel_shape", w);
  return weight_grad_op.call({x, dy}, std::move(attrs))[0];
}

std::vector<const OpRecord*> gradient_ops() { return {&input_grad_op.record(), &weight_grad_op.record()}; }

}  // namespace varve::conv
