// Scaled dot-product attention.
#include <cmath>
#include <limits>
#include <utility>

#include "base/text.h"
#include "ops/batching.h"
#include "ops/families.h"
#include "ops/recurrent.h"
#include "ops/softmax.h"
#include "varve/ops.h"

namespace varve {
namespace {

// The compiler moves heads inside, [.., T, heads, D], where a projection left them so: it saves copies. The rules below
// see them outside, [.., heads, T, D].
bool inside(const Attrs& attrs) { return attrs.flag("heads_inside"); }

Shape outside(Shape shape, const Attrs& attrs) {
  if (inside(attrs)) std::swap(shape[shape.rank() - 3], shape[shape.rank() - 2]);
  return shape;
}

// There and back.
Tensor swapped(const Tensor& x, const Attrs& attrs) {
  if (!inside(attrs)) return x;
  Ints order;
  for (int axis = 0; axis < x.rank(); ++axis) order.push_back(axis);
  std::swap(order[order.size() - 3], order[order.size() - 2]);
  return transpose(x, order);
}

std::vector<Tensor> swapped(std::vector<Tensor> tensors, const Attrs& attrs) {
  for (Tensor& tensor : tensors) tensor = swapped(tensor, attrs);
  return tensors;
}

Shape leading(const Shape& shape) { return Shape(Ints(shape.begin(), shape.end() - 2)); }

Shape followed_by(Shape shape, std::int64_t rows, std::int64_t columns) {
  shape.push_back(rows);
  shape.push_back(columns);
  return shape;
}

// [.., Tq, Tk], the shape of the scores
Shape scores_shape(const Call& call) {
  const Shape q = outside(call.in[0].shape, call.attrs), k = outside(call.in[1].shape, call.attrs),
              v = outside(call.in[2].shape, call.attrs);
  const Shape batch = broadcast(broadcast(leading(q), leading(k), "attention"), leading(v), "attention");
  return followed_by(batch, q[q.rank() - 2], k[k.rank() - 2]);
}

DType wide(DType dtype) { return dtype == f64 ? f64 : f32; }

void check_operands(const std::vector<TensorType>& in, const Attrs& attrs) {
  const TensorType &q = in[0], &k = in[1], &v = in[2];
  if (!is_floating(q.dtype) || q.dtype != k.dtype || q.dtype != v.dtype)
    throw Error(
        cat("attention: q, k and v must be of one floating type, got ", q.str(), ", ", k.str(), " and ", v.str(), "."));
  const int behind = inside(attrs) ? 3 : 2;  // from the axis of time on
  for (const TensorType* type : {&q, &k, &v})
    if (type->shape.rank() < behind)
      throw Error(cat("attention: takes q, k, v ", behind == 3 ? "[.., T, heads, D]" : "[.., T, D]", ", got ", q.shape,
                      ", ", k.shape, " and ", v.shape, "."));
  if (q.shape.back() != k.shape.back())
    throw Error(cat("attention: q ", q.shape, " and k ", k.shape, " differ in their last size: ", q.shape.back(),
                    " and ", k.shape.back(), "."));
  const std::int64_t keys = k.shape[k.shape.rank() - behind], values = v.shape[v.shape.rank() - behind];
  if (keys != values)
    throw Error(cat("attention: k ", k.shape, " and v ", v.shape, " differ in length: ", keys, " and ", values, "."));
}

// The result, and for each query the logarithm of its sum of exponentials, which the gradient needs.
std::vector<TensorType> attention_shape(const Call& call) {
  if (call.in.size() != 3 && call.in.size() != 4)
    throw Error(cat("attention: takes q, k, v and perhaps a mask, got ", call.in.size(), " inputs."));
  check_operands(call.in, call.attrs);
  const Shape scores = scores_shape(call);
  if (call.in.size() == 4) {
    const TensorType& mask = call.in[3];
    if (mask.dtype != boolean && !is_floating(mask.dtype))
      throw Error(cat("attention: the mask must be bool or floating, got ", mask.str(), "."));
    if (mask.shape.rank() > scores.rank() || broadcast(mask.shape, scores, "attention") != scores)
      throw Error(cat("attention: mask ", mask.shape, " does not broadcast to the scores ", scores, "."));
  }
  const DType dtype = call.in[0].dtype;
  const std::int64_t queries = scores[scores.rank() - 2];
  return {{dtype, outside(followed_by(leading(scores), queries, call.in[2].shape.back()), call.attrs)},
          {wide(dtype), followed_by(leading(scores), queries, 1)}};
}

// Query i sees keys up to i + Tk - Tq: the last query sees them all.
Tensor causal_mask(std::int64_t queries, std::int64_t keys) {
  return arange(keys) <= arange(queries).reshape({queries, 1}) + (keys - queries);
}

// q·kᵀ·scale + mask, the lowest finite number where a query may not look, and where it may.
struct Scores {
  Tensor values, allowed;  // undefined: everywhere
  bool row_may_be_empty = false;
};

Scores scores_of(const std::vector<Tensor>& in, const Attrs& attrs) {
  const DType type = wide(in[0].dtype());
  const std::int64_t queries = in[0].dim(-2), keys = in[1].dim(-2);
  Scores scores{matmul(in[0], in[1], {.transpose_b = true}).to(type) * attrs.number("scale"), {}};
  if (attrs.flag("causal")) {
    scores.allowed = causal_mask(queries, keys);
    scores.row_may_be_empty = queries > keys;
  }
  if (in.size() == 4) {
    const bool logical = in[3].dtype() == boolean;
    if (!logical) scores.values = scores.values + in[3].to(type);
    const Tensor shown = logical ? in[3] : in[3] > -std::numeric_limits<double>::infinity();
    scores.allowed = scores.allowed.defined() ? scores.allowed && shown : shown;
    scores.row_may_be_empty = true;
  }
  // The lowest finite score rather than -inf: a row without any key would otherwise be inf - inf.
  if (scores.allowed.defined())
    scores.values = where(scores.allowed, scores.values, static_cast<double>(std::numeric_limits<float>::lowest()));
  return scores;
}

// softmax(q·kᵀ·scale + mask)·v. A query that may see no key at all gives 0, and 0 as its logarithm.
std::vector<Tensor> attention_parts(const std::vector<Tensor>& given, const Attrs& attrs) {
  std::vector<Tensor> in = given;
  for (const std::size_t i : {0, 1, 2}) in[i] = swapped(in[i], attrs);
  const Scores scores = scores_of(in, attrs);
  Tensor weights = softmax(scores.values, -1);
  Tensor lse = logsumexp(scores.values, {.axes = Axes{-1}, .keep = true});
  if (scores.row_may_be_empty) {
    weights = where(scores.allowed, weights, 0.0);
    const Tensor seen = any(scores.allowed, {.axes = Axes{-1}, .keep = true});
    lse = where(seen, lse, 0.0);
  }
  return {swapped(matmul(weights.to(in[0].dtype()), in[2]), attrs), lse};
}

// Inputs: q, k, v, the logarithms, dy. Outputs: dq, dk, dv.
std::vector<TensorType> attention_grad_shape(const Call& call) {
  check_operands(call.in, call.attrs);
  return {call.in[0], call.in[1], call.in[2]};
}

// p = exp(s - lse), dp = dy·vᵀ, ds = p·(dp - Σ p·dp)·scale
// dq = ds·k, dk = dsᵀ·q, dv = pᵀ·dy
std::vector<Tensor> attention_grad_parts(const std::vector<Tensor>& given, const Attrs& attrs) {
  const DType dtype = given[0].dtype(), type = wide(dtype);
  const Tensor q = swapped(given[0], attrs), k = swapped(given[1], attrs), v = swapped(given[2], attrs);
  const Tensor lse = given[3], dy = swapped(given[4], attrs);
  const Scores scores = scores_of({q, k, v}, attrs);
  Tensor p = exp(scores.values - lse);
  if (scores.row_may_be_empty) p = where(scores.allowed, p, 0.0);
  const Tensor dp = matmul(dy, v, {.transpose_b = true}).to(type);
  const Tensor ds = (softmax_grad(p, dp) * attrs.number("scale")).to(dtype);
  return swapped({matmul(ds, k), matmul(ds, q, {.transpose_a = true}), matmul(p.to(dtype), dy, {.transpose_a = true})},
                 attrs);
}

Cost attention_cost(const Call& call, const std::vector<TensorType>& out) {
  const double widths = static_cast<double>(call.in[0].shape.back()) + static_cast<double>(call.in[2].shape.back());
  double bytes = 0;
  for (const TensorType& type : out) bytes += static_cast<double>(type.bytes());
  for (const TensorType& type : call.in) bytes += static_cast<double>(type.bytes());
  return {2 * static_cast<double>(scores_shape(call).numel()) * widths, bytes};
}

// Scores once more and four products.
Cost attention_grad_cost(const Call& call, const std::vector<TensorType>& out) {
  Cost cost = attention_cost(call, out);
  cost.flops *= 2.5;
  return cost;
}

// The examples are one more leading axis; ones stand behind it where an operand has fewer.
std::optional<std::vector<Tensor>> batch_attention(const Batching& call) {
  const int matrix = inside(call.attrs) ? 3 : 2;
  std::vector<Tensor> in = call.in;
  std::vector<bool> batched = call.batched;
  if (!batched[0]) in[0] = spread(in[0], call.size);  // a mask alone would not make a batch of the scores
  batched[0] = true;
  int rank = 0;
  for (std::size_t i = 0; i < 3; ++i) rank = std::max(rank, in[i].rank() - (batched[i] ? 1 : 0));
  // The scores have heads outside: their rank is that of the operands either way.
  if (matrix == 3 && in.size() > 3) return std::nullopt;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!batched[i]) continue;
    Ints sizes = in[i].shape().vec();
    sizes.insert(sizes.begin() + 1, static_cast<std::size_t>(rank + 1 - in[i].rank()), 1);
    in[i] = reshape(in[i], Shape(std::move(sizes)));
  }
  return OpDef(&call.op).call(in, call.attrs);
}

