// What may follow a product or convolution within one kernel: a bias for each column, then an activation.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "backends/cpu/onednn/onednn.h"

namespace varve::cpu {

struct Epilogue {
  std::vector<ir::NodePtr> nodes;  // in order; what the last one gives is the kernel's output
  ir::Value bias;                  // null node: none
  bool biased = false;
  dnn::Activation activation = dnn::Activation::none;
  std::string activation_name;

  bool empty() const { return !biased && activation == dnn::Activation::none; }
  std::string text() const;  // "+bias+relu"
  // For kernels, which outlive the graph.
  Epilogue without_nodes() const;
#ifdef VARVE_HAS_ONEDNN
  // Itself as a pass over a result [rows, columns] that lacks it.
  dnn::Matmul alone(std::int64_t rows, std::int64_t columns) const;
#endif
  // Takes the nodes into a claim of the product alone; the bias becomes its last input.
  void cover(backend::Claim& claim) const;
};

// All that can follow this node in its own type, the longest first. Each step is the sole user of the one before.
// `terms` is the length of the sums before it: a short one is soon done, and an activation better left to the next
// generated group.
std::vector<Epilogue> epilogues_after(const backend::Site& site, std::int64_t terms);

}  // namespace varve::cpu
