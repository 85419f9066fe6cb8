// What stands around a product in the graph.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/update.h"
#include "backends/cuda/matmul/product.h"
#include "backends/cuda/matmul/split_k.h"

namespace varve::cuda::match {

using backend::behind_views;
using backend::is_scalar;

inline Transposes transposes_of(const ir::Node& matmul) {
  return {matmul.attrs.flag("transpose_a"), matmul.attrs.flag("transpose_b")};
}

// A scalar that is known now.
std::optional<double> number_of(const ir::Value& value);

// The number that all elements of the value are, where that is known now; and into the claim with whatever makes it, so
// that nobody does, unless others read it too.
std::optional<double> number_behind(const ir::Value& value);
void cover_number(const backend::Site& site, const ir::Value& value, backend::Claim& claim);

// The f32 state that the value is, rounded to 16 bits. Nothing where it is something else.
std::optional<ir::Value> state_behind_cast(const backend::Site& site, const ir::Value& value);
// Whether a kernel of this program puts the value where its allocator chose: on more bytes than anybody asks for.
bool is_computed(const ir::Value& value);

// A node that adds one number to each column [N] of a value and is all that reads it.
struct BiasAdd {
  ir::NodePtr node;
  ir::Value bias;
};
std::optional<BiasAdd> bias_after(const backend::Site& site, const ir::Value& value);

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

// Whoever reads a value, itself or through views of it.
struct Reader {
  ir::NodePtr node;
  int input;
  ir::Value value;  // what it reads
};
// Nothing when the value or a view of it is an output of the graph.
std::optional<std::vector<Reader>> readers_of(const backend::Site& site, const ir::Value& value);

bool is_read_only_by(const backend::Site& site, const ir::Value& value, const std::vector<ir::NodePtr>& nodes);

// Whether the value is all of a contiguous base [.., C], as a matrix of this many rows.
bool is_matrix_of(const ir::Value& value, const ir::Value& base, std::int64_t rows);

// Whether the value is computed from what the node gives.
bool is_computed_from(const ir::Value& value, const ir::Node* node);

}  // namespace varve::cuda::match
