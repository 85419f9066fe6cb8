// A small problem that a network can learn in a second.
#pragma once

#include <varve/varve.h>

#include <cstring>

#include "temporary_folder.h"

namespace varve::train_tests {

using Folder = test::TemporaryFolder;

// Points of 8 numbers in 3 classes: the largest of three of their sums.
inline data::Dataset points(std::int64_t count, std::int64_t seed) {
  const Tensor x = normal({count, 8}, {.seed = seed, .stream = "points"});
  const Tensor directions = normal({8, 3}, {.seed = 5, .stream = "directions"});
  const Tensor y = cast(argmax(matmul(x, directions)), i32);
  return data::from_tensors(x.eval(), y.eval(), {.name = "points", .classes = {"a", "b", "c"}, .vocabulary = nullptr});
}

inline nn::Sequential small_network() {
  return nn::sequential(nn::dense(32, {.activation = nn::relu}), nn::batch_norm(), nn::dropout(0.2), nn::dense(3));
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::memcmp(a.eval().data(), b.eval().data(), a.type().bytes()) == 0;
}

}  // namespace varve::train_tests
