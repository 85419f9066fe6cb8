// The recurrent part of a layer, one direction: records that backends may claim whole, and that decompose into scan.
#pragma once

#include <vector>

#include "ops/batching.h"
#include "ops/shared.h"
#include "varve/ops.h"

namespace varve {

// pre [T,B,G·H] is the input's share of the gates, biases included; lengths may be undefined.
struct CellInputs {
  Tensor pre, hidden, hidden_bias, h0, c0, lengths;
  bool relu = false;
};
struct CellOutputs {
  Tensor y, h, c;
};
CellOutputs rnn_layer(const CellInputs& in);
CellOutputs lstm_layer(const CellInputs& in);
CellOutputs gru_layer(const CellInputs& in);

// ---- shared by the three cells

// True while a sequence still has steps: [B, 1] at step t (i64 scalar), or undefined when all have the same length.
Tensor active(const Tensor& lengths, const Tensor& t);
Tensor masked(const Tensor& active, const Tensor& then, const Tensor& otherwise);
// h before each step: h0, y[0], …, y[T-2].
Tensor before_steps(const Tensor& h0, const Tensor& y);
// Σ_t h_{t-1}ᵀ·d_t: one product over time and batch together      h0 [B,H], y [T,B,H], d [T,B,G·H]
Tensor hidden_gradient(const Tensor& h0, const Tensor& y, const Tensor& d);
// Gradients of a record's inputs through its decomposition, for what its own rule does not cover.
std::vector<Tensor> through_decomposition(const Vjp& v);
// The product with the hidden weights at every step, and each operand read or written once.
Cost recurrent_cost(const Call& call, const std::vector<TensorType>& out);

// Where a record has its operands: a sequence [T,B,…], hidden weights [H,G·H]; `inputs` in all, and lengths may follow.
struct CellOperands {
  std::size_t inputs = 0, sequence = 0, hidden = 0;
  std::int64_t gates = 1;
};
struct CellSizes {
  std::int64_t steps = 0, batch = 0, width = 0;  // T, B, H
  Shape state() const { return {batch, width}; }
  Shape over_time(std::int64_t parts) const { return {steps, batch, parts * width}; }
};
CellSizes check_cell(const Call& call, const CellOperands& place);
void check_operand(const Call& call, std::size_t input, const Shape& expected);

// Examples are more sequences, where they share what stands at `shared`: weights. Else the record decomposes.
std::optional<std::vector<Tensor>> batch_sequences(const Batching& call, const std::vector<std::size_t>& shared);
template <std::size_t... I>
std::optional<std::vector<Tensor>> batch_cell(const Batching& call) {
  return batch_sequences(call, {I...});
}

std::vector<const OpRecord*> lstm_ops();
std::vector<const OpRecord*> gru_ops();
std::vector<const OpRecord*> rnn_ops();
const OpRecord& scan_record();

}  // namespace varve
