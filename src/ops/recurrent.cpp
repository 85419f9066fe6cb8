// Recurrent layers over a sequence: several layers, both directions, variable lengths.
#include "ops/recurrent.h"

#include <algorithm>

#include "base/text.h"
#include "ops/families.h"
#include "tensor/record.h"
#include "varve/autodiff.h"
#include "varve/error.h"

namespace varve {

Tensor active(const Tensor& lengths, const Tensor& t) {
  if (!lengths.defined()) return {};
  return expand_dims(t.to(lengths.dtype()) < lengths, 1);
}

Tensor masked(const Tensor& on, const Tensor& then, const Tensor& otherwise) {
  return on.defined() ? where(on, then, otherwise) : then;
}

Tensor before_steps(const Tensor& h0, const Tensor& y) {
  if (y.dim(0) == 0) return y;
  return concat({expand_dims(h0, 0), y.slice({{0, y.dim(0) - 1}})}, 0);
}

Tensor hidden_gradient(const Tensor& h0, const Tensor& y, const Tensor& d) {
  const std::int64_t steps = d.dim(0), width = h0.dim(1), columns = d.dim(2);
  if (steps == 0) return zeros({width, columns}, d.dtype());
  const auto product = [&](const Tensor& h, const Tensor& part) {
    return matmul(reshape(h, {part.dim(0) * part.dim(1), width}), reshape(part, {part.dim(0) * part.dim(1), columns}),
                  {.transpose_a = true});
  };
  // Views of y and d instead of a copy of y with h0 before it, which is as large as y.
  const Tensor first = product(h0, d.slice({{0, 1}}));
  if (steps == 1) return first;
  const Tensor rest = product(y.slice({{0, steps - 1}}), d.slice({{1, steps}}));
  const bool from_zero = h0.node()->is("fill") && h0.node()->attrs.number("value") == 0;
  return from_zero ? rest : first + rest;
}

std::vector<Tensor> through_decomposition(const Vjp& v) {
  std::vector<Tensor> marked;
  for (const Tensor& input : v.in) marked.push_back(identity(input));
  const std::vector<Tensor> outputs = v.op.decompose(marked, v.attrs);
  std::vector<Tensor> ends, seeds, wrt;
  for (std::size_t o = 0; o < outputs.size(); ++o)
    if (v.dys[o].defined()) {
      ends.push_back(outputs[o]);
      seeds.push_back(v.dys[o]);
    }
  for (std::size_t i = 0; i < marked.size(); ++i)
    if (v.needs[i]) wrt.push_back(marked[i]);
  const std::vector<Tensor> found = gradients(ends, seeds, wrt);
  std::vector<Tensor> grads(v.in.size());
  for (std::size_t i = 0, next = 0; i < grads.size(); ++i)
    if (v.needs[i]) grads[i] = found[next++];
  return grads;
}

std::optional<std::vector<Tensor>> batch_sequences(const Batching& call, const std::vector<std::size_t>& shared) {
  std::vector<Tensor> in = all_batched(call);
  for (const std::size_t i : shared) {
    if (call.batched[i]) return std::nullopt;
    in[i] = call.in[i];
  }
  // [n, T, B, ..] as [T, n·B, ..]; states and lengths [n, B, ..] as [n·B, ..]
  std::int64_t batch = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (std::find(shared.begin(), shared.end(), i) != shared.end()) continue;
    const int axis = in[i].rank() == 4 ? 1 : 0;
    const Tensor beside = with_axis_at(in[i], 0, axis);
    Ints sizes = beside.shape().vec();
    batch = sizes[at(axis) + 1];
    sizes.erase(sizes.begin() + axis);
    sizes[at(axis)] = call.size * batch;
    in[i] = reshape(beside, Shape(std::move(sizes)));
  }
  std::vector<Tensor> out = record(call.op, in, call.attrs);
  for (Tensor& y : out) {
    const int axis = y.rank() == 3 ? 1 : 0;
    Ints sizes = y.shape().vec();
    sizes[at(axis)] = batch;
    sizes.insert(sizes.begin() + axis, call.size);
    y = with_axis_at(reshape(y, Shape(std::move(sizes))), axis, 0);
  }
  return out;
}

