// Calls that only move rows: done where they lie, without a program, whatever their sizes are.
#pragma once

#include <memory>
#include <vector>

#include "ir/array.h"
#include "ir/node.h"

namespace varve::runtime {

bool only_moves(const ir::Node& node);

// Whether `out`, in row-major order in the processor's memory, was written. False: a program must do it, and say what
// is wrong with a position that is out of range.
bool move_rows(const ir::Node& node, const std::vector<std::shared_ptr<const ir::Array>>& in, const ir::Array& out);

}  // namespace varve::runtime
