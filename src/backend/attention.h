// Attention's operands, and a gradient whose three parts are joined, as those of one projection to q, k and v are.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "backend/backend.h"

namespace varve::backend {

// Why kernels that take a head at a time leave this attention, or its gradient, to its decomposition; empty: they need
// not.
std::string heads_refusal(const ir::Node& node);

// The gradients of q, k and v as columns of one matrix.
struct JoinedHeads {
  ir::NodePtr concat;
  std::array<std::int64_t, 3> columns = {};  // the first ones of dq, dk, dv
};
std::optional<JoinedHeads> joined_after(const Site& site);

// One part of the joined gradient as a port of its own.
Port part_of(const Port& whole, const TensorType& type);

}  // namespace varve::backend