Cost recurrent_cost(const Call& call, const std::vector<TensorType>& out) {
  const Shape &results = out[0].shape, &hidden = call.in[call.in[0].shape.rank() == 2 ? 0 : 1].shape;
  Cost cost{
      2.0 * static_cast<double>(results[0]) * static_cast<double>(results[1]) * static_cast<double>(hidden.numel()), 0};
  for (const TensorType& type : call.in) cost.bytes += static_cast<double>(type.bytes());
  for (const TensorType& type : out) cost.bytes += static_cast<double>(type.bytes());
  return cost;
}

CellSizes check_cell(const Call& call, const CellOperands& place) {
  const std::string& name = call.op.name;
  if (call.in.size() != place.inputs && call.in.size() != place.inputs + 1)
    throw Error(cat(name, ": expected ", place.inputs, " inputs, and lengths or none, got ", call.in.size(), "."));
  const DType dtype = call.in[0].dtype;
  for (std::size_t i = 0; i < place.inputs; ++i)
    if (call.in[i].dtype != dtype || !is_floating(dtype))
      throw Error(cat(name, ": expected floating-point inputs of one type, got ", call.in[0].str(), " and ",
                      call.in[i].str(), "."));
  const Shape &sequence = call.in[place.sequence].shape, &hidden = call.in[place.hidden].shape;
  if (sequence.rank() != 3)
    throw Error(cat(name, ": expected gates [T, B, ", place.gates, "·H], got ", sequence.str(), "."));
  if (hidden.rank() != 2 || hidden[1] / place.gates != hidden[0] || hidden[1] % place.gates != 0)
    throw Error(cat(name, ": expected hidden weights [H, ", place.gates, "·H], got ", hidden.str(), "."));
  const CellSizes sizes{sequence[0], sequence[1], hidden[0]};
  if (call.in.size() == place.inputs) return sizes;
  const TensorType& lengths = call.in.back();
  if (lengths.shape != Shape{sizes.batch} || !is_integer(lengths.dtype))
    throw Error(
        cat(name, ": expected integer lengths of shape ", Shape{sizes.batch}.str(), ", got ", lengths.str(), "."));
  return sizes;
}

void check_operand(const Call& call, std::size_t input, const Shape& expected) {
  if (call.in[input].shape != expected)
    throw Error(cat(call.op.name, ": expected input ", input, " of shape ", expected.str(), ", got ",
                    call.in[input].shape.str(), "."));
}

