// The operands of the LSTM kernels: those of the records, and behind them what larger patterns add.
#pragma once

#include "backends/cpu/recurrent/recurrent.h"

namespace varve::cpu {

// Either the input's share of the gates, or the input itself with its weights and perhaps a bias, or a table of shares
// and which of its rows to take, [T·B].
struct LstmOperands {
  enum In : std::size_t { kPre, kHidden, kH0, kC0, kLengths, kX, kInput, kBias, kTable, kIds };
  enum Out : std::size_t { kY, kH, kC, kGates, kCells };
};

// The gradient of the gates, or what is computed from it: the gradients of weights, bias and input, or of the table.
struct LstmGradOperands {
  enum In : std::size_t { kHidden, kC0, kGates, kCells, kDy, kDh, kDc, kLengths, kX, kInput, kY, kH0, kIds };
  enum Out : std::size_t { kDpre, kDh0, kDc0, kDx, kDinput, kDhidden, kDbias, kDtable };
};

backend::Prepared prepare_lstm(const CellCall& call);
backend::Prepared prepare_lstm_grad(const CellCall& call);

CellOffer lstm_offer();
CellOffer lstm_grad_offer();

// Larger patterns: the layer's input product or table within the recurrence, and all gradients that read the gates'
// gradient.
void claim_lstm_with_input(const backend::Site& site, std::vector<backend::Claim>& claims);
void claim_lstm_with_table(const backend::Site& site, std::vector<backend::Claim>& claims);
void claim_lstm_gradients(const backend::Site& site, std::vector<backend::Claim>& claims);

}  // namespace varve::cpu
