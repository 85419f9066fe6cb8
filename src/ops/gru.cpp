// The recurrent part of a GRU layer. Gates in the order r, z, n; n = tanh(pre_n + r·(h·W_n + b_n)), h' = (1 − z)·n +
// z·h.
#include "base/text.h"
#include "ops/recurrent.h"
#include "tensor/record.h"
#include "varve/error.h"

namespace varve {
namespace {

// Inputs: pre [T,B,3H], hidden [H,3H], h0 [B,H], hidden_bias [3H], lengths [B] when there are some.
// Outputs: y [T,B,H], h [B,H]; then r, z, n and the hidden share of n before r, side by side [T,B,4H].
std::vector<TensorType> gru_shape(const Call& call) {
  const CellSizes sizes = check_cell(call, {.inputs = 4, .sequence = 0, .hidden = 1, .gates = 3});
  check_operand(call, 0, sizes.over_time(3));
  check_operand(call, 2, sizes.state());
  check_operand(call, 3, {3 * sizes.width});
  const DType dtype = call.in[0].dtype;
  return {{dtype, sizes.over_time(1)}, {dtype, sizes.state()}, {dtype, sizes.over_time(4)}};
}

std::vector<Tensor> gru_decompose(const std::vector<Tensor>& in, const Attrs&) {
  const Tensor hidden = in[1], bias = in[3], lengths = in.size() > 4 ? in[4] : Tensor();
  const auto body = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& x) {
    const Tensor& h = carry[0];
    const std::vector<Tensor> a = split(x[0], 3, -1), b = split(matmul(h, hidden) + bias, 3, -1);
    const Tensor r = sigmoid(a[0] + b[0]), z = sigmoid(a[1] + b[1]), n = tanh(a[2] + r * b[2]);
    const Tensor next = (1 - z) * n + z * h;
    const Tensor on = active(lengths, x[1]);
    return ScanStep{{masked(on, next, h)},
                    {masked(on, next, zeros(h.shape(), h.dtype())), concat({r, z, n, b[2]}, -1)}};
  };
  const ScanResult result = scan(body, {in[2]}, {in[0], arange(in[0].dim(0))});
  return {result.out[0], result.carry[0], result.out[1]};
}

// Inputs: hidden, h0, y, gates, dy, dh, lengths when there are some.
// Outputs: dpre [T,B,3H], the gradient of h·W + b [T,B,3H], dh0.
std::vector<TensorType> gru_grad_shape(const Call& call) {
  const CellSizes sizes = check_cell(call, {.inputs = 6, .sequence = 3, .hidden = 0, .gates = 3});
  check_operand(call, 3, sizes.over_time(4));
  for (const std::size_t series : {2, 4}) check_operand(call, series, sizes.over_time(1));
  for (const std::size_t state : {1, 5}) check_operand(call, state, sizes.state());
  const TensorType three{call.in[0].dtype, sizes.over_time(3)};
  return {three, three, call.in[1]};
}

std::vector<Tensor> gru_grad_decompose(const std::vector<Tensor>& in, const Attrs&) {
  const Tensor hidden = in[0], lengths = in.size() > 6 ? in[6] : Tensor();
  const auto body = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& x) {
    const Tensor on = active(lengths, x[3]);
    const std::vector<Tensor> gates = split(x[0], 4, -1);
    const Tensor &r = gates[0], &z = gates[1], &n = gates[2], &share = gates[3], &h = x[1];
    const Tensor dh = carry[0] + x[2];
    const Tensor dn = dh * (1 - z) * (1 - n * n), dz = dh * (h - n) * z * (1 - z), dr = dn * share * r * (1 - r);
    const auto off = [&](const Tensor& d) { return masked(on, d, zeros(d.shape(), d.dtype())); };
    const Tensor dpre = off(concat({dr, dz, dn}, -1)), dshare = off(concat({dr, dz, dn * r}, -1));
    const Tensor before = dh * z + matmul(dshare, hidden, {.transpose_b = true});
    return ScanStep{{masked(on, before, carry[0])}, {dpre, dshare}};
  };
  const ScanResult result =
      scan(body, {in[5]}, {in[3], before_steps(in[1], in[2]), in[4], arange(in[3].dim(0))}, {.reverse = true});
  return {result.out[0], result.out[1], result.carry[0]};
}

const OpDef gru_grad_op =
    define({.name = "gru_grad",
            .doc = "Gradient of gru with respect to its gates, their hidden share and the first state.",
            .family = "recurrent",
            .arity = -1,
            .shape = gru_grad_shape,
            .decompose = gru_grad_decompose,
            .cost = recurrent_cost,
            .batching = batch_cell<0>});

std::vector<Tensor> gru_gradient(const Vjp& v) {
  if (v.dys[2].defined()) return through_decomposition(v);  // a gradient of the gradient
  std::vector<Tensor> in{v.in[1], v.in[2], v.out[0], v.out[2], flowing(v, 0), flowing(v, 1)};
  if (v.in.size() > 4) in.push_back(v.in[4]);
  const std::vector<Tensor> pulled = gru_grad_op.call(in);
  std::vector<Tensor> grads{pulled[0], hidden_gradient(v.in[2], v.out[0], pulled[1]), pulled[2],
                            sum(pulled[1], {.axes = Axes{0, 1}})};
  grads.resize(v.in.size());
  return grads;
}

const OpDef gru_op = define({.name = "gru",
                             .doc = "Gated recurrent unit over a sequence, from the input's share of the gates.",
                             .family = "recurrent",
                             .arity = -1,
                             .shape = gru_shape,
                             .gradient = gru_gradient,
                             .decompose = gru_decompose,
                             .cost = recurrent_cost,
                             .batching = batch_cell<1, 3>});

}  // namespace

CellOutputs gru_layer(const CellInputs& in) {
  std::vector<Tensor> inputs{in.pre, in.hidden, in.h0, in.hidden_bias};
  if (in.lengths.defined()) inputs.push_back(in.lengths);
  const std::vector<Tensor> out = gru_op.call(inputs);
  return {out[0], out[1], {}};
}

std::vector<const OpRecord*> gru_ops() { return {&gru_op.record(), &gru_grad_op.record()}; }

}  // namespace varve
