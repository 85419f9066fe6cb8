// How a backend lists its kernels: functions that offer kernels for a site, by operator name; and, for families that
// offer a kernel for every call of an operator, one node with the operands that its kernel will see.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace varve::backend {

// Appends offers and refusals, the best first.
using ClaimFn = std::function<void(const Site& site, std::vector<Claim>& claims)>;
using ClaimMap = std::map<std::string, std::vector<ClaimFn>>;

// What the functions listed for this operator say; a refusal by the backend when there are none.
std::vector<Claim> claims_of(const ClaimMap& map, const Site& site, const std::string& backend);

// The makers copy what the kernel keeps.
struct Task {
  const std::string& op;
  const Attrs& attrs;
  const std::vector<Port>& in;
  const std::vector<Port>& out;

  const Shape& shape_in(std::size_t i = 0) const { return in[i].type.shape; }
  const Shape& shape_out(std::size_t i = 0) const { return out[i].type.shape; }
  DType dtype_in(std::size_t i = 0) const { return in[i].type.dtype; }
  DType dtype_out(std::size_t i = 0) const { return out[i].type.dtype; }
};
using Maker = Prepared (*)(const Task& task);

// A claim of this node alone. Keeps no node: a program outlives the graph it came from.
Claim claim_of(std::string kernel, const ir::NodePtr& node, Maker make);
// Offers the kernel for every call of the operator, as "<backend> <operator>".
void offer(ClaimMap& map, const std::string& backend, const std::string& op, Maker make);

// For calls that have nothing to compute.
inline Prepared nothing() {
  return prepared([](const RunArgs&) {});
}

// A contiguous tensor along one axis: element k of row (o, i) lies at (o · size + k) · inner + i. Not for empty tensors
// with more than one axis beside an empty one: their outer and inner sizes need not fit an integer.
struct Rows {
  std::int64_t outer = 1, size = 1, inner = 1;

  Rows(const Shape& shape, std::int64_t axis) {
    for (int a = 0; a < shape.rank(); ++a) (a < axis ? outer : a == axis ? size : inner) *= shape[a];
  }
};

}  // namespace varve::backend
