// One node with the operands that its kernel will see, for families that offer a kernel for every call of an operator.
#pragma once

#include <cstdint>
#include <string>

#include "backends/cuda/claims.h"
#include "base/text.h"

namespace varve::cuda {

// The makers copy what the kernel keeps.
struct Task {
  const std::string& op;
  const Attrs& attrs;
  const std::vector<backend::Port>& in;
  const std::vector<backend::Port>& out;

  const Shape& shape_in(std::size_t i = 0) const { return in[i].type.shape; }
  const Shape& shape_out(std::size_t i = 0) const { return out[i].type.shape; }
  DType dtype_in(std::size_t i = 0) const { return in[i].type.dtype; }
  DType dtype_out(std::size_t i = 0) const { return out[i].type.dtype; }
};
using Maker = backend::Prepared (*)(const Task& task);

// A claim of this node alone. Keeps no node: a program outlives the graph it came from.
inline backend::Claim claim_of(const ir::NodePtr& node, Maker make) {
  const std::string& op = node->op->name;
  return backend::Claim::of(
      cat("cuda ", op), node,
      [make, op, attrs = node->attrs](const std::vector<backend::Port>& in, const std::vector<backend::Port>& out) {
        return make({op, attrs, in, out});
      });
}

// Offers the kernel for every call of the operator.
inline void offer(ClaimMap& map, const std::string& name, Maker make) {
  map[name].push_back([make](const backend::Site& site, std::vector<backend::Claim>& claims) {
    claims.push_back(claim_of(site.root(), make));
  });
}

// For calls that have nothing to compute.
inline backend::Prepared nothing() {
  return backend::prepared([](const backend::RunArgs&) {});
}

// A contiguous tensor along one axis: element k of row (o, i) lies at (o · size + k) · inner + i. Not for empty ones.
struct Rows {
  std::int64_t outer = 1, size = 1, inner = 1;

  Rows(const Shape& shape, std::int64_t axis) {
    for (int a = 0; a < shape.rank(); ++a) (a < axis ? outer : a == axis ? size : inner) *= shape[a];
  }
};

}  // namespace varve::cuda
