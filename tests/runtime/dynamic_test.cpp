// Graphs that differ from example to example: equal calls are joined, and what was never met runs without the compiler.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <thread>

#include "base/threads.h"
#include "runtime/engine.h"
#include "runtime/training.h"
#include "varve/nn.h"
#include "varve/optim.h"

namespace varve::runtime {
namespace {

// A tree in postfix order: a word, or -1 that joins the two trees before it.
using Tree = std::vector<int>;

void grow(std::mt19937& draw, Tree& tree, unsigned leaves) {
  if (leaves == 1) return tree.push_back(static_cast<int>(draw() % 20));
  const unsigned left = 1 + draw() % (leaves - 1);
  grow(draw, tree, left);
  grow(draw, tree, leaves - left);
  tree.push_back(-1);
}

std::vector<Tree> forest(unsigned seed, std::size_t count) {
  std::mt19937 draw(seed);
  std::vector<Tree> trees(count);
  for (Tree& tree : trees) grow(draw, tree, 3 + draw() % 8);
  return trees;
}

// A small Tree-LSTM and its training step, recorded example by example.
struct Trees {
  struct Cell {
    Tensor h, c;
  };
  nn::Embedding words{20, 8};
  nn::Dense leaf{24}, join{40}, out{3};
  optim::Bound optimizer;

  explicit Trees(const optim::Optimizer& kind = optim::sgd(0.1)) {
    words.build({1}, {.dtype = i32, .seed = 1});
    leaf.build({8}, {.seed = 2});
    join.build({16}, {.seed = 3});
    out.build({8}, {.seed = 4});
    optimizer = kind.over(parameters());
  }
  std::vector<Variable> parameters() const {
    std::vector<Variable> all;
    for (const nn::Module* module : std::initializer_list<const nn::Module*>{&words, &leaf, &join, &out})
      for (const Variable& v : module->parameters()) all.push_back(v);
    return all;
  }

  Cell leaf_of(const Tensor& x) {
    const Tensors g = split(leaf(x), 3, 1);
    const Tensor c = sigmoid(g[0]) * tanh(g[2]);
    return {sigmoid(g[1]) * tanh(c), c};
  }
  Cell joined(const Cell& l, const Cell& r) {
    const Tensors g = split(join(concat({l.h, r.h}, 1)), 5, 1);
    const Tensor c = sigmoid(g[0]) * tanh(g[4]) + sigmoid(g[1]) * l.c + sigmoid(g[2]) * r.c;
    return {sigmoid(g[3]) * tanh(c), c};
  }
  Tensor scores(const Tree& tree) {
    std::vector<int> ids;
    for (const int node : tree)
      if (node >= 0) ids.push_back(node);
    const Tensors rows = split(words(tensor(ids)), static_cast<std::int64_t>(ids.size()), 0);
    std::vector<Cell> open;
    std::size_t next = 0;
    for (const int node : tree) {
      if (node >= 0) {
        open.push_back(leaf_of(rows[next++]));
      } else {
        const Cell right = open.back();
        open.pop_back();
        open.back() = joined(open.back(), right);
      }
    }
    return out(open[0].h);
  }
  Tensor loss(const std::vector<Tree>& trees) {
    Tensors all;
    std::vector<int> labels;
    for (const Tree& tree : trees) {
      all.push_back(scores(tree));
      labels.push_back(tree[0] % 3);
    }
    return cross_entropy(concat(all, 0), tensor(labels));
  }
  float step(const std::vector<Tree>& trees) {
    auto [value, grads] = value_and_grad([&] { return loss(trees); }, parameters());
    optimizer.apply(grads);
    return value.item<float>();
  }
  Floats values() const {
    Floats all;
    for (const Variable& v : parameters())
      for (const float x : v.value().to_vector<float>()) all.push_back(x);
    return all;
  }
};

class Without {
 public:
  explicit Without(const char* lever) { setenv("VARVE_WITHOUT", lever, 1); }
  ~Without() { unsetenv("VARVE_WITHOUT"); }
};

class Deterministic {
 public:
  Deterministic() { set_deterministic(true); }
  ~Deterministic() { set_deterministic(before_); }

 private:
  bool before_ = deterministic();
};

void expect_close(const Floats& a, const Floats& b, float bound) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], bound) << "at " << i;
}

