// Options that no operator can accept are refused at the call, and the message says what was wrong.
#include "ops/refusal.h"

#include <gtest/gtest.h>

#include <cmath>

#include "varve/indexing.h"

namespace varve::test {

void expect_refused(const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    try {
      refusal.call();
      ADD_FAILURE() << refusal.what << " was accepted";
    } catch (const Error& e) {
      EXPECT_GT(std::string(e.what()).size(), 10u) << refusal.what;
    } catch (const std::exception& e) {
      ADD_FAILURE() << refusal.what << " threw something else than Error: " << e.what();
    }
  }
}

std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

namespace {

TEST(Refusals, Creation) {
  expect_refused({
      {"a negative size",
       [] {
         zeros({2, -1});
       }},
      {"sizes that overflow",
       [] {
         zeros({kHuge, kHuge});
       }},
      {"values that do not fill the shape",
       [] {
         tensor(std::vector<float>{1, 2, 3}, {2, 2});
       }},
      {"rows of different lengths",
       [] {
         tensor({{1.f, 2.f}, {3.f}});
       }},
      {"a step of zero", [] { arange(0, 1, 0); }},
      {"an endless range", [] { arange(0, std::numeric_limits<double>::infinity()); }},
      {"a range of NaN", [] { arange(0, std::nan("")); }},
      {"a negative end", [] { arange(-5); }},
      {"a negative count", [] { linspace(0, 1, -1); }},
      {"a negative identity", [] { eye(-1); }},
      {"a huge identity", [] { eye(kHuge); }},
  });
}

TEST(Refusals, Elementwise) {
  expect_refused({
      {"shapes that do not broadcast", [] { add(matrix(), zeros({3})); }},
      {"undefined tensors", [] { add(Tensor{}, matrix()); }},
      {"an undefined tensor", [] { exp(Tensor{}); }},
      {"three inputs for two", [] { add(matrix(), matrix(), matrix()); }},
      {"one input for two", [] { add(matrix()); }},
      {"prelu slopes of another size", [] { prelu(matrix(), zeros({3})); }},
      {"a softmax axis out of range", [] { softmax(matrix(), 2); }},
      {"a softmax of a scalar's axis", [] { softmax(zeros({}), 0); }},
  });
}

TEST(Refusals, Reductions) {
  expect_refused({
      {"an axis out of range", [] { sum(matrix(), {.axes = Axes{2}}); }},
      {"a negative axis out of range", [] { sum(matrix(), {.axes = Axes{-3}}); }},
      {"the lowest axis", [] { mean(matrix(), {.axes = Axes{kLowest}}); }},
      {"an axis twice",
       [] {
         sum(matrix(), {.axes = Axes{0, -2}});
       }},
      {"the largest of nothing",
       [] {
         max(zeros({0, 3}), {.axes = Axes{0}});
       }},
      {"argmax of nothing",
       [] {
         argmax(zeros({3, 0}));
       }},
      {"argmax of a scalar's axis 1", [] { argmax(zeros({}), 1); }},
      {"more than there are", [] { top_k(matrix(), 5); }},
      {"a negative number of largest", [] { top_k(matrix(), -1); }},
      {"a norm of order 3", [] { norm(matrix(), {.p = 3}); }},
      {"cumsum along a missing axis", [] { cumsum(matrix(), 7); }},
      {"sort along a missing axis", [] { sort(matrix(), -3); }},
      {"summing to a shape that does not broadcast", [] { sum_to(matrix(), {5}); }},
  });
}

TEST(Refusals, Shapes) {
  expect_refused({
      {"another number of elements", [] { reshape(matrix(), {5}); }},
      {"two unknown sizes",
       [] {
         reshape(matrix(), {-1, -1});
       }},
      {"a size of -2",
       [] {
         reshape(matrix(), {-2, 6});
       }},
      {"an unknown size beside zero",
       [] {
         reshape(zeros({0}), {0, -1});
       }},
      {"sizes that overflow",
       [] {
         reshape(matrix(), {kHuge, kHuge, -1});
       }},
      {"an axis twice",
       [] {
         transpose(matrix(), {0, 0});
       }},
      {"too many axes",
       [] {
         transpose(matrix(), {0, 1, 2});
       }},
      {"transpose of a vector", [] { transpose(zeros({3})); }},
      {"broadcasting 4 to 5",
       [] {
         broadcast_to(matrix(), {3, 5});
       }},
      {"broadcasting to fewer axes", [] { broadcast_to(matrix(), {4}); }},
      {"broadcasting to a negative size", [] { broadcast_to(zeros({1}), {-1}); }},
      {"a new axis out of range", [] { expand_dims(matrix(), 4); }},
      {"squeezing a size of 3", [] { squeeze(matrix(), {0}); }},
      {"a step of zero",
       [] {
         slice(matrix(), {{0, 2, 0}});
       }},
      {"too many ranges",
       [] {
         slice(matrix(), {{}, {}, {}});
       }},
      {"widths for too many axes",
       [] {
         pad(matrix(), {{0, 0}, {0, 0}, {0, 0}});
       }},
      {"widths that overflow",
       [] {
         pad(matrix(), {{kLargest, kLargest}, {0, 0}});
       }},
      {"cutting off more than there is",
       [] {
         pad(matrix(), {{-4, 0}, {0, 0}});
       }},
      {"joining nothing", [] { concat({}); }},
      {"joining different widths",
       [] {
         concat({matrix(), zeros({3, 5})});
       }},
      {"joining different ranks",
       [] {
         concat({matrix(), zeros({4})});
       }},
      {"stacking different shapes",
       [] {
         stack({matrix(), zeros({3, 5})});
       }},
      {"stacking nothing", [] { stack({}); }},
      {"sizes that do not add up",
       [] {
         split(matrix(), std::vector<std::int64_t>{1, 1}, 0);
       }},
      {"sizes that cancel",
       [] {
         split(matrix(), std::vector<std::int64_t>{5, -2}, 0);
       }},
      {"uneven parts", [] { split(matrix(), 2, 0); }},
      {"no parts", [] { split(matrix(), 0, 0); }},
      {"flipping a missing axis", [] { flip(matrix(), {2}); }},
      {"negative repeats",
       [] {
         tile(matrix(), {1, -1});
       }},
      {"repeats that overflow",
       [] {
         tile(matrix(), {kLargest, kLargest});
       }},
      {"repeating a negative number of times", [] { repeat(matrix(), -1, 0); }},
      {"a triangle of a vector", [] { tril(zeros({3})); }},
  });
}

TEST(Refusals, Indexing) {
  expect_refused({
      {"fractional indices", [] { gather(matrix(), zeros({2})); }},
      {"a missing axis", [] { gather(matrix(), whole({2}), 2); }},
      {"updates of another shape",
       [] {
         scatter_add(matrix(), whole({2}), zeros({2, 5}));
       }},
      {"indices of another rank", [] { take_along_axis(matrix(), whole({3}), 1); }},
      {"indices of another shape",
       [] {
         take_along_axis(matrix(), whole({2, 4}), 1);
       }},
      {"a table that is no matrix", [] { embedding(zeros({5}), whole({2})); }},
      {"fractional labels", [] { embedding(matrix(), zeros({2})); }},
      {"a negative number of classes", [] { one_hot(whole({2}), -1); }},
      {"more classes than memory", [] { one_hot(whole({2}), kLargest); }},
      {"an index past the end", [] { gather(matrix(), full_int({2}, 3)).eval(); }},
      {"an index before the beginning", [] { gather(matrix(), full_int({2}, -5)).eval(); }},
      {"an updated row past the end",
       [] {
         scatter_add(matrix(), full_int({2}, 7), zeros({2, 4})).eval();
       }},
      {"a word that the table lacks", [] { embedding(matrix(), full_int({2}, kHuge)).eval(); }},
      {"an element past the end",
       [] {
         take_along_axis(matrix(), full_int({3, 1}, 4), 1).eval();
       }},
      {"assigned rows of another shape",
       [] {
         scatter(matrix(), whole({2}), zeros({2, 5}));
       }},
      {"assigned values of another type",
       [] {
         scatter(matrix(), whole({2}), zeros({2, 4}, f64));
       }},
      {"a product of truth values",
       [] { put_along_axis(zeros({3}, boolean), whole({2}), zeros({2}, boolean), 0, ScatterMode::product); }},
      {"an assigned row past the end",
       [] {
         scatter(matrix(), full_int({2}, 3), zeros({2, 4})).eval();
       }},
      {"a label past the classes", [] { cross_entropy(matrix(), full_int({3}, 4)).eval(); }},
  });
}

TEST(Refusals, Products) {
  expect_refused({
      {"inner sizes that differ", [] { matmul(matrix(), matrix()); }},
      {"a scalar", [] { matmul(zeros({}), matrix()); }},
      {"batches that do not broadcast",
       [] {
         matmul(zeros({2, 3, 4}), zeros({3, 4, 5}));
       }},
      {"no equation", [] { einsum("", matrix()); }},
      {"too few operands", [] { einsum("ij,jk->ik", matrix()); }},
      {"too many operands", [] { einsum("ij->ij", matrix(), matrix()); }},
      {"a letter from nowhere", [] { einsum("ij->ik", matrix()); }},
      {"sizes that differ", [] { einsum("ij,jk->ik", matrix(), matrix()); }},
      {"too many letters", [] { einsum("ijk->i", matrix()); }},
      {"an output letter twice", [] { einsum("ij->ii", matrix()); }},
      {"strange characters", [] { einsum("i$->i", matrix()); }},
      {"two arrows", [] { einsum("ij->i->j", matrix()); }},
      {"features that differ",
       [] {
         linear(matrix(), zeros({5, 2}));
       }},
      {"a bias of another size",
       [] {
         linear(matrix(), zeros({4, 2}), zeros({3}));
       }},
  });
}

TEST(Refusals, MessagesShowTheShapes) {
  EXPECT_EQ(message([] {
              matmul(zeros({32, 784}), zeros({512, 10}));
            }),
            "matmul: inner sizes differ: [32, 784] · [512, 10] needs 784 = 512.");
  const std::string text = message([] { add(zeros({3, 4}), zeros({5})); });
  EXPECT_NE(text.find("add"), std::string::npos) << text;
  EXPECT_NE(text.find("[3, 4]"), std::string::npos) << text;
  EXPECT_NE(text.find("[5]"), std::string::npos) << text;
  const std::string word = message([] { embedding(zeros({10, 2}), full_int({1}, 12)).eval(); });
  EXPECT_NE(word.find("12"), std::string::npos) << word;
  EXPECT_NE(word.find("10"), std::string::npos) << word;
}

TEST(Refusals, UnknownOperatorsGetASuggestion) {
  EXPECT_NE(message([] { find_operator("matmull"); }).find("matmul"), std::string::npos);
}

}  // namespace

}  // namespace varve::test