const OpDef attention_grad_op = define(OpRecord{
    .name = "attention_grad",
    .doc = "Gradients of attention with respect to q, k and v",
    .family = "attention",
    .arity = 5,
    .shape = attention_grad_shape,
    .decompose = attention_grad_parts,
    .cost = attention_grad_cost,
    .batching = batch_leading,
});

bool broadcasts(const Vjp& v) {
  const Shape q = leading(outside(v.in[0].shape(), v.attrs));
  return q != leading(outside(v.in[1].shape(), v.attrs)) || q != leading(outside(v.in[2].shape(), v.attrs));
}

std::vector<Tensor> attention_vjp(const Vjp& v) {
  // A mask, heads that several others share, a gradient of the gradient.
  if (v.in.size() > 3 || broadcasts(v) || v.dys[1].defined()) return through_decomposition(v);
  return attention_grad_op.call({v.in[0], v.in[1], v.in[2], v.out[1], v.dy}, v.attrs);
}

const OpDef attention_op = define(OpRecord{
    .name = "attention",
    .doc = "softmax(q·kᵀ·scale + mask)·v, and logarithms of the sums; a query that may see no key gives 0",
    .family = "attention",
    .arity = -1,
    .shape = attention_shape,
    .gradient = attention_vjp,
    .decompose = attention_parts,
    .cost = attention_cost,
    .batching = batch_attention,
});

