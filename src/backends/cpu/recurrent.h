// What the recurrent kernels share: a block of sequences on its way through time. f32; other types are decomposed.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "backends/cpu/claims.h"
#include "backends/cpu/step_product.h"
#include "backends/cpu/tile/rnn_kernels.h"
#include "backends/cpu/tile/scratch.h"

namespace varve::cpu {

struct SequenceShape {
  std::int64_t steps = 0, batch = 0, width = 0;  // T, B, H
};

// Rows of one block, step by step: data of a block of [T, B, columns], or a few steps of it kept in turns.
template <class T>
struct Track {
  T* data = nullptr;
  std::int64_t step = 0, kept = 1;  // elements between steps, and how many steps have a place of their own

  T* at(std::int64_t t) const { return data + t % kept * step; }
};

// Steps of each sequence, within [0, T]; without any, all have T.
class Lengths {
 public:
  static std::size_t scratch_bytes(bool given, std::int64_t batch) {
    return given ? round_up(static_cast<std::size_t>(batch) * sizeof(std::int64_t)) : 0;
  }
  Lengths(std::int64_t steps) : steps_(steps) {}
  // `scratch` holds them as they are used: nothing that a caller wrote there can lead outside.
  Lengths(const SequenceShape& shape, const void* given, DType dtype, void* scratch);

  bool vary() const { return data_ != nullptr; }
  std::int64_t of(std::int64_t row) const { return data_ ? data_[row] : steps_; }
  std::int64_t longest(std::int64_t first, std::int64_t rows) const {
    return data_ ? *std::max_element(data_ + first, data_ + first + rows) : steps_;
  }

 private:
  std::int64_t steps_;
  const std::int64_t* data_ = nullptr;
};

// One block of a run.
struct SequenceBlock {
  const SequenceShape& shape;
  const Lengths& lengths;
  std::int64_t lane = 0, first = 0, rows = 0, longest = 0;

  CellShape cell() const { return {rows, shape.width}; }
  // The block's rows of [B, columns] and of [T, B, columns].
  template <class T>
  T* rows_of(T* data, std::int64_t columns) const {
    return data ? data + first * columns : nullptr;
  }
  template <class T>
  Track<T> track(T* data, std::int64_t columns) const {
    return {rows_of(data, columns), shape.batch * columns, std::max<std::int64_t>(shape.steps, 1)};
  }
  // f(row within the block, its length) where the sequence has ended before step t.
  template <class F>
  void each_ended(std::int64_t t, const F& f) const {
    if (!lengths.vary()) return;
    for (std::int64_t row = 0; row < rows; ++row)
      if (lengths.of(first + row) <= t) f(row);
  }
  void zero_ended(std::int64_t t, float* data, std::int64_t columns) const {
    each_ended(t, [&](std::int64_t row) { std::fill_n(data + row * columns, columns, 0.f); });
  }
  // Steps that no sequence of the block has.
  void zero_after(const Track<float>& track, std::int64_t columns) const {
    for (std::int64_t t = longest; t < shape.steps; ++t) std::fill_n(track.at(t), rows * columns, 0.f);
  }
  // The state after each sequence's last step.
  void last_state(const float* before, const Track<float>& y, float* h) const;
  // On the way back: gradients of the states start where sequences end. `final` null: 0.
  void start_gradient(const float* final, float* d) const;
  void start_gradient_at(std::int64_t t, const float* final, float* d) const;
  // d += dy; null: 0.
  void add(const float* dy, float* d) const;
};

inline const float* floats(const void* data) { return static_cast<const float*>(data); }
inline float* floats(void* data) { return static_cast<float*>(data); }
inline std::size_t float_bytes(std::int64_t count) { return round_up(static_cast<std::size_t>(count) * sizeof(float)); }
inline void copy(const float* from, std::int64_t count, float* to) {
  if (from != to) std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
}

// What a recurrent kernel is made from. Operands are numbered as in the record; those that need not be read (gradients
// that are zero) or written (what only a gradient would read) are left out of the claim.
struct CellCall {
  Attrs attrs;
  SequenceShape shape;
  Setting setting;
  std::vector<int> in, out;  // places in the claim; -1: left out
  DType lengths = i64;

  const float* input(const backend::RunArgs& args, std::size_t i) const {
    return in[i] < 0 ? nullptr : floats(args.in[in[i]]);
  }
  float* output(const backend::RunArgs& args, std::size_t i) const {
    return out[i] < 0 ? nullptr : floats(args.out[out[i]]);
  }
};

// The part that all cells have in common: blocks, the product with the hidden weights, lengths, scratch.
class CellKernel : public backend::Kernel {
 public:
  struct Spec {
    StepSpec product;
    std::size_t hidden = 0, lengths = 0;  // inputs; lengths may be one too many
    std::int64_t lane_floats = 0;         // scratch for each lane, for each row of its block
  };
  CellKernel(CellCall call, const Spec& spec);

  std::size_t scratch_bytes() const;
  void run(const backend::RunArgs& args) final;

 protected:
  struct Lane {
    SequenceBlock block;
    StepProduct::Weights weights;
    float* scratch;
  };
  virtual void run_block(const backend::RunArgs& args, const Lane& lane) const = 0;

  const CellCall& call() const { return call_; }
  void multiply(const Lane& lane, const float* a, float* c) const {
    product_.run(lane.weights, lane.block.lane, lane.block.rows, a, c);
  }

 private:
  bool has_lengths() const { return spec_.lengths < call_.in.size(); }
  std::size_t lane_bytes() const { return float_bytes(spec_.lane_floats * blocks_.block); }

  CellCall call_;
  Spec spec_;
  RowBlocks blocks_;
  StepProduct product_;
};

template <class K>
backend::Prepared prepare_cell(const CellCall& call) {
  auto kernel = std::make_unique<K>(call);
  const std::size_t scratch = kernel->scratch_bytes();
  return {std::move(kernel), scratch};
}

// How to offer a kernel for one of the records.
struct CellOffer {
  std::string op;
  std::size_t hidden = 0;  // inputs: hidden weights, and one of shape [T, B, …]
  std::size_t sequence = 0;
  std::vector<std::size_t> zero_inputs = {};  // that need not be read where they are zero
  std::vector<std::size_t> residuals = {};    // outputs that need not be written where nobody reads them
  std::vector<std::pair<int, int>> in_place = {};
  backend::Prepared (*prepare)(const CellCall& call) = nullptr;
};
void offer_cell(ClaimMap& map, const CellOffer& offer);

void add_lstm_claims(ClaimMap& map);
void add_gru_claims(ClaimMap& map);
void add_rnn_claims(ClaimMap& map);

}  // namespace varve::cpu
