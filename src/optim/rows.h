// The update of a table's rows: those that a step read, gathered, updated by the optimiser's rule and put back.
#pragma once

#include <functional>
#include <vector>

#include "varve/autodiff.h"
#include "varve/optim.h"

namespace varve::optim {

// Gradients of a table's rows, with what came for the same row added up in the order of its positions.
struct SummedRows {
  Tensor rows;                    // [K], sorted
  Tensor distinct;                // [K, ..]: of each different row, one after the other; zeros behind them
  Tensor which;                   // [K]: where in `distinct` each one's gradient is
  std::vector<Tensor> from = {};  // of the gradient: held until they are computed
};
SummedRows summed(const GradientRows& gradient);
// More positions, so that there are few different numbers of them: the last row again, with zeros.
GradientRows padded(const GradientRows& gradient);

// Assigns new rows of the parameter and of its state, the same wherever a row comes several times.
using RowRule = std::function<Updated(const Optimizer::Slot&)>;
void update_rows(const Variable& parameter, const std::vector<Variable>& state, const SummedRows& gradient,
                 const RowRule& rule, const Tensor& rate, const Tensor& step, double weight_decay);

}  // namespace varve::optim
