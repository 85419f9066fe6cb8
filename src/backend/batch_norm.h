// Batch norm in training with what surrounds it: the addition and ReLU that follow, and in the backward pass the
// gradient of that ReLU.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"

namespace varve::backend {

struct NormFollowers {
  std::vector<ir::NodePtr> nodes;  // add, relu
  ir::Value added;
  bool relu = false;

  std::string text() const;  // "+add+relu"
};
// All that can follow, the longest first, and nothing last. Each step is the sole user of the one before.
std::vector<NormFollowers> norm_followers(const Site& site);

// What stands before the gradient. Inputs of its kernel: x, dy, scale, mean, variance (, also) (, more); outputs: dx,
// dscale, dshift (, what passed the ReLU).
struct NormSource {
  std::vector<ir::NodePtr> nodes;  // relu_grad, add
  ir::Value dy, more;              // the gradient is that of their sum
  ir::Value also;                  // the ReLU's output; or the shift, with which its input is recomputed
  bool recomputes = false;         // the second
  bool passes = false;             // others read what passed the ReLU

  std::string text() const;  // "+add+relu_grad"
  // Takes the nodes into a claim of the gradient alone.
  void cover(Claim& claim) const;
};
// What can be taken along, the most first, and nothing last.
std::vector<NormSource> norm_sources(const Site& site);

}  // namespace varve::backend
