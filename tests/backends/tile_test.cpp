// Tile kernels: layouts, types, reductions, threads and aliasing, against a plain walk over the points.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "backends/tile_run.h"
#include "varve/error.h"

namespace varve::cpu::testing {
namespace {
using expr::Prim;
using Extents = std::vector<std::int64_t>;

std::int64_t span(const Extents& extents, const Extents& strides) {  // elements from the first to the last
  std::int64_t last = 0;
  for (std::size_t d = 0; d < extents.size(); ++d) last += std::max<std::int64_t>(extents[d] - 1, 0) * strides[d];
  return last + 1;
}

Extents kept_strides(const Extents& extents, const std::vector<bool>& reduced) {
  Extents strides(extents.size(), 0);
  std::int64_t stride = 1;
  for (std::size_t d = extents.size(); d-- > 0;) {
    if (reduced[d]) continue;
    strides[d] = stride;
    stride *= extents[d];
  }
  return strides;
}

struct TileResult {
  std::vector<Buffer> outputs;
  std::vector<std::vector<double>> want;
};

// Runs the group on pseudo-random inputs and compares every output, and the memory around it.
TileResult check(const Group& group, double rtol, double scale = 1) {
  std::vector<Buffer> in;
  std::vector<Buffer*> in_pointers;
  for (std::size_t i = 0; i < group.inputs.size(); ++i) {
    std::vector<double> values = pseudo_randoms(span(group.extents, group.inputs[i].strides), static_cast<int>(i));
    for (double& value : values) value *= scale;
    in.emplace_back(group.inputs[i].dtype, values, static_cast<std::int64_t>(i));
  }
  TileResult result;
  std::vector<void*> in_data, out_data;
  std::vector<std::int64_t> sizes;
  for (Buffer& buffer : in) {
    in_pointers.push_back(&buffer);
    in_data.push_back(buffer.data());
  }
  for (const Access& access : group.outputs) {
    sizes.push_back(span(group.extents, access.strides));
    result.outputs.emplace_back(access.dtype, std::vector<double>(static_cast<std::size_t>(sizes.back())), 1);
  }
  for (Buffer& buffer : result.outputs) out_data.push_back(buffer.data());
  std::vector<Buffer> before = result.outputs;
  run(group, in_data, out_data);
  result.want = plain(group, in_pointers, sizes);
  for (std::size_t o = 0; o < result.outputs.size(); ++o) {
    Buffer& out = result.outputs[o];
    int failures = 0;
    for (std::int64_t i = 0; i < sizes[o] && failures < 3; ++i) {
      const double want = result.want[o][static_cast<std::size_t>(i)];
      if (close(out.get(i), want, rtol, rtol)) continue;
      ++failures;
      ADD_FAILURE() << "output " << o << " element " << i << ": " << out.get(i) << ", want " << want;
    }
    const std::size_t size = size_of(out.dtype), begin = static_cast<std::size_t>(out.offset) * size;
    const std::size_t end = begin + static_cast<std::size_t>(sizes[o]) * size;
    EXPECT_EQ(std::memcmp(out.bytes.data(), before[o].bytes.data(), begin), 0) << "wrote before output " << o;
    EXPECT_EQ(std::memcmp(out.bytes.data() + end, before[o].bytes.data() + end, out.bytes.size() - end), 0)
        << "wrote past output " << o;
  }
  return result;
}

Group map_of(const expr::Code& code, const Extents& extents, const std::vector<Extents>& strides,
             DType dtype = DType::f32) {
  Group group;
  group.code = code;
  group.compute = dtype;
  group.extents = extents;
  group.reduced.assign(extents.size(), false);
  for (const Extents& s : strides) group.inputs.push_back({dtype, s});
  for (std::size_t o = 0; o < code.outputs.size(); ++o) {
    group.outputs.push_back({dtype, row_major(extents)});
    group.reduce.push_back(Reduce::none);
  }
  return group;
}

TEST(Tile, SizesFromNothingToManyTiles) {
  const expr::Code code =
      expr::flatten(2, {expr::max(x(0) * 2.0 + x(1), x(1) - 0.5), expr::select(x(0) < x(1), x(0), 3.0)});
  for (const std::int64_t n : {0, 1, 2, 7, 8, 15, 16, 17, 63, 64, 65, 511, 1023, 1024, 1025, 5000, 100003}) {
    SCOPED_TRACE(n);
    check(map_of(code, {n}, {{1}, {1}}), 1e-6);
  }
  check(map_of(code, {}, {{}, {}}), 1e-6);
  check(map_of(code, {1, 1, 1}, {{1, 1, 1}, {0, 0, 0}}), 1e-6);
}

TEST(Tile, StridesAndBroadcast) {
  const expr::Code code = expr::flatten(2, {x(0) * x(1) + 1.0});
  struct Row {
    Extents extents, a, b;
  };
  const Row rows[] = {
      {{5, 7}, {7, 1}, {0, 1}},          // bias
      {{5, 7}, {7, 1}, {1, 0}},          // one value a row
      {{300, 1500}, {1500, 1}, {1, 0}},  // with long rows
      {{300, 1500}, {1500, 1}, {0, 1}},
      {{1500, 40}, {40, 1}, {0, 1}},  // several rows in a tile, and a short last tile
      {{37, 41}, {1, 37}, {41, 1}},   // transposed
      {{4, 5, 6}, {30, 6, 1}, {0, 6, 1}},
      {{4, 5, 6}, {30, 6, 1}, {5, 1, 0}},
      {{3, 600, 6}, {3600, 6, 1}, {0, 0, 1}},
      {{64, 9, 11, 13}, {1287, 143, 13, 1}, {0, 11, 1, 0}},
      {{100}, {3}, {0}},  // every third
      {{2, 2, 2, 2, 2, 2, 2}, {64, 1, 2, 4, 8, 16, 32}, {1, 2, 4, 8, 16, 32, 64}},
      {{40, 50}, {60, 1}, {50, 1}},  // rows with a gap
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(::testing::PrintToString(row.extents));
    check(map_of(code, row.extents, {row.a, row.b}), 1e-6);
    check(map_of(code, row.extents, {row.a, row.b}, DType::f64), 1e-14);
    check(map_of(code, row.extents, {row.a, row.b}, DType::i64), 0, 10);
  }
}

TEST(Tile, StridedOutputLeavesTheGapsAlone) {
  Group group = map_of(expr::flatten(1, {x(0) + 1.0}), {30, 50}, {{50, 1}});
  group.outputs[0].strides = {1, 40};
  check(group, 1e-6);
}

TEST(Tile, EveryTypeToEveryType) {
  for (const DType compute : {DType::f32, DType::f64, DType::i64}) {
    for (const DType from : kAllDTypes) {
      for (const DType to : kAllDTypes) {
        SCOPED_TRACE(::testing::Message() << name(from) << " in " << name(compute) << " to " << name(to));
        for (const std::int64_t stride : {1, 2}) {
          Group group = map_of(expr::flatten(1, {x(0)}), {100}, {{stride}}, compute);
          group.inputs[0].dtype = from;
          group.outputs[0] = {to, {stride}};
          std::vector<double> values = {
              0,   -0.0, 1,    -1,    2.5,   -2.5,  100,  127.9, 128,          -129,
              255, 256,  1e10, -1e10, 65504, 70000, 1e30, 1e300, std::nan(""), std::numeric_limits<double>::infinity()};
          for (int i = 20; i < 200; ++i) values.push_back(pseudo_random(i) * 60);
          Buffer in(from, values), out(to, std::vector<double>(200));
          run(group, {in.data()}, {out.data()});
          for (std::int64_t i = 0; i < 100 * stride; i += stride) {
            Buffer middle(compute, {0}), want(to, {0});
            const std::size_t size = size_of(from);
            convert(static_cast<std::byte*>(in.data()) + static_cast<std::size_t>(i) * size, from, middle.data(),
                    compute, 1);
            convert(middle.data(), compute, want.data(), to, 1);
            ASSERT_TRUE(close(out.get(i), want.get(0), 0, 0)) << in.get(i) << " became " << out.get(i);
          }
        }
      }
    }
  }
}

TEST(Tile, IntegersWrapAndNeverTrap) {
  constexpr auto kLow = std::numeric_limits<std::int64_t>::min(), kHigh = std::numeric_limits<std::int64_t>::max();
  std::int64_t a[] = {kLow, kLow, kHigh, 7, -7, 7, -7, 5}, b[] = {-1, 0, 1, 3, 3, -3, -3, 0}, out[5][8];
  const expr::Code code =
      expr::flatten(2, {x(0) / x(1), expr::mod(x(0), x(1)), x(0) + x(1), expr::abs(x(0)) * x(1), -x(0)});
  run(map_of(code, {8}, {{1}, {1}}, DType::i64), {a, b}, {out[0], out[1], out[2], out[3], out[4]});
  const std::int64_t quotient[] = {kLow, 0, kHigh, 2, -2, -2, 2, 0}, remainder[] = {0, 0, 0, 1, 2, -2, -1, 0};
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(out[0][i], quotient[i]) << i;
    EXPECT_EQ(out[1][i], remainder[i]) << i;
  }
  EXPECT_EQ(out[2][0], kHigh);
  EXPECT_EQ(out[2][2], kLow);
  EXPECT_EQ(out[4][0], kLow);
  EXPECT_THROW(TileKernel(map_of(expr::flatten(1, {expr::exp(x(0))}), {3}, {{1}}, DType::i64)), Error);
  EXPECT_THROW(TileKernel(map_of(expr::flatten(1, {x(0) * 0.5}), {3}, {{1}}, DType::i64)), Error);
}

TEST(Tile, RefusesGroupsThatMakeNoSense) {
  Group group = map_of(expr::flatten(1, {x(0)}), {4}, {{1}});
  group.outputs[0].strides = {0};
  EXPECT_THROW(TileKernel{group}, Error);
  group.outputs[0].strides = {1, 1};
  EXPECT_THROW(TileKernel{group}, Error);
  group = map_of(expr::flatten(1, {x(0)}), {4}, {{1}});
  group.compute = DType::f16;
  EXPECT_THROW(TileKernel{group}, Error);
  group = map_of(expr::flatten(1, {x(0)}), {4}, {{1}});
  group.code.instrs[0].input = 3;
  EXPECT_THROW(TileKernel{group}, Error);
}

struct ReductionRow {
  Extents extents;
  std::vector<bool> reduced;
};
const ReductionRow kReductions[] = {
    {{1000}, {true}},
    {{200003}, {true}},
    {{70, 1000}, {false, true}},
    {{3, 50001}, {false, true}},
    {{5000, 10}, {false, true}},
    {{777, 3}, {false, true}},
    {{70, 1000}, {true, false}},
    {{5000, 10}, {true, false}},
    {{3000, 64}, {true, false}},
    {{100, 3000}, {true, false}},
    {{8, 40, 30}, {true, false, true}},
    {{8, 40, 30}, {false, true, false}},
    {{2, 3, 5000}, {true, false, true}},
    {{4, 600, 5}, {false, true, false}},
    {{6, 7, 8, 9}, {true, false, false, true}},
    {{2, 3, 4, 5}, {false, false, false, false}},
    {{1, 1}, {true, false}},
    {{}, {}},
};

TEST(Tile, Reductions) {
  for (const ReductionRow& row : kReductions) {
    for (const DType dtype : {DType::f32, DType::f64, DType::i64}) {
      SCOPED_TRACE(::testing::Message() << ::testing::PrintToString(row.extents) << " "
                                        << ::testing::PrintToString(row.reduced) << " " << name(dtype));
      Group group = map_of(expr::flatten(1, {x(0) + 1.0, x(0), x(0) * x(0), 3.0, x(0) - 1.0}), row.extents,
                           {row_major(row.extents)}, dtype);
      group.reduced = row.reduced;
      group.reduce = {Reduce::sum, Reduce::max, Reduce::min, Reduce::sum, Reduce::none};
      for (std::size_t o = 0; o < 4; ++o) group.outputs[o].strides = kept_strides(row.extents, row.reduced);
      check(group, dtype == DType::f32 ? 3e-6 : 1e-13, dtype == DType::i64 ? 100 : 1);
    }
  }
}

TEST(Tile, ReductionsOverNothingGiveTheIdentity) {
  for (const Reduce op : {Reduce::sum, Reduce::prod, Reduce::max, Reduce::min}) {
    std::vector<float> out(3, 7);
    Group group = map_of(expr::flatten(1, {x(0)}), {3, 0}, {{1, 1}});
    group.reduced = {false, true};
    group.outputs[0].strides = {1, 0};
    group.reduce = {op};
    run(group, {nullptr}, {out.data()});
    for (const float value : out) EXPECT_EQ(value, static_cast<float>(identity<double>(op)));
    std::vector<std::int64_t> whole(3, 7);
    group.compute = group.inputs[0].dtype = group.outputs[0].dtype = DType::i64;
    run(group, {nullptr}, {whole.data()});
    for (const std::int64_t value : whole) EXPECT_EQ(value, identity<std::int64_t>(op));
  }
}

TEST(Tile, NothingKeptIsNothingWritten) {
  Group group = map_of(expr::flatten(1, {x(0)}), {0, 4}, {{4, 1}});
  group.reduced = {false, true};
  group.outputs[0].strides = {1, 0};
  group.reduce = {Reduce::max};
  float out = 7;
  run(group, {nullptr}, {&out});
  EXPECT_EQ(out, 7);
}

TEST(Tile, LongF32SumsStayAccurate) {
  const std::int64_t n = 1 << 22;
  std::vector<float> values(static_cast<std::size_t>(n), 0.1f);
  for (const Extents& extents : {Extents{n, 1}, Extents{n / 8, 8}, Extents{n / 2048, 2048}}) {
    Group group = map_of(expr::flatten(1, {x(0)}), extents, {row_major(extents)});
    group.reduced = {true, false};
    group.reduce = {Reduce::sum};
    group.outputs[0].strides = {0, 1};
    std::vector<float> out(static_cast<std::size_t>(extents[1]));
    run(group, {values.data()}, {out.data()});
    const double want = 0.1f * static_cast<double>(extents[0]);
    for (const float got : out) EXPECT_NEAR(got, want, want * 1e-6);
  }
}

TEST(Tile, NanWinsEveryMaximum) {
  for (const std::size_t where : {0u, 5u, 999u}) {
    std::vector<float> values(1000, 1.0f);
    values[where] = std::nanf("");
    Group group = map_of(expr::flatten(1, {x(0)}), {1000}, {{1}});
    group.reduced = {true};
    group.reduce = {Reduce::max};
    group.outputs[0].strides = {0};
    float out = 0;
    run(group, {values.data()}, {&out});
    EXPECT_TRUE(std::isnan(out)) << where;
  }
}

}  // namespace
}  // namespace varve::cpu::testing
