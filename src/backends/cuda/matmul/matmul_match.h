// What stands around a product in the graph.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/match.h"
#include "backends/cuda/matmul/product.h"
#include "backends/cuda/matmul/split_k.h"

namespace varve::cuda::match {

using backend::behind_views;
using backend::is_read_only_by;
using backend::is_scalar;
using backend::number_of;

// Takes whatever makes the number that all elements of the value are into the claim, so that nobody computes it, unless
// others read it too.
void cover_number(const backend::Site& site, const ir::Value& value, backend::Claim& claim);

// The f32 state that the value is, rounded to 16 bits. Nothing where it is something else.
std::optional<ir::Value> state_behind_cast(const backend::Site& site, const ir::Value& value);
// Whether a kernel of this program puts the value where its allocator chose: on more bytes than anybody asks for.
bool is_computed(const ir::Value& value);

// What alone reads a matrix: a function of it and of other values of its type that this program computes; and the sums
// of the function's columns, where somebody wants them.
struct Following {
  std::vector<ir::NodePtr> nodes;
  ir::Value result;
  std::vector<ir::Value> inputs;  // beside the matrix
  expr::Code function;            // over the matrix and these
  ir::NodePtr sum;                // may be null
};
// The longest with at most this many other values.
std::optional<Following> following(const backend::Site& site, const ir::Value& matrix, std::size_t most_inputs);
Tail tail_of(const Following& following);
// The claim of the matrix, which is its last output, takes in what follows: inputs and outputs after all others.
void take_in(const Following& following, backend::Claim& claim);

}  // namespace varve::cuda::match