namespace {

using Cell = CellOutputs (*)(const CellInputs&);

struct Kind {
  const char* name;
  std::int64_t gates;
  Cell cell;
  bool has_c;
};

void check_call(const Kind& kind, const Tensor& x, const std::vector<RecurrentWeights>& layers,
                const RecurrentOptions& options) {
  if (x.rank() != 3) throw Error(cat(kind.name, ": expected x [T, B, I], got shape ", x.shape().str(), "."));
  const std::size_t directions = options.bidirectional ? 2 : 1;
  if (layers.empty() || layers.size() % directions)
    throw Error(cat(kind.name, ": expected weights for each layer", options.bidirectional ? " and direction" : "",
                    ", got ", layers.size(), "."));
  for (const auto* states : {&options.h0, &options.c0})
    if (!states->empty() && states->size() != layers.size())
      throw Error(cat(kind.name, ": expected ", layers.size(), " initial states, got ", states->size(), "."));
  if (options.lengths.defined() && (options.lengths.shape() != Shape{x.dim(1)} || !is_integer(options.lengths.dtype())))
    throw Error(cat(kind.name, ": expected integer lengths of shape ", Shape{x.dim(1)}.str(), ", got ",
                    options.lengths.type().str(), "."));
}

// The lengths, checked wherever their values come from: a look-up in 0 … T notes what is out of range.
Tensor checked_lengths(const Kind& kind, const Tensor& lengths, std::int64_t steps) {
  if (!lengths.defined()) return {};
  if (!tracing() && lengths.ready())
    for (const std::int64_t length : lengths.to(i64).to_vector<std::int64_t>())
      if (length < 0 || length > steps)
        throw Error(cat(kind.name, ": a length is out of range [0, ", steps, "], the steps of the sequence. Got ",
                        length, "."));
  return gather(arange(steps + 1), lengths.to(i64), 0);
}

// Each sequence reversed within its own length.
Tensor reversed(const Tensor& x, const Tensor& lengths) {
  if (!lengths.defined()) return flip(x, {0});
  const std::int64_t steps = x.dim(0);
  const Tensor t = expand_dims(arange(steps), 1), n = expand_dims(lengths, 0);
  const Tensor from = where(t < n, n - 1 - t, t);  // [T, B]: padding stays where it is
  Shape shape = x.shape();
  const Tensor index = broadcast_to(expand_dims(from, 2), shape);
  return take_along_axis(x, index, 0);
}

CellOutputs run_direction(const Kind& kind, const Tensor& x, const RecurrentWeights& w, const RecurrentOptions& options,
                          std::size_t which, bool backward) {
  if (w.hidden.rank() != 2)
    throw Error(cat(kind.name, ": expected hidden weights [H, ", kind.gates, "·H], got ", w.hidden.shape().str(), "."));
  const Shape state{x.dim(1), w.hidden.dim(0)};
  CellInputs in;
  in.pre = linear(backward ? reversed(x, options.lengths) : x, w.input, w.bias);
  in.hidden = w.hidden;
  in.hidden_bias = w.hidden_bias.defined() ? w.hidden_bias : zeros({w.hidden.dim(1)}, x.dtype());
  in.h0 = options.h0.empty() ? zeros(state, x.dtype()) : options.h0[which];
  if (kind.has_c) in.c0 = options.c0.empty() ? zeros(state, x.dtype()) : options.c0[which];
  in.lengths = options.lengths;
  in.relu = options.relu;
  CellOutputs out = kind.cell(in);
  if (backward) out.y = reversed(out.y, options.lengths);
  return out;
}

RecurrentResult run(const Kind& kind, const Tensor& x, const std::vector<RecurrentWeights>& layers,
                    const RecurrentOptions& given) {
  check_call(kind, x, layers, given);
  RecurrentOptions options = given;
  options.lengths = checked_lengths(kind, given.lengths, x.dim(0));
  RecurrentResult result;
  Tensor y = x;
  const std::size_t directions = options.bidirectional ? 2 : 1;
  for (std::size_t layer = 0; layer < layers.size(); layer += directions) {
    std::vector<Tensor> sides;
    for (std::size_t d = 0; d < directions; ++d) {
      CellOutputs out = run_direction(kind, y, layers[layer + d], options, layer + d, d == 1);
      sides.push_back(out.y);
      result.h.push_back(out.h);
      if (kind.has_c) result.c.push_back(out.c);
    }
    y = directions == 2 ? concat(sides, 2) : sides[0];
  }
  result.y = y;
  return result;
}

}  // namespace

RecurrentResult rnn(const Tensor& x, const std::vector<RecurrentWeights>& layers, const RecurrentOptions& options) {
  return run({"rnn", 1, rnn_layer, false}, x, layers, options);
}
RecurrentResult lstm(const Tensor& x, const std::vector<RecurrentWeights>& layers, const RecurrentOptions& options) {
  return run({"lstm", 4, lstm_layer, true}, x, layers, options);
}
RecurrentResult gru(const Tensor& x, const std::vector<RecurrentWeights>& layers, const RecurrentOptions& options) {
  return run({"gru", 3, gru_layer, false}, x, layers, options);
}

std::vector<const OpRecord*> recurrent_ops() {
  std::vector<const OpRecord*> all{&scan_record()};
  for (const auto& family : {rnn_ops(), lstm_ops(), gru_ops()}) all.insert(all.end(), family.begin(), family.end());
  return all;
}

}  // namespace varve
