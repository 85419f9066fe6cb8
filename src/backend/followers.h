// What may follow a product or convolution within its kernel: a bias for each column, then an activation.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace varve::backend {

struct Followers {
  std::vector<ir::NodePtr> nodes;  // in order; what the last one gives is the kernel's output
  ir::Value bias;                  // null node: none
  std::string activation;          // the operator; empty: none

  bool biased() const { return bias.node != nullptr; }
  std::string text() const;  // "+bias+relu"
  // Takes the nodes into a claim of the product alone; the bias becomes its last input.
  void cover(Claim& claim) const;
};

// All that can follow this node in its own type, the longest first. Each step is the sole user of the one before.
std::vector<Followers> followers_of(const Site& site, const std::function<bool(const ir::Node&)>& takes_activation);

}  // namespace varve::backend
