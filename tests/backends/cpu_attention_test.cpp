// Attention a head at a time, and its gradient, against the reference: lengths and head sizes that fit no block.
#include "cpu_programs.h"
#include "varve/tensor.h"

namespace varve {
namespace {

struct Sizes {
  std::int64_t queries, keys, depth, width;
};

const Sizes kSizes[] = {{1, 1, 1, 1},   {17, 17, 5, 5},   {1, 257, 64, 64},  {257, 257, 8, 16},
                        {49, 7, 3, 80}, {65, 70, 80, 16}, {100, 100, 64, 65}};

// `inside`: operands and result are [.., T, heads, D].
Function with_gradients(AttentionOptions options, bool inside = false) {
  return [options, inside](const TensorList& in) {
    const auto transposed = [inside](const Tensor& x) { return inside ? transpose(x, {0, 2, 1, 3}) : x; };
    const Tensor y = transposed(attention(transposed(in[0]), transposed(in[1]), transposed(in[2]), options));
    const TensorList grads = gradients(sum(y * in[3]), {in[0], in[1], in[2]});
    return TensorList{y, grads[0], grads[1], grads[2]};
  };
}

TensorList operands(const Sizes& s, Shape leading, bool inside) {
  const auto shape = [&](std::int64_t time, std::int64_t columns) {
    Ints sizes = leading.vec();
    sizes.insert(sizes.end() - (inside ? 1 : 0), time);
    sizes.push_back(columns);
    return Shape(sizes);
  };
  return {values(shape(s.queries, s.depth), 1) * 2.0, values(shape(s.keys, s.depth), 2) * 2.0,
          values(shape(s.keys, s.width), 3), values(shape(s.queries, s.width), 4)};
}

TEST(CpuAttention, HeadByHeadWithItsGradient) {
  for (const Sizes& s : kSizes)
    for (const bool causal : {false, true})
      for (const bool inside : {false, true}) {
        SCOPED_TRACE(testing::Message() << s.queries << " " << s.keys << " " << s.depth << " " << s.width << " "
                                        << causal << inside);
        const std::string text =
            checked(with_gradients({.causal = causal, .scale = 0.3}, inside), operands(s, {1, 2}, inside));
        expect_kernel(text, "heads attention");
        expect_kernel(text, "heads attention_grad");
        expect_no_kernel(text, "copy");
      }
}

// Queries, keys and values are slices of one projection: read where they lie, not copied first.
TEST(CpuAttention, ReadsSlicesInPlace) {
  const std::string text = checked(
      [](const TensorList& in) {
        const TensorList parts = split(in[0], 3, 2);
        const auto heads = [](const Tensor& x) { return transpose(reshape(x, {2, 19, 4, 6}), {0, 2, 1, 3}); };
        const Tensor y = attention(heads(parts[0]), heads(parts[1]), heads(parts[2]), {.causal = true});
        return TensorList{transpose(y, {0, 2, 1, 3})};
      },
      {values({2, 19, 72}, 5)});
  expect_kernel(text, "heads attention");
  expect_no_kernel(text, "copy");
}

// The gradients of such slices are written where their join wants them, whatever their order and widths.
TEST(CpuAttention, WritesJoinedGradientsInPlace) {
  for (const Ints& order : {Ints{0, 1, 2}, Ints{2, 0, 1}}) {
    const std::string text = checked(
        [&](const TensorList& in) {
          const Ints widths = {24, 24, 12}, sizes = {6, 6, 3};
          TensorList heads(3);
          std::int64_t first = 0;
          for (const std::int64_t part : order) {
            const auto p = static_cast<std::size_t>(part);
            const Tensor columns = slice(in[0], {{0, 2}, {0, 19}, {first, first + widths[p]}});
            heads[p] = transpose(reshape(columns, {2, 19, 4, sizes[p]}), {0, 2, 1, 3});
            first += widths[p];
          }
          const Tensor y = transpose(attention(heads[0], heads[1], heads[2], {.causal = true}), {0, 2, 1, 3});
          return gradients(sum(y * in[1]), {in[0]});
        },
        {values({2, 19, 60}, 5), values({2, 19, 4, 3}, 6)});
    expect_kernel(text, "heads attention_grad+concat");
    expect_no_kernel(text, "copy");
    expect_no_kernel(text, "cpu concat");
  }
}

TEST(CpuAttention, TransposedHeadsAndColumns) {
  expect_kernel(
      checked(
          [](const TensorList& in) {
            const auto transposed = [](const Tensor& x) { return transpose(x, {1, 3, 2, 0}); };
            return TensorList{attention(transposed(in[0]), transposed(in[1]), transposed(in[2]), {.causal = true})};
          },
          {values({7, 2, 3, 21}, 1), values({7, 2, 3, 21}, 2), values({7, 2, 3, 21}, 3)}),
      "heads attention");
}

TEST(CpuAttention, DecomposedWithMasksButNotForSharedHeads) {
  const TensorList given = operands({9, 11, 4, 4}, {2, 3}, false);
  const std::string masked = checked(
      [](const TensorList& in) {
        return with_gradients({.mask = in[4]})({in[0], in[1], in[2], in[3]});
      },
      {given[0], given[1], given[2], given[3], values({9, 11}, 9)});
  expect_no_kernel(masked, "heads attention");
  const std::string shared = checked(with_gradients({.causal = true}),
                                     {given[0], values({2, 1, 11, 4}, 6), values({2, 1, 11, 4}, 7), given[3]});
  expect_kernel(shared, "heads attention");  // one for each head of a group
}

// A block of queries or a thread more changes no bit.
TEST(CpuAttention, SameBitsForAnyNumberOfThreads) {
  const int before = threads();
  const TensorList in = operands({385, 385, 16, 16}, {1, 3}, true);
  std::vector<std::vector<float>> one;
  for (const int count : {1, 2, 3}) {
    set_threads(count);
    const Outcome outcome = run_on("cpu", with_gradients({.causal = true}, true), in);
    if (count == 1) one = outcome.results;
    EXPECT_EQ(outcome.results, one) << count << " threads";
  }
  set_threads(before);
}

TEST(CpuAttention, HalfPrecisionIsRoundedOnlyAtItsEnds) {
  TensorList given = operands({33, 33, 20, 20}, {2, 2}, false);
  for (Tensor& x : given) x = x.to(bf16);
  const AttentionOptions options{.causal = true};
  const Function half = [&](const TensorList& in) { return TensorList{attention(in[0], in[1], in[2], options)}; };
  const Function single = [&](const TensorList& in) {
    return TensorList{attention(in[0].to(f32), in[1].to(f32), in[2].to(f32), options).to(bf16)};
  };
  EXPECT_EQ(run_on("cpu", half, given).results, run_on("cpu", single, given).results);
}

}  // namespace
}  // namespace varve
