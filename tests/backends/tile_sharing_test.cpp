// Tile kernels: the same bits for any number of threads, and outputs in the memory of inputs.
#include <gtest/gtest.h>

#include <cstring>

#include "backends/instruction_sets.h"
#include "backends/tile_run.h"
#include "base/threads.h"

namespace varve::cpu::testing {
namespace {

using Extents = std::vector<std::int64_t>;

struct ThreadLimit {  // restores the limit at the end of a test
  explicit ThreadLimit(int count) : before(threads()) { set_threads(count); }
  ~ThreadLimit() { set_threads(before); }
  int before;
};

std::vector<float> values(std::int64_t n, std::int64_t seed = 0) {
  std::vector<float> result;
  for (const double value : pseudo_randoms(n, seed)) result.push_back(static_cast<float>(value));
  return result;
}

TEST(TileThreads, SameBitsForAnyNumber) {
  struct Row {
    Extents extents;
    std::vector<bool> reduced;
    std::int64_t kept;
  };
  const Row rows[] = {{{300001}, {true}, 1},
                      {{2000, 500}, {false, true}, 2000},
                      {{9000, 70}, {true, false}, 70},
                      {{12, 5, 6000}, {true, false, true}, 5}};
  for (const Row& row : rows) {
    Group group;
    group.code = expr::flatten(1, {expr::tanh(x(0)) * x(0), expr::exp(x(0))});
    group.extents = row.extents;
    group.reduced = row.reduced;
    group.inputs = {{DType::f32, row_major(row.extents)}};
    group.reduce = {Reduce::sum, Reduce::none};
    group.outputs = {{DType::f32, Extents(row.extents.size(), 0)}, {DType::f32, row_major(row.extents)}};
    std::int64_t points = 1;
    for (const std::int64_t extent : row.extents) points *= extent;
    for (std::size_t d = row.extents.size(); d-- > 0;) {
      if (!row.reduced[d]) group.outputs[0].strides[d] = 1;  // each row keeps at most one extent
    }
    std::vector<float> in = values(points), first_sum, first_map;
    for (const int count : {1, 2, 3}) {
      const ThreadLimit limit(count);
      std::vector<float> sum(static_cast<std::size_t>(row.kept)), map(in.size());
      run(group, {in.data()}, {sum.data(), map.data()});
      if (count == 1) first_sum = sum, first_map = map;
      EXPECT_EQ(std::memcmp(sum.data(), first_sum.data(), sum.size() * 4), 0) << count << " threads";
      EXPECT_EQ(std::memcmp(map.data(), first_map.data(), map.size() * 4), 0) << count << " threads";
    }
  }
}

TEST(TileInstructionSets, SameBitsOnAll) {
  const std::int64_t n = 20011;
  Group group;
  const Expr e = x(0) * x(1);
  group.code =
      expr::flatten(2, {expr::exp(x(0)), expr::tanh(x(0)) + expr::erf(x(1)),
                        expr::log(expr::abs(x(0)) + 1e-3) * expr::sin(x(1)), expr::erfc(x(0)),
                        expr::pow(expr::abs(x(0)), x(1)), expr::select(x(0) < x(1), expr::sqrt(expr::abs(e)), e - 1.0),
                        expr::expm1(x(0)) / expr::sigmoid(x(1)), expr::atan2(x(0), x(1)), e, x(0), e});
  group.extents = {n};
  group.reduced = {true};
  group.inputs.assign(2, {DType::f32, {1}});
  group.reduce.assign(11, Reduce::none);
  group.reduce[8] = Reduce::sum;
  group.reduce[9] = Reduce::max;
  group.reduce[10] = Reduce::prod;
  for (const Reduce op : group.reduce) group.outputs.push_back({DType::f32, {op == Reduce::none ? 1 : 0}});
  std::vector<float> a = values(n, 1), b = values(n, 2);
  const auto outputs = [&] {
    std::vector<std::vector<float>> out(11, std::vector<float>(static_cast<std::size_t>(n)));
    std::vector<void*> pointers;
    for (std::vector<float>& v : out) pointers.push_back(v.data());
    run(group, {a.data(), b.data()}, pointers);
    return out;
  };
  const auto widest = outputs();
  const Avx2Only limit;
  const auto avx2 = outputs();
  for (std::size_t o = 0; o < widest.size(); ++o) {
    EXPECT_EQ(std::memcmp(widest[o].data(), avx2[o].data(), widest[o].size() * 4), 0) << "output " << o;
  }
}

TEST(TileThreads, LimitLoweredAfterConstruction) {
  Group group;
  group.code = expr::flatten(1, {x(0) + 1.0});
  group.extents = {200000};
  group.reduced = {false};
  group.inputs = group.outputs = {{DType::f32, {1}}};
  group.reduce = {Reduce::none};
  std::vector<float> data = values(200000), out(data.size());
  const ThreadLimit many(3);
  const TileKernel kernel(group);
  const ThreadLimit one(1);
  std::vector<std::byte> scratch(kernel.scratch_bytes());
  const void* in = data.data();
  void* to = out.data();
  kernel.run(&in, &to, scratch.data());
  EXPECT_EQ(out.back(), data.back() + 1.0f);
}

// Runs in place and apart; the results must agree bit for bit.
void check_in_place(const Group& group, std::vector<std::vector<float>> in, const std::vector<int>& input_of_output) {
  std::vector<void*> pointers, apart, in_place;
  std::vector<std::vector<float>> out(group.outputs.size(), std::vector<float>(in[0].size()));
  for (std::vector<float>& v : in) pointers.push_back(v.data());
  for (std::vector<float>& v : out) apart.push_back(v.data());
  run(group, pointers, apart);
  for (const int i : input_of_output) in_place.push_back(pointers[static_cast<std::size_t>(i)]);
  run(group, pointers, in_place);
  for (std::size_t o = 0; o < out.size(); ++o) {
    const std::vector<float>& got = in[static_cast<std::size_t>(input_of_output[o])];
    EXPECT_EQ(std::memcmp(got.data(), out[o].data(), got.size() * 4), 0) << "output " << o;
  }
}

TEST(TileAliasing, UpdatesInPlace) {
  for (const std::int64_t n : {1, 100, 50000}) {
    Group group;
    group.extents = {n};
    group.reduced = {false};
    group.inputs.assign(4, {DType::f32, {1}});
    group.outputs.assign(3, {DType::f32, {1}});
    group.reduce.assign(3, Reduce::none);
    const Expr m = x(1) * 0.9 + x(3) * 0.1, v = x(2) * 0.99 + x(3) * x(3) * 0.01;
    const std::vector<std::vector<float>> in = {values(n, 1), values(n, 2), values(n, 3), values(n, 4)};
    group.code =
        expr::flatten(4, {x(0) - 0.01 * m / (expr::sqrt(expr::abs(v)) + 1e-8) + x(1) * x(2), m, v});  // Adam, nearly
    check_in_place(group, in, {0, 1, 2});
    group.code = expr::flatten(4, {x(1), x(2), x(0)});  // a rotation: every output is another one's input
    check_in_place(group, in, {0, 1, 2});
    group.code = expr::flatten(4, {x(1) + 1.0, x(0) * 2.0, x(1) * x(0) + x(2)});
    check_in_place(group, in, {0, 1, 2});
  }
}

TEST(TileAliasing, SumBesideAnUpdateInPlace) {
  std::vector<float> data = values(30000), copy = data;
  Group group;
  group.code = expr::flatten(1, {x(0) * 0.5, x(0)});
  group.extents = {300, 100};
  group.reduced = {false, true};
  group.inputs = {{DType::f32, {100, 1}}};
  group.outputs = {{DType::f32, {100, 1}}, {DType::f32, {1, 0}}};
  group.reduce = {Reduce::none, Reduce::sum};
  std::vector<float> sums(300);
  run(group, {data.data()}, {data.data(), sums.data()});
  for (std::size_t r = 0; r < 300; ++r) {
    double want = 0;
    for (std::size_t c = 0; c < 100; ++c) want += copy[r * 100 + c];
    EXPECT_NEAR(sums[r], want, 1e-4);
    EXPECT_EQ(data[r * 100 + 7], copy[r * 100 + 7] * 0.5f);
  }
}

}  // namespace
}  // namespace varve::cpu::testing
