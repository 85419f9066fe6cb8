// The recurrent part of an LSTM layer. Gates in the order i, f, g, o; c' = f·c + i·g, h' = o·tanh(c').
#include "base/text.h"
#include "ops/recurrent.h"
#include "tensor/record.h"

namespace varve {
namespace {

// Inputs: pre [T,B,4H], hidden [H,4H], h0, c0 [B,H], lengths [B] when there are some.
// Outputs: y [T,B,H], h, c [B,H]; then what the gradient needs: gates after activation [T,B,4H], cells [T,B,H].
std::vector<TensorType> lstm_shape(const Call& call) {
  const CellSizes sizes = check_cell(call, {.inputs = 4, .sequence = 0, .hidden = 1, .gates = 4});
  check_operand(call, 0, sizes.over_time(4));
  for (const std::size_t state : {2, 3}) check_operand(call, state, sizes.state());
  const DType dtype = call.in[0].dtype;
  return {{dtype, sizes.over_time(1)},
          {dtype, sizes.state()},
          {dtype, sizes.state()},
          {dtype, sizes.over_time(4)},
          {dtype, sizes.over_time(1)}};
}

std::vector<Tensor> quarters(const Tensor& gates) { return split(gates, 4, -1); }

std::vector<Tensor> lstm_decompose(const std::vector<Tensor>& in, const Attrs&) {
  const Tensor hidden = in[1], lengths = in.size() > 4 ? in[4] : Tensor();
  const auto body = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& x) {
    const Tensor &h = carry[0], &c = carry[1];
    const std::vector<Tensor> raw = quarters(x[0] + matmul(h, hidden));
    const Tensor i = sigmoid(raw[0]), f = sigmoid(raw[1]), g = tanh(raw[2]), o = sigmoid(raw[3]);
    const Tensor next_c = f * c + i * g, next_h = o * tanh(next_c);
    const Tensor on = active(lengths, x[1]);
    const Tensor kept_h = masked(on, next_h, h), kept_c = masked(on, next_c, c);
    return ScanStep{{kept_h, kept_c},
                    {masked(on, next_h, zeros(h.shape(), h.dtype())), concat({i, f, g, o}, -1), kept_c}};
  };
  const ScanResult r = scan(body, {in[2], in[3]}, {in[0], arange(in[0].dim(0))});
  return {r.out[0], r.carry[0], r.carry[1], r.out[1], r.out[2]};
}

// Inputs: hidden, c0, gates, cells, dy, dh, dc, lengths when there are some. Outputs: dpre [T,B,4H], dh0, dc0.
std::vector<TensorType> lstm_grad_shape(const Call& call) {
  const CellSizes sizes = check_cell(call, {.inputs = 7, .sequence = 2, .hidden = 0, .gates = 4});
  check_operand(call, 2, sizes.over_time(4));
  for (const std::size_t series : {3, 4}) check_operand(call, series, sizes.over_time(1));
  for (const std::size_t state : {1, 5, 6}) check_operand(call, state, sizes.state());
  return {call.in[2], call.in[1], call.in[1]};
}

std::vector<Tensor> lstm_grad_decompose(const std::vector<Tensor>& in, const Attrs&) {
  const Tensor hidden = in[0], lengths = in.size() > 7 ? in[7] : Tensor();
  const Tensor c_before = before_steps(in[1], in[3]);
  const auto body = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& x) {
    const Tensor on = active(lengths, x[4]);
    const std::vector<Tensor> gates = quarters(x[0]);
    const Tensor &i = gates[0], &f = gates[1], &g = gates[2], &o = gates[3];
    const Tensor tanh_c = tanh(x[2]), dh = carry[0] + x[3];
    const Tensor dc = carry[1] + dh * o * (1 - tanh_c * tanh_c);
    const Tensor draw =
        concat({dc * g * i * (1 - i), dc * x[1] * f * (1 - f), dc * i * (1 - g * g), dh * tanh_c * o * (1 - o)}, -1);
    const Tensor dpre = masked(on, draw, zeros(draw.shape(), draw.dtype()));
    const Tensor dh_before = masked(on, matmul(dpre, hidden, {.transpose_b = true}), carry[0]);
    return ScanStep{{dh_before, masked(on, dc * f, carry[1])}, {dpre}};
  };
  const ScanResult r =
      scan(body, {in[5], in[6]}, {in[2], c_before, in[3], in[4], arange(in[2].dim(0))}, {.reverse = true});
  return {r.out[0], r.carry[0], r.carry[1]};
}

const OpDef lstm_grad_op = define({.name = "lstm_grad",
                                   .doc = "Gradient of lstm with respect to its gates and first states.",
                                   .family = "recurrent",
                                   .arity = -1,
                                   .shape = lstm_grad_shape,
                                   .decompose = lstm_grad_decompose,
                                   .cost = recurrent_cost,
                                   .batching = batch_cell<0>});

std::vector<Tensor> lstm_gradient(const Vjp& v) {
  if (v.dys[3].defined() || v.dys[4].defined()) return through_decomposition(v);  // a gradient of the gradient
  std::vector<Tensor> in{v.in[1], v.in[3], v.out[3], v.out[4], flowing(v, 0), flowing(v, 1), flowing(v, 2)};
  if (v.in.size() > 4) in.push_back(v.in[4]);
  const std::vector<Tensor> pulled = lstm_grad_op.call(in);
  std::vector<Tensor> grads{pulled[0], hidden_gradient(v.in[2], v.out[0], pulled[0]), pulled[1], pulled[2]};
  grads.resize(v.in.size());
  return grads;
}

const OpDef lstm_op = define({.name = "lstm",
                              .doc = "Long short-term memory over a sequence, from the input's share of the gates.",
                              .family = "recurrent",
                              .arity = -1,
                              .shape = lstm_shape,
                              .gradient = lstm_gradient,
                              .decompose = lstm_decompose,
                              .cost = recurrent_cost,
                              .batching = batch_cell<1>});

}  // namespace

CellOutputs lstm_layer(const CellInputs& in) {
  std::vector<Tensor> inputs{in.pre, in.hidden, in.h0, in.c0};
  if (in.lengths.defined()) inputs.push_back(in.lengths);
  const std::vector<Tensor> out = lstm_op.call(inputs);
  return {out[0], out[1], out[2]};
}

std::vector<const OpRecord*> lstm_ops() { return {&lstm_op.record(), &lstm_grad_op.record()}; }

}  // namespace varve
