// What may follow a product or convolution within one kernel: a bias for each column, then an activation.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/followers.h"
#include "backends/cpu/onednn/onednn.h"

namespace varve::cpu {

// All that can follow this node in its own type, the longest first. `terms` is the length of the sums before it: a
// short one is soon done, and an activation better left to the next generated group.
std::vector<backend::Followers> followers_of(const backend::Site& site, std::int64_t terms);

// The same for kernels, which outlive the graph.
struct Epilogue {
  bool biased = false;
  dnn::Activation activation = dnn::Activation::none;

  Epilogue() = default;
  explicit Epilogue(const backend::Followers& followers);

  bool empty() const { return !biased && activation == dnn::Activation::none; }
#ifdef VARVE_HAS_ONEDNN
  // Itself as a pass over a result [rows, columns] that lacks it.
  dnn::Matmul alone(std::int64_t rows, std::int64_t columns) const;
#endif
};

}  // namespace varve::cpu
