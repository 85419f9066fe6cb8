// Small patterns that larger ones are made of: what a value is, who reads it, what it depends on.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend/backend.h"

namespace varve::backend {

inline bool is_scalar(const ir::Value& value) { return value.type().shape.rank() == 0; }

// The value behind views.
const ir::Value& behind_views(const ir::Value& value);

// A scalar that is known now.
std::optional<double> number_of(const ir::Value& value);
// The number that all elements of the value are, where that is known now.
std::optional<double> number_behind(const ir::Value& value);

// Whether the value is computed from what the node gives.
bool depends_on(const ir::Value& value, const ir::Node* node);

// Whoever reads a value, itself or through views of it.
struct Reader {
  ir::NodePtr node;
  int input;
  ir::Value value;  // what it reads
};
// Nothing when the value or a view of it is an output of the graph.
std::optional<std::vector<Reader>> readers_of(const Site& site, const ir::Value& value);
bool is_read_only_by(const Site& site, const ir::Value& value, const std::vector<ir::NodePtr>& nodes);

// Whether the value is rows [first, first + count) of a contiguous base [.., C], as a matrix.
bool is_rows_of(const ir::Value& value, const ir::Value& base, std::int64_t first, std::int64_t count);

// A node that adds one number to each column of a value and is all that reads it.
struct BiasAdd {
  ir::NodePtr node;
  ir::Value bias;  // [N], or that with axes of size 1 before it
};
std::optional<BiasAdd> bias_after(const Site& site, const ir::Value& value);

// The dropout that is all that reads this value, or null.
ir::NodePtr dropout_after(const Site& site, const ir::Value& value);
// Takes the dropout into a claim whose first output it reads; seed and counter become its last inputs.
void cover_dropout(Claim& claim, const ir::NodePtr& dropout);

}  // namespace varve::backend
