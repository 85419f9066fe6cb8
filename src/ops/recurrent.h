// The recurrent part of a layer, one direction: records that backends may claim whole, and that decompose into scan.
#pragma once

#include <vector>

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
// Gradients of a record's inputs through its decomposition, for what its own rule does not cover.
std::vector<Tensor> through_decomposition(const Vjp& v);
void check_cell(const Call& call, std::int64_t gates, std::int64_t states);

std::vector<const OpRecord*> lstm_ops();
std::vector<const OpRecord*> gru_ops();
std::vector<const OpRecord*> rnn_ops();
const OpRecord& scan_record();

}  // namespace varve
