// What kernels for one node share: offering one, an axis as three nested loops, launches.
#pragma once

#include <algorithm>
#include <string>

#include "backends/cuda/claims.h"
#include "backends/cuda/context.h"
#include "backends/cuda/function.h"
#include "base/text.h"

namespace varve::cuda {

// One node, with the operands that its kernel will see. The makers copy what the kernel keeps.
struct Task {
  const std::string& op;
  const Attrs& attrs;
  const std::vector<backend::Port>& in;
  const std::vector<backend::Port>& out;

  const Shape& shape_in(std::size_t i) const { return in[i].type.shape; }
  const Shape& shape_out(std::size_t i = 0) const { return out[i].type.shape; }
  DType dtype_in(std::size_t i) const { return in[i].type.dtype; }
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

// A contiguous tensor along one axis: element k of row (o, i) lies at (o · size + k) · inner + i. Not for empty tensors
// with more than one axis beside an empty one: their outer and inner sizes need not fit an integer.
struct Rows {
  std::int64_t outer = 1, size = 1, inner = 1;

  Rows(const Shape& shape, std::int64_t axis) {
    for (int a = 0; a < shape.rank(); ++a) (a < axis ? outer : a == axis ? size : inner) *= shape[a];
  }
};

inline std::int64_t element_bytes(DType dtype) { return static_cast<std::int64_t>(size_of(dtype)); }

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Whether all of these addresses suit accesses of so many bytes.
template <class... Pointers>
bool aligned(std::int64_t bytes, const Pointers*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % static_cast<std::uintptr_t>(bytes) == 0) && ...);
}

// For kernels whose threads go on to further items: blocks for so many items, no more than fill the GPU a few times.
inline Launch striding(std::int64_t items, int block = 256) {
  constexpr std::int64_t kWaves = 16;  // of 256 threads on a multiprocessor, which holds 8
  return {.grid = std::min(ceil_div(items, block), kWaves * gpu().multiprocessors * 256 / block), .block = block};
}

}  // namespace varve::cuda
