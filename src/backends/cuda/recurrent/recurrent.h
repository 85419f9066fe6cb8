// Recurrent layers on the GPU: which operand of which record is what to the kernels, and how claims are made from that.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "backends/cuda/claims.h"
#include "backends/cuda/device/function.h"
#include "backends/cuda/recurrent/recurrent_plan.h"

namespace varve::cuda {

// The operands of all cells, in the order of the pointers that the kernels take (recurrent/recurrent_forward.cu and
// recurrent/recurrent_backward.cu).
struct ForwardOperands {
  enum Number : std::size_t {
    kPre,
    kHidden,
    kH0,
    kC0,
    kBias,
    kLengths,
    kTable,
    kIds,
    kY,
    kH,
    kC,
    kGates,
    kCells,
    kCount
  };
};
struct BackwardOperands {
  enum Number : std::size_t {
    kHidden,
    kH0,
    kC0,
    kY,
    kGates,
    kCells,
    kDy,
    kDh,
    kDc,
    kLengths,
    kDpre,
    kDshare,
    kDh0,
    kDc0,
    kCount,
    kDbias = kCount  // summed by another kernel
  };
};

// One of the records.
struct CellOffer {
  std::string op, cell;  // cell: "LSTM", "GRU" or "RNN"
  int gates = 1;
  Pass pass = Pass::forward;
  std::vector<std::size_t> in, out;                // what its inputs and outputs are; lengths may be missing
  std::vector<std::size_t> zero_inputs = {};       // that need not be read where they are zero
  std::vector<std::size_t> residuals = {};         // outputs that need not be written where nobody reads them
  std::vector<std::pair<int, int>> in_place = {};  // (output, input) by operand

  std::size_t hidden() const { return pass == Pass::forward ? +ForwardOperands::kHidden : +BackwardOperands::kHidden; }
  std::size_t lengths() const {
    return pass == Pass::forward ? +ForwardOperands::kLengths : +BackwardOperands::kLengths;
  }
};

// Rows of a table that stand for the input's share of the gates.
struct CellTable {
  std::int64_t rows = 0;
  DType ids = i32;
  std::string out_of_range;  // what to say of an id that is none of them
};

// What a kernel is made from.
struct CellCall {
  CellOffer offer;
  RecurrentShape shape;
  RecurrentPlan plan;
  DType dtype = f32, lengths = i64;
  bool relu = false;
  std::array<int, 16> at{};  // places of the operands in the claim, inputs and outputs apart; -1: left out
  CellTable table = {};
};

struct CellClaim {
  backend::Claim claim;  // of the node alone, without `prepare`
  CellCall call;
};
// `refusal` is set in the claim where there is no plan.
CellClaim cell_claim(const backend::Site& site, const ir::NodePtr& node, const CellOffer& offer);
backend::Prepared prepare_cell(const CellCall& call);
KernelText cell_text(const CellCall& call);  // what it compiles

CellOffer lstm_offer();
std::vector<CellOffer> cell_offers();

// The gates' gradient with its sum over all steps and sequences, the gradient of a bias.
void claim_gradient_with_bias(const backend::Site& site, const CellOffer& offer, std::vector<backend::Claim>& claims);
// An embedding whose rows are the gates of an LSTM, taken by the recurrence itself.
void claim_lstm_with_table(const backend::Site& site, std::vector<backend::Claim>& claims);

}  // namespace varve::cuda
