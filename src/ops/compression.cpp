// What gradients become on the wire: made from a gradient and what was lost of those before, and added up again. f32.
#include "base/text.h"
#include "ops/families.h"
#include "ops/shared.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve {
namespace {

std::int64_t bytes_of_bits(std::int64_t bits) { return (bits + 7) / 8; }

// A gradient and what was kept of those before.
const Shape& check_pair(const Call& call) {
  const TensorType &x = call.in[0], &kept = call.in[1];
  if (x.dtype != f32 || kept != x)
    throw Error(cat(call.op.name, ": expected two f32 tensors of one shape, got ", x.str(), " and ", kept.str(), "."));
  if (x.shape.numel() == 0) throw Error(cat(call.op.name, ": ", x.str(), " has no entries."));
  return x.shape;
}

// 1, 2, 4, … 128. (A decomposition holds no constants.)
Tensor weights_of_bits() { return round(exp2(arange(8).to(f32))).to(i32); }

// ---- one bit: an entry is the mean of its column's entries from 0 on, or of those below

std::vector<TensorType> one_bit_shape(const Call& call) {
  const Shape& shape = check_pair(call);
  const std::int64_t columns = call.attrs.integer("columns");
  if (columns < 1 || shape.numel() % columns != 0)
    throw Error(cat("one_bit: the entries of ", call.in[0].str(), " do not divide into ", columns, " columns."));
  return {{u8, {bytes_of_bits(shape.numel())}}, {f32, {2, columns}}, call.in[0]};
}

std::vector<Tensor> one_bit_parts(const std::vector<Tensor>& in, const Attrs& attrs) {
  const std::int64_t count = in[0].numel(), columns = attrs.integer("columns"), bytes = bytes_of_bits(count);
  const Tensor v = (in[0] + in[1]).reshape({count / columns, columns});
  const Tensor above = v >= 0;
  const auto mean = [&](const Tensor& here) {
    const Tensor number = sum(here.to(f32), {.axes = Axes{0}});
    return where(number > 0, sum(where(here, v, 0), {.axes = Axes{0}}) / maximum(number, 1), 0);
  };
  const Tensor means = stack({mean(above), mean(logical_not(above))}, 0);
  const Tensor lost = v - where(above, means.slice({{0, 1}}), means.slice({{1, 2}}));
  const Tensor flat = pad(above.to(i32).reshape({count}), {{0, 8 * bytes - count}});
  const Tensor bits = sum(flat.reshape({bytes, 8}) * weights_of_bits(), {.axes = Axes{1}}).to(u8);
  return {bits, means, lost.reshape(in[0].shape())};
}

const OpDef one_bit_op =
    define({.name = "one_bit",
            .doc = "Signs of x + kept, the means of either sign in each column, and what they lack.",
            .family = "compression",
            .arity = 2,
            .shape = one_bit_shape,
            .decompose = one_bit_parts,
            .differentiable = false,
            .in_place = {{2, 1}}});

std::vector<TensorType> one_bit_sum_shape(const Call& call) {
  const TensorType &bits = call.in[0], &means = call.in[1];
  const Shape shape(call.attrs.ints("shape"));
  call.attrs.number("scale");
  const bool fits = bits.dtype == u8 && bits.shape.rank() == 2 && bits.shape[0] > 0 && means.dtype == f32 &&
                    means.shape.rank() == 3 && means.shape[0] == bits.shape[0] && means.shape[1] == 2 &&
                    means.shape[2] > 0 && shape.numel() % means.shape[2] == 0 &&
                    bits.shape[1] == bytes_of_bits(shape.numel());
  if (!fits)
    throw Error(cat("one_bit_sum: bits ", bits.str(), " and means ", means.str(), " do not make ", shape,
                    ": expected u8 [ranks, bytes] and f32 [ranks, 2, columns], as one_bit gives them."));
  return {{f32, shape}};
}

std::vector<Tensor> one_bit_sum_parts(const std::vector<Tensor>& in, const Attrs& attrs) {
  const std::int64_t ranks = in[0].dim(0), bytes = in[0].dim(1), columns = in[1].dim(2);
  const Shape shape(attrs.ints("shape"));
  const Tensor digits = floor_divide(in[0].to(i32).reshape({ranks, bytes, 1}), weights_of_bits());
  const Tensor flat = remainder(digits, 2).reshape({ranks, 8 * bytes}).slice({{0, ranks}, {0, shape.numel()}});
  const Tensor above = in[1].slice({{0, ranks}, {0, 1}}), below = in[1].slice({{0, ranks}, {1, 2}});
  const Tensor each = where(flat.reshape({ranks, shape.numel() / columns, columns}), above, below);
  return {(sum(each, {.axes = Axes{0}}) * attrs.number("scale")).reshape(shape)};
}

const OpDef one_bit_sum_op = define({.name = "one_bit_sum",
                                     .doc = "The sum of what one_bit has made on each rank, times a scale.",
                                     .family = "compression",
                                     .arity = 2,
                                     .shape = one_bit_sum_shape,
                                     .decompose = one_bit_sum_parts,
                                     .differentiable = false});

// ---- the largest entries

std::vector<TensorType> top_entries_shape(const Call& call) {
  const Shape& shape = check_pair(call);
  const std::int64_t count = call.attrs.integer("count");
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (count < 1 || count > shape.numel() || shape.numel() >= kMost)
    throw Error(cat("top_entries: ", count, " of the ", shape.numel(), " entries of ", call.in[0].str(),
                    ": expected from 1 to all of them, and fewer than 2³¹."));
  return {{f32, {count}}, {i32, {count}}, call.in[0]};
}

std::vector<Tensor> top_entries_parts(const std::vector<Tensor>& in, const Attrs& attrs) {
  const std::int64_t count = attrs.integer("count");
  const Tensor v = (in[0] + in[1]).reshape({in[0].numel()});
  // NaN would be last in descending order too: it counts as the largest.
  const Tensor size = where(is_nan(v), std::numeric_limits<float>::infinity(), abs(v));
  const Tensor largest = argsort(size, 0, true).slice({{0, count}});
  const Tensor places = sort(largest);
  const Tensor taken = gather(v, places);
  const Tensor is_taken = scatter_add(zeros({v.numel()}), places, ones({count}));
  return {taken, places.to(i32), where(is_taken > 0, 0, v).reshape(in[0].shape())};
}

const OpDef top_entries_op =
    define({.name = "top_entries",
            .doc = "The entries of x + kept of largest magnitude, their places, and the others.",
            .family = "compression",
            .arity = 2,
            .shape = top_entries_shape,
            .decompose = top_entries_parts,
            .differentiable = false,
            .in_place = {{2, 1}}});

}  // namespace

std::vector<const OpRecord*> compression_ops() {
  return {&one_bit_op.record(), &one_bit_sum_op.record(), &top_entries_op.record()};
}

}  // namespace varve
