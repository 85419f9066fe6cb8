// Tensors from nothing: one value everywhere, evenly spaced values.
#include <cmath>

#include "base/convert.h"
#include "base/text.h"
#include "ops/families.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve {
namespace {

// Enough for every tensor that fits in memory; counted in double it is still exact.
constexpr double kMostElements = 4611686018427387904.0;  // 2^62

std::vector<TensorType> fill_shape(const Call& call) {
  call.attrs.number("value");
  TensorType type{call.attrs.dtype("dtype"), Shape(call.attrs.ints("shape"))};
  type.shape.numel();  // refuses negative sizes
  return {std::move(type)};
}

std::vector<TensorType> iota_shape(const Call& call) {
  call.attrs.number("start");
  call.attrs.number("step");
  const std::int64_t count = call.attrs.integer("count");
  if (count < 0) throw Error(cat("iota: a count of ", count, ": it must be 0 or more."));
  return {{call.attrs.dtype("dtype"), {count}}};
}

Cost writes_only(const Call&, const std::vector<TensorType>& out) { return {0, static_cast<double>(out[0].bytes())}; }

const OpDef fill_op = define({.name = "fill",
                              .doc = "one value everywhere",
                              .family = "create",
                              .arity = 0,
                              .shape = fill_shape,
                              .cost = writes_only,
                              .differentiable = false});
const OpDef iota_op = define({.name = "iota",
                              .doc = "start, start + step, start + 2·step, …",
                              .family = "create",
                              .arity = 0,
                              .shape = iota_shape,
                              .cost = writes_only,
                              .differentiable = false});

// The number as that type holds it: integers stay exact, and what does not fit is converted here once and for all.
template <class Number>
Attr number_for(Number value, DType dtype) {
  if (is_floating(dtype)) return Attr(static_cast<double>(value));
  return dispatch(dtype,
                  [&]<class T>(std::type_identity<T>) { return Attr(cast_to<std::int64_t>(cast_to<T>(value))); });
}

Tensor fill(const Shape& shape, Attr value, DType dtype) {
  return record(fill_op.record(), {}, {{"value", std::move(value)}, {"shape", shape}, {"dtype", dtype}})[0];
}

Tensor iota(Attr start, Attr step, std::int64_t count, DType dtype) {
  return record(iota_op.record(), {},
                {{"start", std::move(start)}, {"step", std::move(step)}, {"count", count}, {"dtype", dtype}})[0];
}

bool whole(double value) { return std::abs(value) < 9e18 && value == std::trunc(value); }

}  // namespace

Tensor full(const Shape& shape, double value, DType dtype) { return fill(shape, number_for(value, dtype), dtype); }
Tensor full_int(const Shape& shape, std::int64_t value, DType dtype) {
  // Formulas carry their constants in double: an integer that does not fit is data instead.
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  if (dtype == i64 && (value > kExact || value < -kExact)) return broadcast_to(tensor(value), shape);
  return fill(shape, number_for(value, dtype), dtype);
}
Tensor zeros(const Shape& shape, DType dtype) { return full_int(shape, 0, dtype); }
Tensor ones(const Shape& shape, DType dtype) { return full_int(shape, 1, dtype); }

Tensor arange(std::int64_t end) {
  if (end < 0) throw Error(cat("arange: an end of ", end, ": it must be 0 or more."));
  return iota(std::int64_t{0}, std::int64_t{1}, end, i64);
}

Tensor arange(double begin, double end, double step, DType dtype) {
  if (step == 0 || !std::isfinite(begin) || !std::isfinite(end) || !std::isfinite(step))
    throw Error(cat("arange: from ", begin, " to ", end, " by ", step,
                    ": the ends must be finite, and the step finite and not 0."));
  const double count = std::max(std::ceil((end - begin) / step), 0.0);
  if (!(count < kMostElements)) throw Error(cat("arange: from ", begin, " to ", end, " by ", step, " is too long."));
  const bool exact = !is_floating(dtype) && whole(begin) && whole(step);
  return iota(exact ? number_for(begin, dtype) : Attr(begin), exact ? number_for(step, dtype) : Attr(step),
              static_cast<std::int64_t>(count), dtype);
}

Tensor linspace(double begin, double end, std::int64_t count, DType dtype) {
  if (count < 0) throw Error(cat("linspace: a count of ", count, ": it must be 0 or more."));
  if (!std::isfinite(begin) || !std::isfinite(end))
    throw Error(cat("linspace: from ", begin, " to ", end, ": the ends must be finite."));
  if (count < 2) return iota(begin, 0.0, count, dtype);
  // Each end divided by itself: their difference might overflow.
  const double intervals = static_cast<double>(count - 1);
  const Tensor values = iota(begin, end / intervals - begin / intervals, count, dtype);
  return where(arange(count) == count - 1, full({}, end, dtype), values);  // the last one exactly
}

Tensor eye(std::int64_t n, DType dtype) {
  if (n < 0) throw Error(cat("eye: a size of ", n, ": it must be 0 or more."));
  const Tensor index = arange(n);
  return (expand_dims(index, 1) == index).to(dtype);
}

std::vector<const OpRecord*> create_ops() { return {&fill_op.record(), &iota_op.record()}; }

}  // namespace varve
