// What may follow a convolution within its kernel: a bias for each channel, then a ReLU.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "backends/cuda/conv/conv_algorithm.h"

namespace varve::cuda {

struct ConvFollowers {
  std::vector<ir::NodePtr> nodes;  // in order; what the last one gives is the kernel's output
  ir::Value bias;
  ConvEpilogue epilogue;

  std::string text() const;  // "+bias+relu"
  // Takes the nodes into a claim of the convolution alone; the bias becomes its last input.
  void cover(backend::Claim& claim) const;
};

// All that can follow this node, the longest first, and nothing last. Each step is the sole user of the one before.
std::vector<ConvFollowers> followers_of_conv(const backend::Site& site);

}  // namespace varve::cuda
