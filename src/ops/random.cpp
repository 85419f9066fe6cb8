// Random numbers that are pure functions of (seed, stream, counter, index): recomputing repeats them. The stream names
// the place of use and is fixed; seed and counter are read when the program runs.
#include "base/philox.h"
#include "base/text.h"
#include "ops/batching.h"
#include "ops/families.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve {
namespace {

void check_state(const Call& call, std::size_t first) {
  for (std::size_t i = first; i < first + 2; ++i) {
    if (call.in[i] != TensorType{i64, {}})
      throw Error(cat(call.op.name, ": ", i == first ? "seed" : "counter", " must be an i64 scalar, got ",
                      call.in[i].str(), "."));
  }
  call.attrs.integer("stream");
}

std::vector<TensorType> real_shape(const Call& call) {
  check_state(call, 0);
  const DType dtype = call.attrs.dtype("dtype");
  // A draw is an f32: wider types hold it exactly, narrower ones need a choice of rounding.
  if (dtype != f32 && dtype != f64) throw Error(cat(call.op.name, ": draws f32 or f64, not ", dtype, "; cast them."));
  return {{dtype, Shape(call.attrs.ints("shape"))}};
}

std::vector<TensorType> bits_shape(const Call& call) {
  check_state(call, 0);
  if (call.attrs.dtype("dtype") != i64) throw Error("random_bits: draws i64.");
  return {{i64, Shape(call.attrs.ints("shape"))}};
}

double checked_rate(double rate) {
  if (!(rate >= 0 && rate < 1)) throw Error(cat("dropout: rate is ", rate, "; expected 0 or more, and less than 1."));
  return rate;
}

std::vector<TensorType> dropout_shape(const Call& call) {
  check_state(call, 1);
  checked_rate(call.attrs.number("rate"));
  if (!is_floating(call.in[0].dtype))
    throw Error(cat("dropout: needs floating-point values, got ", call.in[0].str(), "."));
  return {call.in[0]};
}

// Philox is some 20 integer operations a number.
Cost drawing_cost(const Call& call, const std::vector<TensorType>& out) {
  Cost cost{20 * static_cast<double>(out[0].shape.numel()), static_cast<double>(out[0].bytes())};
  for (const TensorType& type : call.in) cost.bytes += static_cast<double>(type.bytes());
  return cost;
}

// Numbers of its own for each call are one larger draw. The numbers that each call would draw alone come from its own
// seed and counter, one after the other.
std::optional<std::vector<Tensor>> batch_draw(const Batching& call) {
  if (!call.fresh || call.batched[0] || call.batched[1]) return batch_one_by_one(call);
  Attrs attrs = call.attrs;
  attrs.set("shape", shape_of_all(call, "shape"));
  return record(call.op, call.in, attrs);
}

std::optional<std::vector<Tensor>> batch_dropout(const Batching& call) {
  if (!call.fresh || call.batched[1] || call.batched[2]) return std::nullopt;
  return record(call.op, {call.batched[0] ? call.in[0] : spread(call.in[0], call.size), call.in[1], call.in[2]},
                call.attrs);
}

const OpDef uniform_op = define({.name = "random_uniform",
                                 .doc = "Uniform in [0, 1), from seed and counter.",
                                 .family = "random",
                                 .arity = 2,
                                 .shape = real_shape,
                                 .cost = drawing_cost,
                                 .batching = batch_draw,
                                 .differentiable = false,
                                 .random = true});
const OpDef normal_op = define({.name = "random_normal",
                                .doc = "Normal with mean 0 and deviation 1, from seed and counter.",
                                .family = "random",
                                .arity = 2,
                                .shape = real_shape,
                                .cost = drawing_cost,
                                .batching = batch_draw,
                                .differentiable = false,
                                .random = true});
const OpDef bits_op = define({.name = "random_bits",
                              .doc = "Integers in [0, 2³²), from seed and counter.",
                              .family = "random",
                              .arity = 2,
                              .shape = bits_shape,
                              .cost = drawing_cost,
                              .batching = batch_draw,
                              .differentiable = false,
                              .random = true});

// Numbers of stream, seed and counter in a shape.
struct Source {
  Tensor seed, counter;
  std::int64_t stream;
};

Source source(const RandomOptions& options, const char* op) {
  Tensor counter = options.counter.defined() ? options.counter : full_int({}, 0, i64);
  if (counter.dtype() == i32) counter = counter.to(i64);
  if (counter.type() != TensorType{i64, {}})
    throw Error(cat(op, ": the counter must be an i64 scalar, got ", counter.type().str(), "."));
  return {full_int({}, options.seed, i64), counter, static_cast<std::int64_t>(stream_id(options.stream))};
}

Tensor draw(const OpDef& op, const Shape& shape, const Source& from, DType dtype) {
  return record(op.record(), {from.seed, from.counter},
                {{"stream", from.stream}, {"shape", shape}, {"dtype", dtype}})[0];
}

void check_floating(DType dtype, const char* op) {
  if (!is_floating(dtype)) throw Error(cat(op, ": draws floating-point numbers, not ", dtype, "."));
}

std::vector<Tensor> dropout_by_mask(const std::vector<Tensor>& in, const Attrs& attrs) {
  const double rate = attrs.number("rate");
  const Tensor chance = draw(uniform_op, in[0].shape(), {in[1], in[2], attrs.integer("stream")}, f32);
  return {where(chance >= rate, in[0] / (1 - rate), 0)};
}

// The same mask, drawn again, on dy.
std::vector<Tensor> dropout_vjp(const Vjp& v) { return {record(v.op, {v.dy, v.in[1], v.in[2]}, v.attrs)[0], {}, {}}; }

const OpDef dropout_op = define({.name = "dropout",
                                 .doc = "Zero with probability rate, else x / (1 - rate); from seed and counter.",
                                 .family = "random",
                                 .arity = 3,
                                 .shape = dropout_shape,
                                 .gradient = dropout_vjp,
                                 .decompose = dropout_by_mask,
                                 .cost = drawing_cost,
                                 .batching = batch_dropout,
                                 .random = true,
                                 .in_place = {{0, 0}}});

}  // namespace

