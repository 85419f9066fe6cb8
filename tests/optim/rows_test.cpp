// Updates of the rows of a table that were read.
#include "optim/problem.h"
#include "varve/indexing.h"

namespace varve::optim {
namespace {

using Floats = std::vector<float>;

struct Table {
  Variable table{"table", reshape(arange(0, 60, 1), {20, 3}) * 0.1};
  Variable bias{"bias", tensor({0.5f, -0.5f, 1.f})};

  Tensor loss(const Tensor& ids) const { return sum(square(tanh(embedding(table, ids)) + bias)); }
  std::vector<Variable> parameters() const { return {table, bias}; }
  void step(Bound& bound, const std::vector<int>& ids) const {
    const Tensor at = tensor(ids);
    bound.apply(value_and_grad([&] { return loss(at); }, parameters()).second);
  }
  // A gradient that is not known to be one of rows.
  void dense_step(Bound& bound, const std::vector<int>& ids) const {
    const Tensor at = tensor(ids);
    std::vector<Tensor> grads = value_and_grad([&] { return loss(at); }, parameters()).second;
    grads[0].eval();
    bound.apply(grads);
  }
  Floats values() const {
    Floats all = table.value().to_vector<float>();
    for (const float x : bias.value().to_vector<float>()) all.push_back(x);
    return all;
  }
};

const std::vector<std::vector<int>> kSteps = {{3, 7, 3}, {0}, {19, 3, 19, 19, 4}, {7, 7}};

TEST(Rows, WhereAZeroGradientChangesNothingRowsAloneGiveTheSameBits) {
  for (const Optimizer& kind : {sgd(0.1), adagrad(0.1)}) {
    Table rows, dense;
    Bound by_rows = kind.over(rows.parameters()), by_table = kind.over(dense.parameters());
    for (const auto& ids : kSteps) {
      rows.step(by_rows, ids);
      dense.dense_step(by_table, ids);
    }
    EXPECT_EQ(rows.values(), dense.values()) << kind.name();
  }
}

TEST(Rows, LazyRowsAreUpdatedByTheRuleAndOthersAreLeft) {
  for (const Optimizer& kind :
       {adam(0.1, {.lazy = true}), sgd(0.1, {.momentum = 0.9, .lazy = true}), rmsprop(0.1, {.lazy = true}),
        rmsprop(0.1, {.momentum = 0.5, .lazy = true}), adamw(0.1, {.weight_decay = 0.1, .lazy = true}),
        adadelta(1, {.lazy = true}), adagrad(0.1, {.weight_decay = 0.1, .lazy = true})}) {
    Table lazy, dense;
    Bound bound = kind.over(lazy.parameters()), all = kind.over(dense.parameters());
    const Floats before = lazy.values();
    lazy.step(bound, {3, 7, 3});
    dense.dense_step(all, {3, 7, 3});
    const Floats now = lazy.values(), expected = dense.values();
    for (std::size_t i = 0; i < now.size(); ++i) {
      const bool read = i / 3 == 3 || i / 3 == 7 || i >= 60;
      EXPECT_FLOAT_EQ(now[i], read ? expected[i] : before[i]) << kind.name() << " " << i;
    }
  }
}

TEST(Rows, ALoopAndAProgramAgree) {
  for (const Optimizer& kind : {adam(0.1, {.lazy = true}), sgd(0.1), adagrad(0.1, {.lazy = true})}) {
    Table looped, compiled;
    Bound bound = kind.over(looped.parameters()), inside = kind.over(compiled.parameters());
    auto step = compile([&](const Tensor& ids) {
      const auto [loss, grads] = value_and_grad([&] { return compiled.loss(ids); }, compiled.parameters());
      inside.apply(grads);
      return loss;
    });
    for (const auto& ids : kSteps) {
      looped.step(bound, ids);
      step(tensor(ids));
    }
    const Floats a = looped.values(), b = compiled.values();
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6) << kind.name() << " " << i;
  }
}

TEST(Rows, ClippingSeesEachRowOnce) {
  Optimizer kind = sgd(1);
  kind.clip_norm(0.25);
  Table rows, dense;
  Bound by_rows = kind.over(rows.parameters()), by_table = kind.over(dense.parameters());
  for (const auto& ids : kSteps) {
    rows.step(by_rows, ids);
    dense.dense_step(by_table, ids);
  }
  const Floats a = rows.values(), b = dense.values();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6) << i;
}

TEST(Rows, TheTableStaysWhereItLies) {
  Table table;
  Bound bound = adam(0.1, {.lazy = true}).over(table.parameters());
  table.step(bound, {1, 2});
  const void* const before = table.table.value().data();
  table.step(bound, {2, 5, 5});
  EXPECT_EQ(table.table.value().data(), before);
}

TEST(Rows, ATableReadTwiceHasOneListOfRows) {
  Table rows, dense;
  Bound by_rows = sgd(0.1).over(rows.parameters()), by_table = sgd(0.1).over(dense.parameters());
  const auto gradients = [](const Table& t) {
    return value_and_grad(
               [&] {
                 return t.loss(tensor({1, 4})) + sum(gather(t.table, tensor({{4, 9}, {0, 4}})) * 2);
               },
               t.parameters())
        .second;
  };
  const std::vector<Tensor> grads = gradients(rows);
  const auto known = gradient_rows(grads[0]);
  ASSERT_TRUE(known);
  EXPECT_EQ(known->rows.to_vector<int>(), (std::vector<int>{1, 4, 4, 9, 0, 4}));
  EXPECT_FALSE(gradient_rows(grads[1]));
  by_rows.apply(grads);
  std::vector<Tensor> whole = gradients(dense);
  whole[0].eval();
  EXPECT_FALSE(gradient_rows(whole[0]));
  by_table.apply(whole);
  const Floats a = rows.values(), b = dense.values();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6) << i;
}

}  // namespace
}  // namespace varve::optim
