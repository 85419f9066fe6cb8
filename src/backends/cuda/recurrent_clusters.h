// Clusters: blocks on neighbouring multiprocessors that reach each other's shared memory.
#pragma once

namespace varve::cuda {

// How many clusters of this many blocks run at a time where every block has a multiprocessor to itself.
struct Clusters {
  int of_two = 0, of_four = 0, of_eight = 0;

  int of(int blocks) const { return blocks == 2 ? of_two : blocks == 4 ? of_four : blocks == 8 ? of_eight : 0; }
};

// Of the GPU at hand; none where it has no clusters, or without a GPU.
const Clusters& clusters_of_gpu();

}  // namespace varve::cuda