std::vector<const OpRecord*> random_ops() {
  return {&uniform_op.record(), &normal_op.record(), &bits_op.record(), &dropout_op.record()};
}

Tensor uniform(const Shape& shape, const RandomOptions& options) {
  check_floating(options.dtype, "uniform");
  const Tensor drawn = draw(uniform_op, shape, source(options, "uniform"), options.dtype == f64 ? f64 : f32);
  if (options.dtype == f32 || options.dtype == f64) return drawn;
  // Rounding to nearest could give 1: keep as many bits as the type holds below 1, so that the conversion is exact.
  const double steps = options.dtype == f16 ? 0x1p11 : 0x1p8;
  return (floor(drawn * steps) * (1 / steps)).to(options.dtype);
}

Tensor normal(const Shape& shape, const RandomOptions& options) {
  check_floating(options.dtype, "normal");
  return draw(normal_op, shape, source(options, "normal"), options.dtype == f64 ? f64 : f32).to(options.dtype);
}

Tensor bernoulli(const Shape& shape, const Operand& probability, const RandomOptions& options) {
  if (!probability.is_number() && broadcast(shape, probability.tensor().shape(), "bernoulli") != shape)
    throw Error(
        cat("bernoulli: probabilities of shape ", probability.tensor().shape(), " do not broadcast to ", shape, "."));
  return draw(uniform_op, shape, source(options, "bernoulli"), f32) < probability;
}

// Sorting by 32 random bits; equal ones, rare below some ten thousand elements, keep their order.
Tensor permutation(std::int64_t n, const RandomOptions& options) {
  if (n < 0) throw Error(cat("permutation: of ", n, " elements."));
  return argsort(draw(bits_op, {n}, source(options, "permutation"), i64));
}

Tensor dropout(const Tensor& x, double rate, const RandomOptions& options) {
  if (checked_rate(rate) == 0) return x;
  const Source from = source(options, "dropout");
  return record(dropout_op.record(), {x, from.seed, from.counter}, {{"rate", rate}, {"stream", from.stream}})[0];
}

// By a product in f64: no number of a range of up to 2³¹ is likelier than another by more than 2⁻³².
Tensor integers(const Shape& shape, std::int64_t low, std::int64_t high, const RandomOptions& options) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (low >= high) throw Error(cat("integers: from ", low, " up to ", high, " there are none; expected low < high."));
  if (high > kMost || low < -kMost || high - low > kMost)
    throw Error(cat("integers: from ", low, " up to ", high, ": expected at most 2³¹ numbers between -2³¹ and 2³¹."));
  const Tensor bits = draw(bits_op, shape, source(options, "integers"), i64);
  return floor(bits.to(f64) * (static_cast<double>(high - low) * 0x1p-32)).to(i64) + low;
}

// The largest of logits + Gumbel's noise, -log(-log u).
Tensor categorical(const Tensor& logits, const RandomOptions& options) {
  if (logits.rank() < 1 || !is_floating(logits.dtype()))
    throw Error(cat("categorical: needs floating-point logits [.., classes], got ", logits.type().str(), "."));
  if (logits.dim(-1) < 1) throw Error(cat("categorical: no class to draw from, logits are ", logits.type().str(), "."));
  const DType dtype = logits.dtype() == f64 ? f64 : f32;
  const Tensor u = draw(uniform_op, logits.shape(), source(options, "categorical"), dtype);
  // u may be 0, and never 1: the noise is then the least there is.
  return argmax(logits.to(dtype) - log(-log(maximum(u, dtype == f64 ? 0x1p-53 : 0x1p-25))), -1);
}

Generator::Generator(std::int64_t seed) : seed_(seed), drawn_("generator", full_int({}, 0, i64), false) {}

RandomOptions Generator::next() {
  const Tensor counter = drawn_.value();
  drawn_.assign(counter + 1);
  return {.seed = seed_, .stream = "generator", .counter = counter};
}

void Generator::reset(std::int64_t drawn) { drawn_.assign(full_int({}, drawn, i64)); }

Tensor Generator::uniform(const Shape& shape, DType dtype) {
  RandomOptions options = next();
  options.dtype = dtype;
  return varve::uniform(shape, options);
}
Tensor Generator::normal(const Shape& shape, DType dtype) {
  RandomOptions options = next();
  options.dtype = dtype;
  return varve::normal(shape, options);
}
Tensor Generator::bernoulli(const Shape& shape, const Operand& probability) {
  return varve::bernoulli(shape, probability, next());
}
Tensor Generator::permutation(std::int64_t n) { return varve::permutation(n, next()); }
Tensor Generator::integers(const Shape& shape, std::int64_t low, std::int64_t high) {
  return varve::integers(shape, low, high, next());
}
Tensor Generator::categorical(const Tensor& logits) { return varve::categorical(logits, next()); }

}  // namespace varve
