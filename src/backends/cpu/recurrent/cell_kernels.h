// The pointwise halves of recurrent cells, f32: what happens between the matrix products of one time step. All arrays
// are contiguous; B is the batch, H the width of the state. Gates lie side by side within a row.
#pragma once

#include <cstdint>

namespace varve::cpu {

struct CellShape {
  std::int64_t batch = 0, width = 0;
};

// LSTM, gates in the order i, f, g, o; the forward pass is in lstm_step.h.
struct LstmBackward {
  const float* dh;      // [B, H]: from the output and from the next step together
  const float* dc;      // [B, H]: from the next step; null: 0
  const float* gates;   // [B, 4H]
  const float* c_prev;  // [B, H]
  const float* c;       // [B, H]
  float* dpre;          // [B, 4H]; may be gates
  float* dc_prev;       // [B, H]; may be dc
};
void lstm_cell_grad(const LstmBackward& cell, CellShape shape);

// GRU as in PyTorch and cuDNN, gates in the order r, z, n: n = tanh(x_n + r·h_n), h = (1 - z)·n + z·h_prev.
struct GruForward {
  const float* x_pre;   // [B, 3H]: W·x + b_x
  const float* h_pre;   // [B, 3H]: U·h + b_h
  const float* h_prev;  // [B, H]
  float* gates;         // [B, 4H]: r, z, n and h_n, for the gradient
  float* h;             // [B, H]; may be h_prev
};
struct GruBackward {
  const float* dh;      // [B, H]
  const float* gates;   // [B, 4H]
  const float* h_prev;  // [B, H]
  float* dx_pre;        // [B, 3H]
  float* dh_pre;        // [B, 3H]
  float* dh_prev;       // [B, H]: the direct part, z·dh; the product with U adds the rest. May be dh
};
void gru_cell(const GruForward& cell, CellShape shape);
void gru_cell_grad(const GruBackward& cell, CellShape shape);

// The plain cell: h = tanh(pre) or max(pre, 0). The gradient needs h alone.
enum class RnnActivation : std::uint8_t { tanh, relu };
void rnn_cell(RnnActivation activation, const float* pre, float* h, CellShape shape);
void rnn_cell_grad(RnnActivation activation, const float* dh, const float* h, float* dpre, CellShape shape);

}  // namespace varve::cpu
