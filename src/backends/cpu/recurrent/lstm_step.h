// One step of an LSTM for a block of sequences, f32: products, gates and states in one pass. The sums of a few rows and
// units go straight through their activations, and the gates, wider than all the rest, are written once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/matmul/gemm/panels.h"

namespace varve::cpu {

// A left operand [rows, K] and the weights [K, 4·width] packed for it. K = 0: none.
struct LstmTerm {
  plain::Left a = {};
  std::int64_t k = 0;
  const float* weights = nullptr;
};

// gates = σ(start + Σ a·w), in the order i, f, g, o, with tanh for g; c = f·c_prev + i·g; h = o·tanh c
struct LstmStep {
  std::int64_t rows = 0, width = 0;
  std::array<LstmTerm, 2> terms = {};
  plain::Start start = {};                   // [rows, 4·width]; may be the gates
  const std::int32_t* start_rows = nullptr;  // which of its rows each one begins with; null: its own
  const float* c_prev = nullptr;             // [rows, width]
  float* gates = nullptr;                    // [rows, 4·width]
  float* c = nullptr;                        // [rows, width]; may be c_prev
  float* h = nullptr;                        // [rows, width]
  plain::Fetch fetch = {};                   // what the next step reads
};

// On the calling thread.
void lstm_step(const LstmStep& step);

// Weights [K, 4·width] with the gates of some units side by side.
std::size_t lstm_packed_floats(std::int64_t k, std::int64_t width);
void pack_lstm(const float* weights, std::int64_t k, std::int64_t width, float* to);

}  // namespace varve::cpu
