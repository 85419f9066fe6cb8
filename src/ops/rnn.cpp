// The recurrent part of a plain RNN layer: h' = tanh(pre + h·W), or relu.
#include "base/text.h"
#include "ops/recurrent.h"
#include "tensor/record.h"

namespace varve {
namespace {

// Inputs: pre [T,B,H], hidden [H,H], h0 [B,H], lengths [B] when there are some. Outputs: y [T,B,H], h [B,H].
std::vector<TensorType> rnn_shape(const Call& call) {
  const CellSizes sizes = check_cell(call, {.inputs = 3, .sequence = 0, .hidden = 1, .gates = 1});
  check_operand(call, 0, sizes.over_time(1));
  check_operand(call, 2, sizes.state());
  return {call.in[0], call.in[2]};
}

std::vector<Tensor> rnn_decompose(const std::vector<Tensor>& in, const Attrs& attrs) {
  const Tensor hidden = in[1], lengths = in.size() > 3 ? in[3] : Tensor();
  const bool rectified = attrs.flag("relu");
  const auto body = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& x) {
    const Tensor raw = x[0] + matmul(carry[0], hidden);
    const Tensor next = rectified ? relu(raw) : tanh(raw);
    const Tensor on = active(lengths, x[1]);
    return ScanStep{{masked(on, next, carry[0])}, {masked(on, next, zeros(next.shape(), next.dtype()))}};
  };
  const ScanResult r = scan(body, {in[2]}, {in[0], arange(in[0].dim(0))});
  return {r.out[0], r.carry[0]};
}

// Inputs: hidden, y, dy, dh, lengths when there are some. Outputs: dpre [T,B,H], dh0.
std::vector<TensorType> rnn_grad_shape(const Call& call) {
  const CellSizes sizes = check_cell(call, {.inputs = 4, .sequence = 1, .hidden = 0, .gates = 1});
  for (const std::size_t series : {1, 2}) check_operand(call, series, sizes.over_time(1));
  check_operand(call, 3, sizes.state());
  return {call.in[1], call.in[3]};
}

std::vector<Tensor> rnn_grad_decompose(const std::vector<Tensor>& in, const Attrs& attrs) {
  const Tensor hidden = in[0], lengths = in.size() > 4 ? in[4] : Tensor();
  const bool rectified = attrs.flag("relu");
  const auto body = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& x) {
    const Tensor on = active(lengths, x[2]);
    const Tensor dh = carry[0] + x[1];
    const Tensor draw = rectified ? where(x[0] > 0, dh, 0) : dh * (1 - x[0] * x[0]);
    const Tensor dpre = masked(on, draw, zeros(draw.shape(), draw.dtype()));
    return ScanStep{{masked(on, matmul(dpre, hidden, {.transpose_b = true}), carry[0])}, {dpre}};
  };
  const ScanResult r = scan(body, {in[3]}, {in[1], in[2], arange(in[1].dim(0))}, {.reverse = true});
  return {r.out[0], r.carry[0]};
}

const OpDef rnn_grad_op = define({.name = "rnn_grad",
                                  .doc = "Gradient of rnn with respect to its input share and first state.",
                                  .family = "recurrent",
                                  .arity = -1,
                                  .shape = rnn_grad_shape,
                                  .decompose = rnn_grad_decompose,
                                  .cost = recurrent_cost,
                                  .batching = batch_cell<0>});

std::vector<Tensor> rnn_gradient(const Vjp& v) {
  std::vector<Tensor> in{v.in[1], v.out[0], flowing(v, 0), flowing(v, 1)};
  if (v.in.size() > 3) in.push_back(v.in[3]);
  const std::vector<Tensor> pulled = rnn_grad_op.call(in, v.attrs);
  std::vector<Tensor> grads{pulled[0], hidden_gradient(v.in[2], v.out[0], pulled[0]), pulled[1]};
  grads.resize(v.in.size());
  return grads;
}

const OpDef rnn_op = define({.name = "rnn",
                             .doc = "Plain recurrence over a sequence, tanh or relu, from the input's share.",
                             .family = "recurrent",
                             .arity = -1,
                             .shape = rnn_shape,
                             .gradient = rnn_gradient,
                             .decompose = rnn_decompose,
                             .cost = recurrent_cost,
                             .batching = batch_cell<1>});

}  // namespace

CellOutputs rnn_layer(const CellInputs& in) {
  std::vector<Tensor> inputs{in.pre, in.hidden, in.h0};
  if (in.lengths.defined()) inputs.push_back(in.lengths);
  const std::vector<Tensor> out = rnn_op.call(inputs, {{"relu", in.relu}});
  return {out[0], out[1], {}};
}

std::vector<const OpRecord*> rnn_ops() { return {&rnn_op.record(), &rnn_grad_op.record()}; }

}  // namespace varve