Tensor plain_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  const DType dtype = promote(promote(q.dtype(), k.dtype()), v.dtype());
  std::vector<Tensor> inputs{q.to(dtype), k.to(dtype), v.to(dtype)};
  if (options.mask.defined()) inputs.push_back(options.mask);
  const double depth = q.rank() > 0 && q.dim(-1) > 0 ? static_cast<double>(q.dim(-1)) : 1;
  return attention_op.call(inputs, {{"causal", options.causal},
                                    {"heads_inside", false},
                                    {"scale", options.scale.value_or(1 / std::sqrt(depth))}})[0];
}

// Heads of k and v that several heads of q share, and how many do; 1 where heads broadcast as they are.
std::int64_t sharing_heads(const Tensor& q, const Tensor& k, const Tensor& v) {
  if (q.rank() < 3 || k.rank() != q.rank() || v.rank() != q.rank()) return 1;
  const std::int64_t heads = q.dim(-3), shared = k.dim(-3);
  if (shared == heads || shared < 1 || v.dim(-3) != shared || (shared == 1 && q.rank() == 3)) return 1;
  if (heads % shared != 0)
    throw Error(cat("attention: ", heads, " heads of q ", q.shape(), " cannot share ", shared, " of k ", k.shape(),
                    ": the one must be a multiple of the other."));
  return heads / shared;
}

