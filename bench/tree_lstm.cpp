#include "bench/tree_lstm.h"

#include <random>

#include "base/text.h"
#include "varve/ops.h"

namespace varve::bench {
namespace {

class Grower {
 public:
  Grower(std::int64_t vocabulary, std::int64_t seed)
      : vocabulary_(vocabulary), draw_(static_cast<std::uint64_t>(seed)) {}

  std::vector<std::int32_t> tree() {
    nodes_.clear();
    grow(kFewestLeaves + below(kMostLeaves - kFewestLeaves + 1));
    return nodes_;
  }

 private:
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(draw_() % static_cast<std::uint64_t>(count));
  }
  void grow(std::int64_t leaves) {
    if (leaves == 1) return nodes_.push_back(static_cast<std::int32_t>(below(vocabulary_)));
    const std::int64_t left = 1 + below(leaves - 1);
    grow(left);
    grow(leaves - left);
    nodes_.push_back(kJoin);
  }

  std::int64_t vocabulary_;
  std::mt19937_64 draw_;
  std::vector<std::int32_t> nodes_;
};

}  // namespace

Tensor random_trees(std::int64_t count, std::int64_t vocabulary, std::int64_t seed) {
  Grower grower(vocabulary, seed);
  const std::int64_t length = 2 * kMostLeaves - 1;
  std::vector<std::int32_t> all;
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<std::int32_t> tree = grower.tree();
    tree.resize(static_cast<std::size_t>(length), kNothing);
    all.insert(all.end(), tree.begin(), tree.end());
  }
  return tensor(all, {count, length});
}

TreeLstm::TreeLstm(const Workload& w, std::int64_t seed)
    : words_(w.vocabulary, w.network.embedded),
      leaf_(3 * w.network.width),
      join_(5 * w.network.width),
      out_(w.classes) {
  add("words", words_);
  add("leaf", leaf_);
  add("join", join_);
  add("out", out_);
  words_.build({1}, {.dtype = i32, .seed = seed});
  leaf_.build({w.network.embedded}, {.seed = seed + 1});
  join_.build({2 * w.network.width}, {.seed = seed + 2});
  out_.build({w.network.width}, {.seed = seed + 3});
}

TreeLstm::Cell TreeLstm::leaf_of(const Tensor& word) {
  const std::vector<Tensor> gates = split(leaf_(word), 3, 1);  // input, output, update
  const Tensor c = sigmoid(gates[0]) * tanh(gates[2]);
  return {sigmoid(gates[1]) * tanh(c), c};
}

TreeLstm::Cell TreeLstm::joined(const Cell& left, const Cell& right) {
  const std::vector<Tensor> gates =
      split(join_(concat({left.h, right.h}, 1)), 5, 1);  // input, 2 forget, output, update
  const Tensor c = sigmoid(gates[0]) * tanh(gates[4]) + sigmoid(gates[1]) * left.c + sigmoid(gates[2]) * right.c;
  return {sigmoid(gates[3]) * tanh(c), c};
}

TreeLstm::Cell TreeLstm::root(const std::int32_t* tree, std::int64_t length) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < length; ++i)
    if (tree[i] >= 0) ids.push_back(tree[i]);
  if (ids.empty()) throw Error("tree_lstm: a tree without leaves.");
  const std::vector<Tensor> words = split(words_(tensor(ids)), static_cast<std::int64_t>(ids.size()), 0);
  std::vector<Cell> open;
  std::size_t next = 0;
  for (std::int64_t i = 0; i < length && tree[i] != kNothing; ++i) {
    if (tree[i] >= 0) {
      open.push_back(leaf_of(words[next++]));
      continue;
    }
    if (open.size() < 2)
      throw Error(cat("tree_lstm: position ", i, " joins two trees, but ", open.size(), " are open."));
    const Cell right = open.back();
    open.pop_back();
    open.back() = joined(open.back(), right);
  }
  if (open.size() != 1) throw Error(cat("tree_lstm: a sample ends with ", open.size(), " trees; expected one."));
  return open[0];
}

Tensor TreeLstm::forward(Tensor x, Mode) {
  const std::vector<std::int32_t> nodes = x.to_vector<std::int32_t>();
  std::vector<Tensor> roots;
  for (std::int64_t i = 0; i < x.dim(0); ++i) roots.push_back(root(nodes.data() + i * x.dim(1), x.dim(1)).h);
  return out_(concat(roots, 0));
}

}  // namespace varve::bench
