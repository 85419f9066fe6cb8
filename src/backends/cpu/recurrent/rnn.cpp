// The plain recurrence and its gradient. A step is computed where its output stands.
#include "backends/cpu/recurrent/recurrent.h"

namespace varve::cpu {
namespace {

using backend::RunArgs;

RnnActivation activation_of(const CellCall& call) {
  return call.attrs.flag("relu") ? RnnActivation::relu : RnnActivation::tanh;
}

class Rnn final : public CellKernel {
 public:
  enum In : std::size_t { kPre, kHidden, kH0, kLengths };
  enum Out : std::size_t { kY, kH };

  explicit Rnn(const CellCall& call)
      : CellKernel(call, {.factors = {{{.k = call.shape.width, .n = call.shape.width, .accumulate = true}, kHidden}},
                          .lengths = kLengths}),
        activation_(activation_of(call)) {}

 protected:
  void run_block(const RunArgs& args, const Worker& worker) const override {
    const SequenceBlock& block = worker.block;
    const std::int64_t width = block.shape.width;
    const auto pre = block.track(call().input(args, kPre), width);
    const auto y = block.track(call().output(args, kY), width);
    const float* h0 = block.rows_of(call().input(args, kH0), width);
    for (std::int64_t t = 0; t < block.longest; ++t) {
      copy(pre.at(t), block.rows * width, y.at(t));
      multiply(worker, t == 0 ? h0 : y.at(t - 1), y.at(t));
      rnn_cell(activation_, y.at(t), y.at(t), block.cell());
      block.zero_ended(t, y.at(t), width);
    }
    block.zero_after(y, width);
    block.last_state(h0, y, block.rows_of(call().output(args, kH), width));
  }

 private:
  RnnActivation activation_;
};

class RnnGrad final : public CellKernel {
 public:
  enum In : std::size_t { kHidden, kY, kDy, kDh, kLengths };
  enum Out : std::size_t { kDpre, kDh0 };

  explicit RnnGrad(const CellCall& call)
      : CellKernel(call, {.factors = {{{.k = call.shape.width, .n = call.shape.width, .transposed = true}, kHidden}},
                          .lengths = kLengths}),
        activation_(activation_of(call)) {}

 protected:
  void run_block(const RunArgs& args, const Worker& worker) const override {
    const SequenceBlock& block = worker.block;
    const std::int64_t width = block.shape.width;
    const auto y = block.track(call().input(args, kY), width), dy = block.track(call().input(args, kDy), width);
    const auto dpre = block.track(call().output(args, kDpre), width);
    const float* last_dh = block.rows_of(call().input(args, kDh), width);
    float* dh = block.rows_of(call().output(args, kDh0), width);
    block.start_gradient(last_dh, dh);
    for (std::int64_t t = block.longest; t-- > 0;) {
      block.start_gradient_at(t + 1, last_dh, dh);
      block.add(dy.data ? dy.at(t) : nullptr, dh);
      rnn_cell_grad(activation_, dh, y.at(t), dpre.at(t), block.cell());
      block.zero_ended(t, dpre.at(t), width);
      multiply(worker, dpre.at(t), dh);
    }
    block.start_gradient_at(0, last_dh, dh);
    block.zero_after(dpre, width);
  }

 private:
  RnnActivation activation_;
};

}  // namespace

void add_rnn_claims(ClaimMap& map) {
  offer_cell(map, {.op = "rnn",
                   .hidden = Rnn::kHidden,
                   .sequence = Rnn::kPre,
                   .in_place = {{Rnn::kY, Rnn::kPre}},
                   .prepare = prepare_cell<Rnn>});
  offer_cell(map, {.op = "rnn_grad",
                   .hidden = RnnGrad::kHidden,
                   .sequence = RnnGrad::kY,
                   .zero_inputs = {RnnGrad::kDy, RnnGrad::kDh},
                   .in_place = {{RnnGrad::kDpre, RnnGrad::kDy}},
                   .prepare = prepare_cell<RnnGrad>});
}

}  // namespace varve::cpu
