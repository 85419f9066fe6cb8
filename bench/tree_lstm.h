// The workload of graphs that differ from sample to sample: a Tree-LSTM (Tai et al. 2015) over random binary trees.
#pragma once

#include "bench/workloads.h"
#include "varve/nn.h"

namespace varve::bench {

// A sample is a tree in postfix order, in as many numbers as the largest needs: a word's id (0 or more) is a leaf,
// kJoin takes the two trees before it, kNothing fills the rest.
inline constexpr std::int32_t kJoin = -1, kNothing = -2;
constexpr std::int64_t kFewestLeaves = 3, kMostLeaves = 17;

Tensor random_trees(std::int64_t count, std::int64_t vocabulary, std::int64_t seed);  // i32 [count, 33]

// Class scores [N, classes] of such samples. What it records follows from their values: it cannot be compiled.
class TreeLstm : public nn::Module {
 public:
  TreeLstm(const Workload& workload, std::int64_t seed);
  Tensor forward(Tensor x, Mode mode) override;
  std::string kind() const override { return "tree_lstm"; }

 private:
  struct Cell {
    Tensor h, c;
  };
  Cell leaf_of(const Tensor& word);
  Cell joined(const Cell& left, const Cell& right);
  Cell root(const std::int32_t* tree, std::int64_t length);

  nn::Embedding words_;
  nn::Dense leaf_, join_, out_;
};

}  // namespace varve::bench