TEST(Dynamic, JoinedCallsTrainAsSeparateOnesDo) {
  Trees together, apart;
  for (unsigned s = 0; s < 3; ++s) {
    const float loss = together.step(forest(s, 4));
    const Without lever("joining");
    EXPECT_NEAR(loss, apart.step(forest(s, 4)), 1e-5);
  }
  expect_close(together.values(), apart.values(), 1e-5f);
}

TEST(Dynamic, AStructureMetFirstMakesNoProgramOfItsOwn) {
  Trees model;
  clear_cache();
  model.step(forest(1, 4));
  EXPECT_EQ(cached_programs(), 0u);
}

TEST(Dynamic, ExamplesOfABatchHaveTheirOwnBitsWhenDeterministic) {
  const Deterministic on;
  Trees model;
  const std::vector<Tree> trees = forest(7, 9);
  Tensors all;
  for (const Tree& tree : trees) all.push_back(model.scores(tree));
  eval(all);
  for (std::size_t i = 0; i < trees.size(); ++i) {
    const Floats batched = all[i].to_vector<float>();
    EXPECT_EQ(model.scores(trees[i]).to_vector<float>(), batched) << i;  // by itself: as few calls are joined as can be
    const Without lever("joining");
    EXPECT_EQ(model.scores(trees[i]).to_vector<float>(), batched) << i;  // compiled as it was recorded
  }
}

TEST(Dynamic, AStructureMetAgainGivesTheSameBitsWhenDeterministic) {
  const Deterministic on;
  const std::vector<Tree> trees = forest(3, 5);
  Floats first;
  for (int round = 0; round < 4; ++round) {
    Trees model;  // the same weights
    const float loss = model.step(trees);
    Floats now = model.values();
    now.push_back(loss);
    if (round == 0) first = now;
    EXPECT_EQ(now, first) << "round " << round;
  }
}

TEST(Dynamic, AResumedLoopGoesOnBitForBit) {
  const Deterministic on;
  const auto adam = optim::adam(1e-2);
  Trees whole(adam), resumed(adam);
  std::vector<Variable> from = whole.parameters(), to = resumed.parameters();
  for (const Variable& v : whole.optimizer.state()) from.push_back(v);
  for (const Variable& v : resumed.optimizer.state()) to.push_back(v);
  Floats losses, again;
  for (unsigned s = 0; s < 6; ++s) {
    if (s == 3) {  // a checkpoint, and a process that has met nothing yet
      for (std::size_t i = 0; i < from.size(); ++i)
        to[i].assign(tensor(from[i].value().to_vector<float>(), from[i].shape()));
    }
    losses.push_back(whole.step(forest(s % 4, 4)));
  }
  clear_cache();
  for (unsigned s = 3; s < 6; ++s) again.push_back(resumed.step(forest(s % 4, 4)));
  EXPECT_EQ(Floats(losses.begin() + 3, losses.end()), again);
  EXPECT_EQ(whole.values(), resumed.values());
}

TEST(Dynamic, WhatIsHeldOnTheWayCanBeRead) {
  Trees model;
  const std::vector<Tree> trees = forest(5, 6);
  Tensors scores;
  auto [value, grads] = value_and_grad(
      [&] {
        for (const Tree& tree : trees) scores.push_back(model.scores(tree));
        return sum(concat(scores, 0));
      },
      model.parameters());
  float total = 0;
  for (const Tensor& each : scores)
    for (const float x : each.to_vector<float>()) total += x;
  EXPECT_NEAR(value.item<float>(), total, 1e-4);
}

// Of a value in the middle: what it was computed from stays as it is.
TEST(Dynamic, GradientsOfWhatWasComputedOnTheWay) {
  const auto both = [] {
    const Tensor x = tensor({{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}, {7.f, 8.f}});
    Tensors rows = split(x, 4, 0), hidden;
    for (Tensor& row : rows)
      for (int i = 0; i < 6; ++i) row = tanh(row * 0.5) + row;
    hidden = rows;
    for (Tensor& row : rows)
      for (int i = 0; i < 6; ++i) row = sin(row) * row;
    Tensor total;
    for (const Tensor& row : rows) total = total.defined() ? total + sum(row) : sum(row);
    Floats all;
    for (const Tensor& g : gradients(total, {hidden[1], x}))
      for (const float v : g.to_vector<float>()) all.push_back(v);
    all.push_back(total.item<float>());
    return all;
  };
  const Floats joined = both();
  const Without lever("joining");
  expect_close(joined, both(), 1e-3f);
}

