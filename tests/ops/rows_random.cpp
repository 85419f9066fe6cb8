#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "ops/row.h"

namespace varve::test {

namespace {

double mean_of(const std::vector<double>& v) {
  return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(std::max<std::size_t>(v.size(), 1));
}

// Mean and deviation within five of their own deviations: 1/√n of the distribution's.
void expect_moments(const std::vector<double>& v, double mean, double deviation) {
  if (v.size() < 100) return;
  const double tolerance = 5 * deviation / std::sqrt(static_cast<double>(v.size()));
  EXPECT_NEAR(mean_of(v), mean, tolerance);
  double squares = 0;
  for (double x : v) squares += (x - mean) * (x - mean);
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(v.size())), deviation, tolerance);
}

void expect_different(const DoublesList& out) {
  for (std::size_t i = 1; i < out.size(); ++i)
    if (out[0].data.size() > 1) {
      EXPECT_NE(out[0].data, out[i].data) << "draws " << 0 << " and " << i << " are the same";
    }
}

// ---- Philox 4×32-10 once more, from the paper: what the kernels use is under test

struct Philox {
  std::uint64_t key;

  std::uint32_t at(std::uint64_t counter, std::uint64_t index) const {
    std::uint32_t c[4] = {static_cast<std::uint32_t>(index / 4), static_cast<std::uint32_t>(index / 4 >> 32),
                          static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32)};
    auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
      const std::uint64_t a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
      const std::uint32_t next[4] = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(b),
                                     static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(a)};
      std::copy_n(next, 4, c);
    }
    return c[index % 4];
  }
};

std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

std::uint64_t named(const std::string& stream) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (unsigned char c : stream) hash = (hash ^ c) * 0x100000001B3u;
  return hash;
}

// Bits of a shape of draws as the documentation of random operators fixes them.
std::vector<std::uint32_t> bits(std::int64_t count, std::uint64_t seed, const std::string& stream,
                                std::uint64_t counter) {
  const Philox philox{mixed(seed ^ mixed(named(stream)))};
  std::vector<std::uint32_t> out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(philox.at(counter, static_cast<std::uint64_t>(i)));
  return out;
}

double uniform_of(std::uint32_t bits) { return static_cast<double>(bits >> 8) / 16777216.0; }

Doubles uniforms(const Shape& shape, std::uint64_t seed, const std::string& stream, std::uint64_t counter) {
  Doubles out = doubles(shape);
  const std::vector<std::uint32_t> drawn = bits(shape.numel(), seed, stream, counter);
  std::transform(drawn.begin(), drawn.end(), out.data.begin(), uniform_of);
  return out;
}

// The counter is an input, so that it can change from step to step.
Row random_row(const std::string& op, const std::string& label) {
  return {.op = op,
          .label = label,
          .call = {},
          .shapes = {{Shape{}}},
          .types = {f32},
          .integer_inputs = {{0, 1000}},
          .bitwise = true,
          .gradient = false,
          .second = false};
}

std::uint64_t counter_of(const DoublesList& in) { return static_cast<std::uint64_t>(in[0].data[0]); }

std::vector<Row> uniform_rows() {
  Row uniform_f32 = random_row("random_uniform", "f32");
  uniform_f32.call = [](const Tensors& in) {
    return uniform({3, 1031}, {.seed = -7, .stream = "a/b", .counter = in[0]});
  };
  uniform_f32.oracle = [](const DoublesList& in) {
    return uniforms({3, 1031}, static_cast<std::uint64_t>(-7), "a/b", counter_of(in));
  };
  uniform_f32.check = [](const DoublesList&, const DoublesList& out) {
    expect_moments(out[0].data, 0.5, std::sqrt(1 / 12.0));
  };

  Row uniform_types = random_row("random_uniform", "types");
  uniform_types.call = [](const Tensors& in) {
    Tensors out;
    for (DType dtype : {f32, f64, f16, bf16})
      out.push_back(uniform({5000}, {.seed = 3, .counter = in[0], .dtype = dtype}));
    return out;
  };
  uniform_types.check = [](const DoublesList&, const DoublesList& out) {
    EXPECT_EQ(out[0].data, out[1].data);
    for (const Doubles& o : out)
      for (double v : o.data) EXPECT_TRUE(v >= 0 && v < 1) << v;
    for (std::size_t i = 0; i < out[0].data.size(); ++i) {
      EXPECT_EQ(out[2].data[i], std::floor(out[0].data[i] * 2048) / 2048);
      EXPECT_EQ(out[3].data[i], std::floor(out[0].data[i] * 256) / 256);
    }
  };
  return {uniform_f32, uniform_types};
}

