// LSTM and its gradient. The gates of a step are computed where they are kept: the input's share, plus the product,
// then activated in place.
#include "backends/cpu/lstm.h"

namespace varve::cpu {
namespace {

using backend::RunArgs;

constexpr std::size_t kHiddenFactor = 0, kInputFactor = 1;

// One step's rows of the layer's input.
plain::Left input_rows(const float* x, const SequenceInput& at, std::int64_t t, std::int64_t first) {
  return {x + t * at.step + first * at.row, at.row, at.column};
}

class Lstm final : public CellKernel, LstmOperands {
 public:
  explicit Lstm(const CellCall& call) : CellKernel(call, spec_of(call)) {}

 protected:
  void run_block(const RunArgs& args, const Lane& lane) const override {
    const SequenceBlock& block = lane.block;
    const std::int64_t width = block.shape.width, rows = block.rows;
    const auto y = block.track(call().output(args, kY), width);
    // Without a gradient to come, one step's gates and two steps' cells are enough.
    Track<float> gates{lane.scratch, 0, 1}, cells{lane.scratch + rows * 4 * width, rows * width, 2};
    if (float* kept = call().output(args, kGates)) gates = block.track(kept, 4 * width);
    if (float* kept = call().output(args, kCells)) cells = block.track(kept, width);
    const float *h = block.rows_of(call().input(args, kH0), width), *c = block.rows_of(call().input(args, kC0), width);
    const float* const h0 = h;
    for (std::int64_t t = 0; t < block.longest; ++t) {
      float* now = gates.at(t);
      multiply(lane, kHiddenFactor, {h, width}, input_share(args, lane, t, now), now, 4 * width);
      lstm_cell({now, c, now, cells.at(t), y.at(t)}, block.cell());
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

 private:
  static Spec spec_of(const CellCall& call) {
    const std::int64_t width = call.shape.width;
    Spec spec{.factors = {{{.k = width, .n = 4 * width}, kHidden}}, .lengths = kLengths, .lane_floats = 6 * width};
    if (call.has_input(kX)) spec.factors.push_back({{.k = call.x.features, .n = 4 * width}, kInput});
    return spec;
  }

  // The input's share of a step's gates: as given, or computed to where the gates will be.
  plain::Start input_share(const RunArgs& args, const Lane& lane, std::int64_t t, float* gates) const {
    const std::int64_t columns = 4 * lane.block.shape.width;
    if (const float* pre = call().input(args, kPre)) return {lane.block.track(pre, columns).at(t), columns};
    multiply(lane, kInputFactor, input_rows(call().input(args, kX), call().x, t, lane.block.first),
             {call().input(args, kBias), 0}, gates, columns);
    return {gates, columns};
  }
};

class LstmGrad final : public CellKernel, LstmGradOperands {
 public:
  explicit LstmGrad(const CellCall& call) : CellKernel(call, spec_of(call)) {}

 protected:
  void run_block(const RunArgs& args, const Lane& lane) const override {
    const SequenceBlock& block = lane.block;
    const std::int64_t width = block.shape.width;
    const auto gates = block.track(call().input(args, kGates), 4 * width);
    const auto cells = block.track(call().input(args, kCells), width);
    const auto dy = block.track(call().input(args, kDy), width);
    Track<float> dpre{lane.scratch, 0, 1};
    if (float* kept = call().output(args, kDpre)) dpre = block.track(kept, 4 * width);
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
      multiply(lane, kHiddenFactor, {dpre.at(t), 4 * width}, {}, dh, width);
      add_step(args, lane, t, dpre.at(t));
    }
    start(0);
    if (call().has_output(kDpre)) block.zero_after(dpre, 4 * width);
    if (float* dx = call().output(args, kDx)) block.zero_after(block.track(dx, call().x.features), call().x.features);
  }

  void finish(const RunArgs& args, const float* sums) const override {
    const std::int64_t columns = 4 * call().shape.width;
    for (const auto& [output, rows] : summed(call())) {
      copy(sums, rows * columns, call().output(args, output));
      sums += rows * columns;
    }
  }

 private:
  static Spec spec_of(const CellCall& call) {
    const std::int64_t columns = 4 * call.shape.width;
    Spec spec{.factors = {{{.k = columns, .n = call.shape.width, .turned = true}, kHidden}}, .lengths = kLengths};
    if (call.has_output(kDx)) spec.factors.push_back({{.k = columns, .n = call.x.features, .turned = true}, kInput});
    if (!call.has_output(kDpre)) spec.lane_floats = columns;
    for (const auto& [output, rows] : summed(call)) spec.sum_floats += rows * columns;
    return spec;
  }

  // What is added up over all steps and rows, in the order of the sums: outputs and their rows.
  static std::vector<std::pair<std::size_t, std::int64_t>> summed(const CellCall& call) {
    std::vector<std::pair<std::size_t, std::int64_t>> all;
    if (call.has_output(kDhidden)) all.push_back({kDhidden, call.shape.width});
    if (call.has_output(kDinput)) all.push_back({kDinput, call.x.features});
    if (call.has_output(kDbias)) all.push_back({kDbias, 1});
    return all;
  }

  // What one step's gates add to the gradients of weights and bias, and the step's gradient of the input, while the
  // gates' gradient is in the cache.
  void add_step(const RunArgs& args, const Lane& lane, std::int64_t t, const float* dpre) const {
    const SequenceBlock& block = lane.block;
    const std::int64_t width = block.shape.width, columns = 4 * width;
    float* sums = lane.sums;
    const auto add = [&](const plain::Left& a, std::int64_t rows) {
      if (a.data)
        plain::multiply({.m = rows,
                         .n = columns,
                         .k = block.rows,
                         .a = {a.data, a.step, a.row},  // turned
                         .b = plain::right_as_it_lies(dpre, columns),
                         .start = {sums, columns},
                         .c = sums,
                         .c_row = columns});
      sums += rows * columns;
    };
    if (call().has_output(kDhidden)) {
      const float *h0 = block.rows_of(call().input(args, kH0), width), *y = call().input(args, kY);
      add({t == 0 ? h0 : y ? block.track(y, width).at(t - 1) : nullptr, width}, width);
    }
    if (call().has_output(kDinput))
      add(input_rows(call().input(args, kX), call().x, t, block.first), call().x.features);
    if (call().has_output(kDbias)) plain::add_columns(dpre, columns, block.rows, columns, sums);
    if (float* dx = call().output(args, kDx))
      multiply(lane, kInputFactor, {dpre, columns}, {}, block.track(dx, call().x.features).at(t), call().x.features);
  }
};

}  // namespace

backend::Prepared prepare_lstm(const CellCall& call) { return prepare_cell<Lstm>(call); }
backend::Prepared prepare_lstm_grad(const CellCall& call) { return prepare_cell<LstmGrad>(call); }

CellOffer lstm_offer() {
  using Operands = LstmOperands;
  return {.op = "lstm",
          .hidden = Operands::kHidden,
          .sequence = Operands::kPre,
          .residuals = {Operands::kGates, Operands::kCells},
          .in_place = {{Operands::kGates, Operands::kPre}},
          .prepare = prepare_lstm};
}

CellOffer lstm_grad_offer() {
  using Operands = LstmGradOperands;
  return {.op = "lstm_grad",
          .hidden = Operands::kHidden,
          .sequence = Operands::kGates,
          .zero_inputs = {Operands::kDy, Operands::kDh, Operands::kDc},
          .in_place = {{Operands::kDpre, Operands::kGates}},
          .prepare = prepare_lstm_grad};
}

void add_lstm_claims(ClaimMap& map) {
  // Before the products alone: larger patterns first.
  map["matmul"].insert(map["matmul"].begin(), claim_lstm_with_input);
  map["lstm_grad"].push_back(claim_lstm_gradients);
  offer_cell(map, lstm_offer());
  offer_cell(map, lstm_grad_offer());
}

}  // namespace varve::cpu
