// GRU and its gradient.
#include "backends/cpu/recurrent/recurrent.h"

namespace varve::cpu {
namespace {

using backend::RunArgs;

class Gru final : public CellKernel {
 public:
  enum In : std::size_t { kPre, kHidden, kH0, kBias, kLengths };
  enum Out : std::size_t { kY, kH, kGates };

  explicit Gru(const CellCall& call)
      : CellKernel(call,
                   {.factors = {{{.k = call.shape.width, .n = 3 * call.shape.width, .accumulate = true}, kHidden}},
                    .lengths = kLengths,
                    .worker_floats = 7 * call.shape.width}) {}

 protected:
  void run_block(const RunArgs& args, const Worker& worker) const override {
    const SequenceBlock& block = worker.block;
    const std::int64_t width = block.shape.width, rows = block.rows;
    const auto pre = block.track(call().input(args, kPre), 3 * width);
    const auto y = block.track(call().output(args, kY), width);
    const float *bias = call().input(args, kBias), *h0 = block.rows_of(call().input(args, kH0), width);
    float* share = worker.scratch;  // h·W + b
    Track<float> gates{worker.scratch + rows * 3 * width, 0, 1};
    if (float* kept = call().output(args, kGates)) gates = block.track(kept, 4 * width);
    for (std::int64_t t = 0; t < block.longest; ++t) {
      const float* h = t == 0 ? h0 : y.at(t - 1);
      for (std::int64_t row = 0; row < rows; ++row) copy(bias, 3 * width, share + row * 3 * width);
      multiply(worker, h, share);
      gru_cell({pre.at(t), share, h, gates.at(t), y.at(t)}, block.cell());
      block.zero_ended(t, y.at(t), width);
    }
    block.zero_after(y, width);
    if (call().output(args, kGates)) block.zero_after(gates, 4 * width);
    block.last_state(h0, y, block.rows_of(call().output(args, kH), width));
  }
};

class GruGrad final : public CellKernel {
 public:
  enum In : std::size_t { kHidden, kH0, kY, kGates, kDy, kDh, kLengths };
  enum Out : std::size_t { kDpre, kDshare, kDh0 };

  explicit GruGrad(const CellCall& call)
      : CellKernel(
            call,
            {.factors = {{{.k = 3 * call.shape.width, .n = call.shape.width, .transposed = true, .accumulate = true},
                          kHidden}},
             .lengths = kLengths}) {}

 protected:
  void run_block(const RunArgs& args, const Worker& worker) const override {
    const SequenceBlock& block = worker.block;
    const std::int64_t width = block.shape.width;
    const auto y = block.track(call().input(args, kY), width), dy = block.track(call().input(args, kDy), width);
    const auto gates = block.track(call().input(args, kGates), 4 * width);
    const auto dpre = block.track(call().output(args, kDpre), 3 * width);
    const auto dshare = block.track(call().output(args, kDshare), 3 * width);
    const float *h0 = block.rows_of(call().input(args, kH0), width),
                *last_dh = block.rows_of(call().input(args, kDh), width);
    float* dh = block.rows_of(call().output(args, kDh0), width);
    block.start_gradient(last_dh, dh);
    for (std::int64_t t = block.longest; t-- > 0;) {
      block.start_gradient_at(t + 1, last_dh, dh);
      block.add(dy.data ? dy.at(t) : nullptr, dh);
      gru_cell_grad({dh, gates.at(t), t == 0 ? h0 : y.at(t - 1), dpre.at(t), dshare.at(t), dh}, block.cell());
      block.zero_ended(t, dpre.at(t), 3 * width);
      block.zero_ended(t, dshare.at(t), 3 * width);
      multiply(worker, dshare.at(t), dh);
    }
    block.start_gradient_at(0, last_dh, dh);
    block.zero_after(dpre, 3 * width);
    block.zero_after(dshare, 3 * width);
  }
};

}  // namespace

void add_gru_claims(ClaimMap& map) {
  offer_cell(map, {.op = "gru",
                   .hidden = Gru::kHidden,
                   .sequence = Gru::kPre,
                   .residuals = {Gru::kGates},
                   .prepare = prepare_cell<Gru>});
  offer_cell(map, {.op = "gru_grad",
                   .hidden = GruGrad::kHidden,
                   .sequence = GruGrad::kGates,
                   .zero_inputs = {GruGrad::kDy, GruGrad::kDh},
                   .prepare = prepare_cell<GruGrad>});
}

}  // namespace varve::cpu
