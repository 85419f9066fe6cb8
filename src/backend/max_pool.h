// The gradient of maximum pooling with what surrounds it: the dropout before it, then the gradients of the ReLU and of
// the bias that stood before the pooling.
#pragma once

#include <string>

#include "backend/backend.h"

namespace varve::backend {

struct MaxPoolGradient {
  ir::NodePtr grad, drop;   // drop: null when there is none
  ir::NodePtr masked, sum;  // null: the ReLU's gradient does not follow; nobody asks for the sum over all pixels

  MaxPoolGradient(const Site& site, ir::NodePtr gradient, ir::NodePtr dropped);
  std::string text(bool with_mask) const;  // "dropout+max_pool2d_grad+relu_grad+bias_grad"
  // Takes what surrounds it into a claim of the gradient alone; the sum goes with the mask.
  void cover(Claim& claim, bool with_mask) const;
};

}  // namespace varve::backend
