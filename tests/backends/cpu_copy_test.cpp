// Copies of views that lie in another order: all permutations, sizes around the squares they are walked in, all widths
// of elements.
#include <numeric>

#include "cpu_programs.h"

namespace varve {
namespace {

// Elements by their own numbers: any two that are exchanged are seen.
Tensor numbered(const Shape& shape, DType dtype) { return reshape(arange(shape.numel()), shape).to(dtype); }

void expect_permutations(const Shape& shape, DType dtype) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(shape.rank()));
  std::iota(order.begin(), order.end(), 0);
  do {
    const Function turn = [&](const TensorList& in) {
      return TensorList{reshape(transpose(in[0], Axes(order.begin(), order.end())), {shape.numel()})};
    };
    const TensorList in{numbered(shape, dtype)};
    EXPECT_EQ(run_on("cpu", turn, in).results, run_on("reference", turn, in).results) << shape.str();
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(CpuCopy, AllPermutations) {
  expect_permutations({3, 5, 7}, f32);
  expect_permutations({33, 2, 65}, f32);
  expect_permutations({2, 3, 4, 5}, f32);
  expect_permutations({1, 40, 1, 33}, f32);
  for (const DType dtype : {bf16, f64, i8, i64}) expect_permutations({5, 4, 6}, dtype);
}

TEST(CpuCopy, SlicesAndSteps) {
  const std::string text = checked(
      [](const TensorList& in) {
        const Tensor part = in[0].slice({Range{1, 39, 2}, Range{}, Range{3, 30}});
        return TensorList{reshape(transpose(part, {1, 2, 0}), {-1}), reshape(flip(in[0], {0, 2}), {-1}),
                          reshape(broadcast_to(in[1], {4, 40, 35}), {-1})};
      },
      {values({40, 5, 33}, 1), values({40, 1}, 2)});
}

}  // namespace
}  // namespace varve
