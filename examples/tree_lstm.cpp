// A Tree-LSTM (Tai et al. 2015): the network of each sentence follows its parse. Written for one tree; a batch of trees
// is a loop, and calls that are equal run together.
#include <varve/varve.h>

#include <iostream>
#include <memory>
#include <random>

namespace vv = varve;
namespace nn = vv::nn;

// A leaf has a word, an inner node two children.
struct Tree {
  int word = 0;
  std::unique_ptr<Tree> left, right;
};

struct TreeLstm : nn::Module {
  nn::Embedding words;
  nn::Dense leaf, join, out;

  TreeLstm(int vocabulary, int width, int classes)
      : words(vocabulary, width), leaf(3 * width), join(5 * width), out(classes) {
    add("words", words);
    add("leaf", leaf);
    add("join", join);
    add("out", out);
    words.build({1}, {.dtype = vv::i32});
    leaf.build({width}, {.seed = 1});
    join.build({2 * width}, {.seed = 2});
    out.build({width}, {.seed = 3});
  }
  std::string kind() const override { return "tree_lstm"; }

  struct Cell {
    vv::Tensor h, c;
  };
  Cell cell(const Tree& tree) {
    if (!tree.left) {
      const auto gates = vv::split(leaf(words(vv::tensor({tree.word}))), 3, 1);
      const vv::Tensor c = vv::sigmoid(gates[0]) * vv::tanh(gates[2]);
      return {vv::sigmoid(gates[1]) * vv::tanh(c), c};
    }
    const Cell l = cell(*tree.left), r = cell(*tree.right);
    const auto gates = vv::split(join(vv::concat({l.h, r.h}, 1)), 5, 1);
    const vv::Tensor c =
        vv::sigmoid(gates[0]) * vv::tanh(gates[4]) + vv::sigmoid(gates[1]) * l.c + vv::sigmoid(gates[2]) * r.c;
    return {vv::sigmoid(gates[3]) * vv::tanh(c), c};
  }
  vv::Tensor scores(const Tree& tree) { return out(cell(tree).h); }
};

std::unique_ptr<Tree> random_tree(std::mt19937& draw, unsigned leaves) {
  auto tree = std::make_unique<Tree>();
  if (leaves == 1) {
    tree->word = static_cast<int>(draw() % 50);
    return tree;
  }
  const unsigned left = 1 + draw() % (leaves - 1);
  tree->left = random_tree(draw, left);
  tree->right = random_tree(draw, leaves - left);
  return tree;
}

// Which of the two subtrees under the root has the larger first word.
int label_of(const Tree& tree) {
  const Tree *left = tree.left.get(), *right = tree.right.get();
  while (left->left) left = left->left.get();
  while (right->left) right = right->left.get();
  return left->word < right->word;
}

int main() {
  TreeLstm model(50, 32, 2);
  auto adam = vv::optim::adam(5e-3, {.lazy = true}).over(model.parameters());
  std::mt19937 draw(1);
  float first = 0, last = 0;
  for (int step = 0; step < 90; ++step) {
    std::vector<std::unique_ptr<Tree>> trees;
    std::vector<int> labels;
    for (int i = 0; i < 32; ++i) {
      trees.push_back(random_tree(draw, 3 + draw() % 5));
      labels.push_back(label_of(*trees.back()));
    }
    auto [loss, grads] = vv::value_and_grad(
        [&] {
          std::vector<vv::Tensor> scores;
          for (const auto& tree : trees) scores.push_back(model.scores(*tree));
          return vv::cross_entropy(vv::concat(scores, 0), vv::tensor(labels));
        },
        model.parameters());
    adam.apply(grads);
    last = step == 0 ? loss.item<float>() : 0.9f * last + 0.1f * loss.item<float>();
    if (step == 0) first = last;
    if (step % 30 == 29) std::cout << "step " << step + 1 << "  loss " << last << '\n';
  }
  return last < 0.9f * first ? 0 : 1;
}