std::vector<Row> other_draw_rows() {
  Row normals = random_row("random_normal", "");
  normals.call = [](const Tensors& in) {
    Tensors out;
    for (DType dtype : {f32, f64, f16, bf16})
      out.push_back(normal({4, 999}, {.seed = 5, .stream = "w", .counter = in[0], .dtype = dtype}));
    return out;
  };
  normals.check = [](const DoublesList&, const DoublesList& out) {
    EXPECT_EQ(out[0].data, out[1].data);
    for (const Doubles& o : out) expect_moments(o.data, 0, 1);
  };

  Row places = random_row("random_uniform", "places");
  places.call = [](const Tensors& in) {
    return Tensors{uniform({100}, {.seed = 1, .stream = "x", .counter = in[0]}),
                   uniform({100}, {.seed = 2, .stream = "x", .counter = in[0]}),
                   uniform({100}, {.seed = 1, .stream = "y", .counter = in[0]}),
                   uniform({100}, {.seed = 1, .stream = "x", .counter = in[0] + 1}), uniform({0}, {.counter = in[0]})};
  };
  places.check = [](const DoublesList&, const DoublesList& out) { expect_different(out); };
  return {normals, places};
}

std::vector<Row> choice_rows() {
  Row coins = random_row("bernoulli", "");
  coins.covers = {"random_uniform"};
  coins.call = [](const Tensors& in) {
    return Tensors{bernoulli({2, 999}, 0.3, {.seed = 9, .counter = in[0]}),
                   bernoulli({2, 999}, 0, {.seed = 9, .counter = in[0]}),
                   bernoulli({2, 999}, 1, {.seed = 9, .counter = in[0]}),
                   bernoulli({2, 3}, tensor({{0.0}, {1.0}}), {.counter = in[0]})};
  };
  coins.oracle = [](const DoublesList& in) {
    Doubles some = uniforms({2, 999}, 9, "", counter_of(in));
    for (double& v : some.data) v = v < 0.3 ? 1 : 0;
    return DoublesList{some, doubles({2, 999}, 0), doubles({2, 999}, 1), {{2, 3}, {0, 0, 0, 1, 1, 1}}};
  };

  Row shuffled = random_row("permutation", "");
  shuffled.covers = {"random_bits", "sort"};
  shuffled.call = [](const Tensors& in) {
    return Tensors{permutation(1000, {.seed = 4, .counter = in[0]}), permutation(0, {.counter = in[0]}),
                   permutation(1, {.counter = in[0]})};
  };
  shuffled.oracle = [](const DoublesList& in) {
    const std::vector<std::uint32_t> keys = bits(1000, 4, "", counter_of(in));
    Doubles order = doubles({1000});
    std::iota(order.data.begin(), order.data.end(), 0.0);
    std::stable_sort(order.data.begin(), order.data.end(), [&](double a, double b) {
      return keys[static_cast<std::size_t>(a)] < keys[static_cast<std::size_t>(b)];
    });
    return DoublesList{order, doubles({0}), doubles({1})};
  };
  return {coins, shuffled};
}

Row dropout_row(double rate) {
  return {
      .op = "dropout",
      .label = rate == 0.5 ? "half" : "tenth",
      .covers = {"random_uniform"},
      .call = [=](const Tensors& in) { return dropout(in[0], rate, {.seed = 11, .stream = "drop", .counter = in[1]}); },
      .oracle =
          [=](const DoublesList& in) {
            Doubles out = uniforms(in[0].shape, 11, "drop", static_cast<std::uint64_t>(in[1].data[0]));
            for (std::size_t i = 0; i < out.data.size(); ++i)
              out.data[i] =
                  out.data[i] >= static_cast<double>(static_cast<float>(rate)) ? in[0].data[i] / (1 - rate) : 0;
            return out;
          },
      .shapes = {{{3, 5}, Shape{}}, {{7}, Shape{}}, {{0, 3}, Shape{}}, {Shape{}, Shape{}}, {{5, 1031}, Shape{}}},
      .integer_inputs = {{1, 1000}},
      .gradient_shapes = {{{3, 5}, Shape{}}, {{2, 3, 4}, Shape{}}}};
}

}  // namespace

std::vector<Row> random_rows() {
  std::vector<Row> rows;
  for (auto family : {uniform_rows, other_draw_rows, choice_rows}) {
    const std::vector<Row> part = family();
    rows.insert(rows.end(), part.begin(), part.end());
  }
  rows.push_back(dropout_row(0.5));
  rows.push_back(dropout_row(0.1));
  return rows;
}

}  // namespace varve::test