TEST(Dynamic, SecondDerivativesFlowThroughJoinedCalls) {
  const auto second = [] {
    const auto f = [](const Tensor& w) {
      Tensor total = zeros({});
      for (int i = 0; i < 12; ++i) {
        Tensor h = tensor({0.1f * static_cast<float>(i), 0.5f});
        for (int k = 0; k < 4; ++k) h = tanh(h * w);
        total = total + sum(h);
      }
      return total;
    };
    return grad([&](const Tensor& w) { return sum(square(grad(f)(w))); })(tensor({0.7f, -0.4f})).to_vector<float>();
  };
  const Floats joined = second();
  const Without lever("joining");
  expect_close(joined, second(), 1e-4f);
}

TEST(Dynamic, AGradientOfItsOwnIsLeftAlone) {
  const auto double_gradient =
      custom_gradient([](const Tensors& in) { return Tensors{square(in[0])}; },
                      [](const Tensors& in, const Tensors&, const Tensors& dy) { return Tensors{4 * in[0] * dy[0]}; });
  const Tensor g = grad([&](const Tensor& w) {
    Tensor total = zeros({});
    for (int i = 0; i < 20; ++i) total = total + sum(double_gradient({w * static_cast<double>(i + 2)})[0]);
    return total;
  })(tensor({1.f}));
  float expected = 0;
  for (int i = 0; i < 20; ++i) expected += 4.f * static_cast<float>((i + 2) * (i + 2));
  EXPECT_NEAR(g.item<float>(), expected, 1e-1);
}

TEST(Dynamic, AnIdOutOfRangeIsNamedAndNothingIsUpdated) {
  Trees model;
  const Floats before = model.values();
  std::vector<Tree> trees = forest(2, 4);
  trees[1][0] = 20;
  const std::string error = error_of([&] { model.step(trees); });
  EXPECT_TRUE(contains(error, "[0, 20)") && contains(error, "Got 20")) << error;
  EXPECT_EQ(model.values(), before);
}

TEST(Dynamic, ThreadsTrainTheirOwnTrees) {
  Trees alone;
  std::vector<Trees> models(3);
  for (unsigned s = 0; s < 3; ++s) alone.step(forest(s, 3));
  std::vector<std::thread> workers;
  for (Trees& model : models)
    workers.emplace_back([&model] {
      for (unsigned s = 0; s < 3; ++s) model.step(forest(s, 3));
    });
  for (std::thread& worker : workers) worker.join();
  for (const Trees& model : models) expect_close(model.values(), alone.values(), 1e-6f);
}

// Random graphs over few operators, with and without joining.
TEST(Dynamic, RandomGraphsComputeTheSame) {
  const auto run = [](unsigned seed) {
    std::mt19937 draw(seed);
    const Tensor w = normal({6, 6}, {.seed = 3}) * 0.4;
    return value_and_grad([&](const Tensor& x) {
      Tensors values = split(x, 5, 0);
      for (int i = 0; i < 120; ++i) {
        const Tensor a = values[draw() % values.size()], b = values[draw() % values.size()];
        switch (draw() % 8) {
          case 0:
            values.push_back(tanh(matmul(a, w)));
            break;
          case 1:
            values.push_back(a * b);
            break;
          case 2:
            values.push_back(sigmoid(a + b));
            break;
          case 3:
            values.push_back(slice(concat({a, b}, 1), {{}, {3, 9}}));
            break;
          case 4:
            values.push_back(softmax(a));
            break;
          case 5:
            values.push_back(a - mean(b));
            break;
          case 6:
            values.push_back(transpose(transpose(a, {1, 0}) * 0.5, {1, 0}));
            break;
          default:
            values.push_back(slice(concat({b, a}, 0), {{1, 2}}));
            break;
        }
      }
      Tensor total;
      for (const Tensor& value : values) total = total.defined() ? total + mean(value) : mean(value);
      return total;
    })(normal({5, 6}, {.seed = seed}));
  };
  for (unsigned seed = 0; seed < 6; ++seed) {
    const auto [value, gradient] = run(seed);
    const Floats joined = gradient.to_vector<float>();
    const float loss = value.item<float>();
    const Without lever("joining");
    const auto [other, apart] = run(seed);
    EXPECT_NEAR(loss, other.item<float>(), 1e-3);
    expect_close(joined, apart.to_vector<float>(), 2e-3f);
  }
}

}  // namespace
}  // namespace varve::runtime
