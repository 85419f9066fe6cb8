// The geometry of a convolution, shared by its three operators, each of which is linear in the other two's operands.
#pragma once

#include <cstdint>

#include "ops/batching.h"
#include "varve/ops.h"

namespace varve::conv {

// No size along an image may be larger: products of two of them stay within 64 bits.
inline constexpr std::int64_t kMostSize = std::int64_t{1} << 31;

// x [N,H,W,I]  w [O,KH,KW,I/groups]  y [N,OH,OW,O]
struct Geometry {
  Ints stride, padding, dilation;  // padding: top, bottom, left, right
  std::int64_t groups = 1;
  Shape x = {}, w = {}, y = {};
};

// Checks everything a user may get wrong; `op` begins the message.
Geometry geometry(const std::string& op, const Shape& x, const Shape& w, const Attrs& attrs);

// The type of two operands that must be of one floating type.
DType common_floating(const std::string& op, const TensorType& a, const TensorType& b);
Cost cost(const Geometry& g, DType dtype);

// dx from dy and w, dw from x and dy, with the attributes of the convolution.
Tensor input_grad(const Tensor& dy, const Tensor& w, const Shape& x, Attrs attrs);
Tensor weight_grad(const Tensor& x, const Tensor& dy, const Shape& w, Attrs attrs);
Tensor forward(const Tensor& x, const Tensor& w, const Attrs& attrs);

// Batching rules (conv_batch.cpp).
std::optional<std::vector<Tensor>> batch_forward(const Batching& b);
std::optional<std::vector<Tensor>> batch_input_grad(const Batching& b);
std::optional<std::vector<Tensor>> batch_weight_grad(const Batching& b);

std::vector<const OpRecord*> gradient_ops();

}  // namespace varve::conv
