// What the recurrent kernels share: a block of sequences, step after step. f32; other types are decomposed.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "backends/cpu/claims.h"
#include "backends/cpu/common/floats.h"
#include "backends/cpu/common/scratch.h"
#include "backends/cpu/recurrent/cell_kernels.h"
#include "backends/cpu/recurrent/step_product.h"

namespace varve::cpu {

inline void copy(const float* from, std::int64_t count, float* to) {
  if (from != to) std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
}

struct SequenceShape {
  std::int64_t steps = 0, batch = 0, width = 0;  // T, B, H
};

// The layer's input, where a kernel takes it: element (t, b, i) at t * step + b * row + i * column.
struct SequenceInput {
  std::int64_t features = 0, step = 0, row = 0, column = 1;
};

// Rows of a table [rows, columns] that stand for the layer's input, or get its gradient: one for each step and
// sequence.
struct SequenceTable {
  std::int64_t rows = 0;
  DType ids = i32;
  std::string out_of_range;  // what to say of an id that is none of them
};

// Rows of one block, step by step: data of a block of [T, B, columns], or a few steps of it in a ring.
template <class T>
struct Track {
  T* data = nullptr;
  std::int64_t step = 0, kept = 1;  // elements between steps, and how many steps have a place of their own

  T* at(std::int64_t t) const { return data + t % kept * step; }
};

// bf16 to f32 and back, rounded.
void from_half(const void* from, std::int64_t count, float* to);
void to_half(const float* from, std::int64_t count, void* to);

// The same for a tensor in f32 or bf16. Kernels compute in f32: what is bf16 goes through room of theirs.
class Series {
 public:
  Series() = default;
  Series(const void* data, DType dtype, std::int64_t step) : data_(data), dtype_(dtype), step_(step) {}

  explicit operator bool() const { return data_ != nullptr; }
  const float* read(std::int64_t t, std::int64_t count, float* room) const;
  // Where a step is to be computed; `keep` then moves it to its place, unless that was there.
  float* place(std::int64_t t, float* room) const { return is_f32() ? floats(raw(t)) : room; }
  void keep(std::int64_t t, std::int64_t count, const float* from) const;
  void zero(std::int64_t t, std::int64_t count) const;
  void* raw(std::int64_t t) const;
  plain::Fetch fetch(std::int64_t t, std::int64_t count) const;

 private:
  bool is_f32() const { return dtype_ == f32; }

