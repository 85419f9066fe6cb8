// Every primitive of the tile kernels against its plain meaning in double, over values chosen to hurt.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backends/tile_run.h"
#include "ir/expr_eval.h"

namespace varve::cpu::testing {
namespace {
using expr::Prim;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> nasty_values() {
  std::vector<double> values = {0.0,  -0.0,  kInf,   -kInf,  kNan,     1e-45, -1e-45, 1e-40, 1.2e-38, 1e-30, 1e-20,
                                1e-8, -1e-8, 1e-5,   -1e-4,  0.001,    0.1,   -0.1,   0.25,  0.5,     -0.5,  0.75,
                                0.9,  0.93,  0.999,  1.0,    -1.0,     1.001, 1.5,    -1.5,  2.0,     2.5,   -2.5,
                                3.0,  -3.0,  3.5,    5.0,    -6.0,     7.9,   9.0,    9.3,   10.0,    -10.5, 17.0,
                                19.0, 20.0,  -20.0,  50.0,   -80.0,    87.0,  88.0,   88.7,  88.8,    89.3,  89.5,
                                -87., -88.,  -103.0, -104.0, -110.0,   300.0, 709.0,  710.,  711.,    -745., 1000.0,
                                1e4,  29999, 31000., -1e6,   16777216, 1e9,   1e12,   1e18,  1e30,    3e38,  -3e38};
  for (int i = 0; i < 400; ++i) values.push_back(pseudo_random(i) * 4);
  for (int i = 0; i < 200; ++i) values.push_back(std::exp(pseudo_random(i) * 40));
  return values;
}

bool is_math(Prim prim) { return prim != Prim::input && prim != Prim::constant; }

// The worst that is allowed, in units of the tolerance, over all values (and pairs, for two operands).
void check(Prim prim, DType dtype) {
  const std::vector<double> nasty = nasty_values();
  const int arity = expr::arity(prim);
  std::vector<std::vector<double>> operands(3);
  const std::size_t partners = arity == 1 ? 1 : 97;
  for (std::size_t i = 0; i < nasty.size(); ++i) {
    for (std::size_t k = 0; k < partners; ++k) {
      operands[0].push_back(nasty[i]);
      operands[1].push_back(nasty[(k * 7 + (k > 60 ? i : 0)) % nasty.size()]);
      operands[2].push_back(nasty[(i + k * 3) % nasty.size()]);
    }
  }
  Group group;
  group.compute = dtype;
  const auto n = static_cast<std::int64_t>(operands[0].size());
  group.extents = {n};
  group.reduced = {false};
  std::vector<Buffer> in;
  std::vector<void*> pointers;
  for (int k = 0; k < arity; ++k) in.emplace_back(dtype, operands[static_cast<std::size_t>(k)], k);
  for (int k = 0; k < arity; ++k) {
    group.code.instrs.push_back({.prim = Prim::input, .input = k});
    group.inputs.push_back({dtype, {1}});
    pointers.push_back(in[static_cast<std::size_t>(k)].data());
  }
  group.code.inputs = arity;
  group.code.instrs.push_back({.prim = prim, .a = 0, .b = 1, .c = 2});
  group.code.outputs = {arity};
  group.outputs = {{dtype, {1}}};
  group.reduce = {Reduce::none};
  Buffer out(dtype, std::vector<double>(static_cast<std::size_t>(n)));
  run(group, pointers, {out.data()});

  const double rtol = dtype == DType::f32 ? 1.3e-6 : 4e-14, atol = dtype == DType::f32 ? 1e-37 : 1e-300;
  int failures = 0;
  for (std::int64_t i = 0; i < n && failures < 5; ++i) {
    double x[3] = {0, 0, 0};
    for (int k = 0; k < arity; ++k) x[k] = in[static_cast<std::size_t>(k)].get(i);
    double want = expr::apply(prim, x[0], x[1], x[2]);
    if (dtype == DType::f32) want = static_cast<double>(static_cast<float>(want));
    if (close(out.get(i), want, rtol, atol)) continue;
    ++failures;
    ADD_FAILURE() << expr::name(prim) << "(" << x[0] << ", " << x[1] << ", " << x[2] << ") = " << out.get(i)
                  << ", want " << want << " in " << name(dtype) << ", off by " << std::abs(out.get(i) / want - 1);
  }
}

TEST(TileMath, EveryPrimitiveF32) {
  for (int p = 0; p <= static_cast<int>(Prim::is_nan); ++p) {
    if (is_math(static_cast<Prim>(p))) check(static_cast<Prim>(p), DType::f32);
  }
}

TEST(TileMath, EveryPrimitiveF64) {
  for (int p = 0; p <= static_cast<int>(Prim::is_nan); ++p) {
    if (is_math(static_cast<Prim>(p))) check(static_cast<Prim>(p), DType::f64);
  }
}

}  // namespace
}  // namespace varve::cpu::testing
