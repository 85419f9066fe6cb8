// Scaled dot-product attention.
#include <cmath>
#include <limits>

#include "base/text.h"
#include "ops/families.h"
#include "varve/ops.h"

namespace varve {
namespace {

Shape leading(const Shape& shape) { return Shape(Ints(shape.begin(), shape.end() - 2)); }

Shape followed_by(Shape shape, std::int64_t rows, std::int64_t columns) {
  shape.push_back(rows);
  shape.push_back(columns);
  return shape;
}

// [.., Tq, Tk], the shape of the scores
Shape scores_shape(const Shape& q, const Shape& k, const Shape& v) {
  const Shape batch = broadcast(broadcast(leading(q), leading(k), "attention"), leading(v), "attention");
  return followed_by(batch, q[q.rank() - 2], k[k.rank() - 2]);
}

void check_operands(const std::vector<TensorType>& in) {
  const TensorType &q = in[0], &k = in[1], &v = in[2];
  if (!is_floating(q.dtype) || q.dtype != k.dtype || q.dtype != v.dtype)
    throw Error(
        cat("attention: q, k and v must be of one floating type, got ", q.str(), ", ", k.str(), " and ", v.str(), "."));
  for (const TensorType* type : {&q, &k, &v})
    if (type->shape.rank() < 2)
      throw Error(cat("attention: takes q, k, v [.., T, D], got ", q.shape, ", ", k.shape, " and ", v.shape, "."));
  if (q.shape.back() != k.shape.back())
    throw Error(cat("attention: q ", q.shape, " and k ", k.shape, " differ in their last size: ", q.shape.back(),
                    " and ", k.shape.back(), "."));
  if (k.shape[k.shape.rank() - 2] != v.shape[v.shape.rank() - 2])
    throw Error(cat("attention: k ", k.shape, " and v ", v.shape, " differ in length: ", k.shape[k.shape.rank() - 2],
                    " and ", v.shape[v.shape.rank() - 2], "."));
}

std::vector<TensorType> attention_shape(const Call& call) {
  if (call.in.size() != 3 && call.in.size() != 4)
    throw Error(cat("attention: takes q, k, v and perhaps a mask, got ", call.in.size(), " inputs."));
  check_operands(call.in);
  const Shape scores = scores_shape(call.in[0].shape, call.in[1].shape, call.in[2].shape);
  if (call.in.size() == 4) {
    const TensorType& mask = call.in[3];
    if (mask.dtype != boolean && !is_floating(mask.dtype))
      throw Error(cat("attention: the mask must be bool or floating, got ", mask.str(), "."));
    if (mask.shape.rank() > scores.rank() || broadcast(mask.shape, scores, "attention") != scores)
      throw Error(cat("attention: mask ", mask.shape, " does not broadcast to the scores ", scores, "."));
  }
  return {{call.in[0].dtype, followed_by(leading(scores), scores[scores.rank() - 2], call.in[2].shape.back())}};
}

// Query i sees keys up to i + Tk - Tq: the last query sees them all.
Tensor causal_mask(std::int64_t queries, std::int64_t keys) {
  return arange(keys) <= arange(queries).reshape({queries, 1}) + (keys - queries);
}

// softmax(q·kᵀ·scale + mask)·v. A query that may see no key at all gives 0.
std::vector<Tensor> attention_parts(const std::vector<Tensor>& in, const Attrs& attrs) {
  const DType dtype = in[0].dtype(), wide = dtype == f64 ? f64 : f32;
  const std::int64_t queries = in[0].dim(-2), keys = in[1].dim(-2);
  Tensor scores = matmul(in[0], in[1], {.transpose_b = true}).to(wide) * attrs.number("scale");
  Tensor allowed;  // undefined: everything
  bool row_may_be_empty = false;
  if (attrs.flag("causal")) {
    allowed = causal_mask(queries, keys);
    row_may_be_empty = queries > keys;
  }
  if (in.size() == 4) {
    const bool logical = in[3].dtype() == boolean;
    if (!logical) scores = scores + in[3].to(wide);
    const Tensor shown = logical ? in[3] : in[3] > -std::numeric_limits<double>::infinity();
    allowed = allowed.defined() ? allowed && shown : shown;
    row_may_be_empty = true;
  }
  // The lowest finite score rather than -inf: a row without any key would otherwise be inf - inf.
  if (allowed.defined()) scores = where(allowed, scores, static_cast<double>(std::numeric_limits<float>::lowest()));
  Tensor weights = softmax(scores, -1);
  if (row_may_be_empty) weights = where(allowed, weights, 0.0);
  return {matmul(weights.to(dtype), in[2])};
}

Cost attention_cost(const Call& call, const std::vector<TensorType>& out) {
  const Shape scores = scores_shape(call.in[0].shape, call.in[1].shape, call.in[2].shape);
  const double widths = static_cast<double>(call.in[0].shape.back()) + static_cast<double>(call.in[2].shape.back());
  double bytes = static_cast<double>(out[0].bytes());
  for (const TensorType& type : call.in) bytes += static_cast<double>(type.bytes());
  return {2 * static_cast<double>(scores.numel()) * widths, bytes};
}

const OpDef attention_op = define(OpRecord{
    .name = "attention",
    .doc = "softmax(q·kᵀ·scale + mask)·v; a query that may see no key gives 0",
    .family = "attention",
    .arity = -1,
    .shape = attention_shape,
    .decompose = attention_parts,
    .cost = attention_cost,
});

}  // namespace

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  const DType dtype = promote(promote(q.dtype(), k.dtype()), v.dtype());
  std::vector<Tensor> inputs{q.to(dtype), k.to(dtype), v.to(dtype)};
  if (options.mask.defined()) inputs.push_back(options.mask);
  const double depth = q.rank() > 0 && q.dim(-1) > 0 ? static_cast<double>(q.dim(-1)) : 1;
  return attention_op.call(inputs,
                           {{"causal", options.causal}, {"scale", options.scale.value_or(1 / std::sqrt(depth))}})[0];
}

std::vector<const OpRecord*> attention_ops() { return {&attention_op.record()}; }

}  // namespace varve
