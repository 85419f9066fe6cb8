// Small patterns that larger ones are made of.
#pragma once

#include <optional>

#include "backend/backend.h"

namespace varve::cpu {

// A node that adds one number to each column [N] of a value and is all that reads it.
struct BiasAdd {
  ir::NodePtr node;
  ir::Value bias;
};
std::optional<BiasAdd> bias_after(const backend::Site& site, const ir::Value& value);

// Whoever reads a value, itself or through views of it.
struct Reader {
  ir::NodePtr node;
  int input;
  ir::Value value;  // what it reads
};
// Nothing when the value or a view of it is an output of the graph.
std::optional<std::vector<Reader>> readers_of(const backend::Site& site, const ir::Value& value);

// Whether the value is rows [first, first + count) of a contiguous base [.., C], as a matrix.
bool is_rows_of(const ir::Value& value, const ir::Value& base, std::int64_t first, std::int64_t count);

// The value behind views.
const ir::Value& behind_views(const ir::Value& value);

}  // namespace varve::cpu