// x's axis -3 in two: [.., heads / group, group, T, D]
Tensor in_groups(const Tensor& x, std::int64_t group) {
  std::vector<std::int64_t> sizes = x.shape().vec();
  sizes[sizes.size() - 3] /= group;
  sizes.insert(sizes.end() - 2, group);
  return reshape(x, Shape(std::move(sizes)));
}

// And back.
Tensor joined_heads(const Tensor& x) {
  std::vector<std::int64_t> sizes = x.shape().vec();
  sizes[sizes.size() - 4] *= sizes[sizes.size() - 3];
  sizes.erase(sizes.end() - 3);
  return reshape(x, Shape(std::move(sizes)));
}

Tensor mask_in_groups(const Tensor& mask, std::int64_t heads, std::int64_t group) {
  if (mask.rank() < 3) return mask;
  return mask.dim(-3) == heads ? in_groups(mask, group) : expand_dims(mask, -3);
}

// Keys and values are not copied for the heads that share them. Without a mask the queries of a group are a longer
// sequence; where they may see earlier keys only, each head of the group has a call of its own.
Tensor grouped_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                         std::int64_t group) {
  const Tensor groups = in_groups(q, group);  // [.., shared, group, T, D]
  if (options.mask.defined()) {
    AttentionOptions own = options;
    own.mask = mask_in_groups(options.mask, q.dim(-3), group);
    return joined_heads(plain_attention(groups, expand_dims(k, -3), expand_dims(v, -3), own));
  }
  constexpr std::int64_t kMostCalls = 64;
  if (options.causal && group > kMostCalls)
    return joined_heads(plain_attention(groups, expand_dims(k, -3), expand_dims(v, -3), options));
  if (!options.causal) {
    const auto with = [](Shape shape, std::int64_t heads, std::int64_t steps) {
      shape[shape.rank() - 3] = heads;
      shape[shape.rank() - 2] = steps;
      return shape;
    };
    const Tensor longer = reshape(q, with(q.shape(), k.dim(-3), group * q.dim(-2)));
    const Tensor y = plain_attention(longer, k, v, options);
    return reshape(y, with(y.shape(), q.dim(-3), q.dim(-2)));
  }
  std::vector<Tensor> heads;
  for (const Tensor& head : split(groups, group, -3))
    heads.push_back(plain_attention(squeeze(head, {-3}), k, v, options));
  return joined_heads(stack(heads, -3));
}

}  // namespace

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  if (const std::int64_t group = sharing_heads(q, k, v); group > 1) return grouped_attention(q, k, v, options, group);
  return plain_attention(q, k, v, options);
}

std::vector<const OpRecord*> attention_ops() { return {&attention_op.record(), &attention_grad_op.record()}; }

}  // namespace varve