  const void* data_ = nullptr;
  DType dtype_ = f32;
  std::int64_t step_ = 0;  // elements
};

// Steps of each sequence, within [0, T]; without any, all have T.
class Lengths {
 public:
  static std::size_t scratch_bytes(bool given, std::int64_t batch) {
    return given ? cache_aligned(static_cast<std::size_t>(batch) * sizeof(std::int64_t)) : 0;
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
  std::int64_t worker = 0, first = 0, rows = 0, longest = 0;

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
  Series series(const void* data, DType dtype, std::int64_t columns) const {
    const auto skipped = first * columns * static_cast<std::int64_t>(size_of(dtype));
    return data ? Series(static_cast<const std::byte*>(data) + skipped, dtype, shape.batch * columns) : Series();
  }
  // A step's rows, for a product to bring nearer; nothing where there is no such step.
  plain::Fetch fetch(const Series& series, std::int64_t t, std::int64_t columns) const {
    return series && t >= 0 && t < longest ? series.fetch(t, rows * columns) : plain::Fetch{};
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
  void last_state(const Series& before, const Series& y, const Series& h, DType dtype) const;
  // Backward pass: gradients of the states start where sequences end. `final` null: 0.
  void start_gradient(const float* final, float* d) const;
  void start_gradient_at(std::int64_t t, const float* final, float* d) const;
  // d += dy; null: 0.
  void add(const float* dy, float* d) const;
};

// What a recurrent kernel is made from. Operands are numbered as in the record, further ones of a larger pattern behind
// them; those that need not be read (gradients that are zero) or written (what only a gradient would read) are left out
// of the claim.
struct CellCall {
  Attrs attrs;
  SequenceShape shape;
  Setting setting;
  std::vector<int> in, out;  // places in the claim; -1 or none: left out
  DType lengths = i64;
  DType dtype = f32;
  SequenceInput x = {};
  SequenceTable table = {};

  bool has_input(std::size_t i) const { return i < in.size() && in[i] >= 0; }
  bool has_output(std::size_t i) const { return i < out.size() && out[i] >= 0; }
  const float* input(const backend::RunArgs& args, std::size_t i) const {
    return has_input(i) ? floats(args.in[in[i]]) : nullptr;
  }
  float* output(const backend::RunArgs& args, std::size_t i) const {
    return has_output(i) ? floats(args.out[out[i]]) : nullptr;
  }
  // Of a block, in the type of the call.
  Series input(const backend::RunArgs& args, std::size_t i, const SequenceBlock& block, std::int64_t columns) const {
    return block.series(input(args, i), dtype, columns);
  }
  Series output(const backend::RunArgs& args, std::size_t i, const SequenceBlock& block, std::int64_t columns) const {
    return block.series(output(args, i), dtype, columns);
  }
};

// The part that all cells have in common: blocks, products with packed weights, lengths, scratch.
class CellKernel : public backend::Kernel {
 public:
  struct Factor {
    StepSpec product;
    std::size_t weights = 0;  // input
  };
  struct Spec {
    std::vector<Factor> factors;
    std::size_t lengths = 0;         // input; may be left out
    std::int64_t worker_floats = 0;  // scratch for each worker, for each row of its block
    std::int64_t worker_more = 0;    // and beside that
    std::int64_t sum_floats = 0;     // sums over all blocks: zero at first, combined in the end
    std::int64_t enough_rows = 64;   // of a block, for its products
    std::size_t table = 0;           // input that all blocks read as f32
    std::int64_t table_floats = 0;   // of it; 0: there is none
  };
  CellKernel(CellCall call, Spec spec);

  std::size_t scratch_bytes() const;
  void run(const backend::RunArgs& args) final;

 protected:
  static constexpr std::size_t kMostFactors = 2;
  struct Worker {
    SequenceBlock block;
    std::array<const float*, kMostFactors> weights;  // packed
    const float* table;
    float* scratch;
    float* sums;
  };
  virtual void run_block(const backend::RunArgs& args, const Worker& worker) const = 0;
  virtual void finish(const backend::RunArgs&, const float* /*sums*/) const {}

  const CellCall& call() const { return call_; }
  // By the first factor, with dense operands.
  void multiply(const Worker& worker, const float* a, float* c) const {
    factors_[0].run(worker.weights[0], worker.block.rows, a, c);
  }
  void multiply(const Worker& worker, std::size_t factor, const StepProduct::Rows& rows) const {
    factors_[factor].run(worker.weights[factor], worker.block.rows, rows);
  }

 private:
  std::size_t worker_bytes() const;
  std::size_t wide_bytes() const;  // for weights that are not f32
  std::size_t table_bytes() const { return call_.dtype == f32 ? 0 : float_bytes(spec_.table_floats); }
  const float* load_table(const backend::RunArgs& args, float* room) const;
  std::size_t sum_bytes() const { return float_bytes(spec_.sum_floats); }
  // One for each worker; where bits must not depend on the threads, one for each block.
  std::int64_t sums() const { return call_.setting.deterministic ? blocks_.count() : blocks_.workers; }
  void add_up(float* sums) const;

  CellCall call_;
  Spec spec_;
  RowBlocks blocks_;
  std::vector<StepProduct> factors_;
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
  bool half = false;                          // takes bf16 too
  std::vector<std::size_t> zero_inputs = {};  // that need not be read where they are zero
  std::vector<std::size_t> residuals = {};    // outputs that need not be written where nobody reads them
  std::vector<std::pair<int, int>> in_place = {};
  backend::Prepared (*prepare)(const CellCall& call) = nullptr;
};
// Why these kernels do not take the node; empty: they do.
std::string cell_refusal(const ir::Node& node, const CellOffer& offer);
// The claim of the node alone, without `prepare`, and the call that goes with it.
struct CellClaim {
  backend::Claim claim;
  CellCall call;
};
CellClaim cell_claim(const backend::Site& site, const ir::NodePtr& node, const CellOffer& offer);
void offer_cell(ClaimMap& map, const CellOffer& offer);

void add_lstm_claims(ClaimMap& map);
void add_gru_claims(ClaimMap& map);
void add_rnn_claims(ClaimMap& map);

}  // namespace varve::cpu
