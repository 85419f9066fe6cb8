// The last layer of a classifier with its loss and all their gradients, a block of rows at a time: x·w + b, softmax
// cross entropy, and what follows from it. The logits of a block stay in the cache; those of all rows, often the
// largest tensor of a step, exist nowhere.
#pragma once

#include "backends/cpu/claims.h"
#include "backends/cpu/common/team.h"

namespace varve::cpu {

// x: [M,K]  w: [K,N], or [N,K] when transposed  bias: [N]  labels, dloss, loss: [M]
struct ClassLoss {
  enum In : std::size_t { kX, kWeights, kLabels, kDloss, kBias };
  enum Out : std::size_t { kLoss, kDx, kDweights, kDbias };

  std::int64_t rows = 0, features = 0, classes = 0;
  bool transposed = false;
  DType labels = i64;
  std::vector<int> in, out;  // places in the claim; -1: left out
  Setting setting;
};

backend::Prepared prepare_class_loss(const ClassLoss& loss);

}  // namespace varve::cpu
