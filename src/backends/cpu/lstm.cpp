// LSTM and its gradient. The gates of a step are computed where they are kept: the input's share, plus the product,
// then activated in place.
#include "backends/cpu/recurrent.h"

namespace varve::cpu {
namespace {

using backend::RunArgs;

class Lstm final : public CellKernel {
 public:
  enum In : std::size_t { kPre, kHidden, kH0, kC0, kLengths };
  enum Out : std::size_t { kY, kH, kC, kGates, kCells };

  explicit Lstm(const CellCall& call)
      : CellKernel(call, {.product = {.k = call.shape.width, .n = 4 * call.shape.width, .accumulate = true},
                          .hidden = kHidden,
                          .lengths = kLengths,
                          .lane_floats = 6 * call.shape.width}) {}

 protected:
  void run_block(const RunArgs& args, const Lane& lane) const override {
    const SequenceBlock& block = lane.block;
    const std::int64_t width = block.shape.width, rows = block.rows;
    const auto pre = block.track(call().input(args, kPre), 4 * width);
    const auto y = block.track(call().output(args, kY), width);
    // Without a gradient to come, one step's gates and two steps' cells are enough.
    Track<float> gates{lane.scratch, 0, 1}, cells{lane.scratch + rows * 4 * width, rows * width, 2};
    if (float* kept = call().output(args, kGates)) gates = block.track(kept, 4 * width);
    if (float* kept = call().output(args, kCells)) cells = block.track(kept, width);
    const float *h = block.rows_of(call().input(args, kH0), width), *c = block.rows_of(call().input(args, kC0), width);
    const float* const h0 = h;
    for (std::int64_t t = 0; t < block.longest; ++t) {
      copy(pre.at(t), rows * 4 * width, gates.at(t));
      multiply(lane, h, gates.at(t));
      lstm_cell({gates.at(t), c, gates.at(t), cells.at(t), y.at(t)}, block.cell());
      block.zero_ended(t, y.at(t), width);
      block.each_ended(t, [&](std::int64_t row) { copy(c + row * width, width, cells.at(t) + row * width); });
      h = y.at(t);  // ended sequences go on from 0: what comes of it is never used
      c = cells.at(t);
    }
    block.zero_after(y, width);
    if (call().output(args, kGates)) block.zero_after(gates, 4 * width);
    if (call().output(args, kCells))
      for (std::int64_t t = block.longest; t < block.shape.steps; ++t) copy(c, rows * width, cells.at(t));
    block.last_state(h0, y, block.rows_of(call().output(args, kH), width));
    copy(c, rows * width, block.rows_of(call().output(args, kC), width));
  }
};

class LstmGrad final : public CellKernel {
 public:
  enum In : std::size_t { kHidden, kC0, kGates, kCells, kDy, kDh, kDc, kLengths };
  enum Out : std::size_t { kDpre, kDh0, kDc0 };

  explicit LstmGrad(const CellCall& call)
      : CellKernel(call, {.product = {.k = 4 * call.shape.width, .n = call.shape.width, .turned = true},
                          .hidden = kHidden,
                          .lengths = kLengths}) {}

 protected:
  void run_block(const RunArgs& args, const Lane& lane) const override {
    const SequenceBlock& block = lane.block;
    const std::int64_t width = block.shape.width;
    const auto gates = block.track(call().input(args, kGates), 4 * width);
    const auto cells = block.track(call().input(args, kCells), width);
    const auto dy = block.track(call().input(args, kDy), width);
    const auto dpre = block.track(call().output(args, kDpre), 4 * width);
    const float* c0 = block.rows_of(call().input(args, kC0), width);
    const float *last_dh = block.rows_of(call().input(args, kDh), width),
                *last_dc = block.rows_of(call().input(args, kDc), width);
    // The states' gradients go from step to step where the first ones' will stand in the end.
    float *dh = block.rows_of(call().output(args, kDh0), width), *dc = block.rows_of(call().output(args, kDc0), width);
    const auto start = [&](std::int64_t t) {
      block.start_gradient_at(t, last_dh, dh);
      block.start_gradient_at(t, last_dc, dc);
    };
    block.start_gradient(last_dh, dh);
    block.start_gradient(last_dc, dc);
    for (std::int64_t t = block.longest; t-- > 0;) {
      start(t + 1);
      block.add(dy.data ? dy.at(t) : nullptr, dh);
      lstm_cell_grad({dh, dc, gates.at(t), t == 0 ? c0 : cells.at(t - 1), cells.at(t), dpre.at(t), dc}, block.cell());
      block.zero_ended(t, dpre.at(t), 4 * width);
      multiply(lane, dpre.at(t), dh);
    }
    start(0);
    block.zero_after(dpre, 4 * width);
  }
};

}  // namespace

void add_lstm_claims(ClaimMap& map) {
  offer_cell(map, {.op = "lstm",
                   .hidden = Lstm::kHidden,
                   .sequence = Lstm::kPre,
                   .residuals = {Lstm::kGates, Lstm::kCells},
                   .in_place = {{Lstm::kGates, Lstm::kPre}},
                   .prepare = prepare_cell<Lstm>});
  offer_cell(map, {.op = "lstm_grad",
                   .hidden = LstmGrad::kHidden,
                   .sequence = LstmGrad::kGates,
                   .zero_inputs = {LstmGrad::kDy, LstmGrad::kDh, LstmGrad::kDc},
                   .in_place = {{LstmGrad::kDpre, LstmGrad::kGates}},
                   .prepare = prepare_cell<LstmGrad>});
}

}  // namespace varve::cpu
