#include "varve/expr.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "varve/error.h"

namespace varve::expr {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

const Expr x = Expr::input(0), y = Expr::input(1), z = Expr::input(2);

double value(const Expr& e, std::vector<double> inputs) {
  const Code code = flatten(static_cast<int>(inputs.size()), {e});
  return evaluate(code, inputs.data());
}

Expr primitive(Prim prim) {
  const Expr operands[] = {x, y, z};
  return Expr::make(prim, operands, arity(prim));
}

std::vector<Prim> all_with_operands() {
  std::vector<Prim> prims;
  for (int i = static_cast<int>(Prim::add); i <= static_cast<int>(Prim::is_nan); ++i) prims.push_back(Prim(i));
  return prims;
}

void expect_derivatives_match(const Expr& e, const std::vector<double>& at) {
  for (int input = 0; input < static_cast<int>(at.size()); ++input) {
    const double h = 1e-6;
    std::vector<double> above = at, below = at;
    above[static_cast<std::size_t>(input)] += h;
    below[static_cast<std::size_t>(input)] -= h;
    const double expected = (value(e, above) - value(e, below)) / (2 * h);
    const double got = value(derivative(e, input), at);
    EXPECT_NEAR(got, expected, 1e-6 * (1 + std::fabs(expected)))
        << print(e) << " by x" << input << " = " << print(derivative(e, input)) << " at x0 = " << at[0];
  }
}

TEST(Expr, EveryPrimitiveHasANameAndAnArity) {
  for (const Prim prim : all_with_operands()) {
    EXPECT_STRNE(name(prim), "unknown");
    EXPECT_GE(arity(prim), 1) << name(prim);
    EXPECT_LE(arity(prim), 3) << name(prim);
  }
  EXPECT_EQ(arity(Prim::select), 3);
  EXPECT_EQ(arity(Prim::atan2), 2);
  EXPECT_EQ(arity(Prim::neg), 1);
  EXPECT_EQ(arity(Prim::input), 0);
}

TEST(Expr, DerivativeOfEveryPrimitiveMatchesCentralDifferences) {
  // Away from kinks; all unary functions are defined in (0, 1), most on the whole line.
  for (const Prim prim : all_with_operands()) {
    for (const double a : {0.11, 0.37, 0.83}) {
      expect_derivatives_match(primitive(prim), {a, 0.61, -0.3});
      if (arity(prim) == 2) expect_derivatives_match(primitive(prim), {a, 1.9, 0.2});
    }
    const bool positive_only = prim == Prim::log || prim == Prim::sqrt || prim == Prim::rsqrt || prim == Prim::pow;
    if (!positive_only) expect_derivatives_match(primitive(prim), {-0.43, 0.77, 0.2});
    const bool within_one = prim == Prim::asin || prim == Prim::acos;
    if (!within_one) expect_derivatives_match(primitive(prim), {3.3, 0.7, 0.2});
  }
  expect_derivatives_match(mod(x, y), {-5.3, 2.0});
  expect_derivatives_match(mod(x, y), {5.3, -2.0});
  expect_derivatives_match(atan2(x, y), {-0.5, -2.0});
}

TEST(Expr, DerivativeOfCompositions) {
  const Expr silu = x * sigmoid(x);
  const Expr gelu = 0.5 * x * erfc(-x * 0.70710678118654752);
  const Expr mixed = select(x < y, exp(x * y) / (1.0 + square(y)), pow(abs(x) + 0.1, y));
  for (const double a : {-2.3, -0.4, 0.9, 2.1}) {
    expect_derivatives_match(silu, {a});
    expect_derivatives_match(gelu, {a});
    expect_derivatives_match(derivative(silu, 0), {a});
    expect_derivatives_match(derivative(gelu, 0), {a});
    expect_derivatives_match(mixed, {a, 0.8});
  }
}

TEST(Expr, DerivativesAtTheCorners) {
  EXPECT_EQ(value(derivative(max(x, 0.0), 0), {0.0}), 0.5);  // ties are split
  EXPECT_EQ(value(derivative(min(x, y), 1), {2, 2}), 0.5);
  EXPECT_EQ(value(derivative(abs(x), 0), {0.0}), 0);
  EXPECT_EQ(value(derivative(pow(x, y), 1), {0, 2}), 0);  // not 0 · log 0
  EXPECT_EQ(value(derivative(pow(x, y), 0), {0, 0}), 0);  // not 0 · 0^-1
  EXPECT_EQ(value(derivative(pow(x, 3.0), 0), {0.0}), 0);
  EXPECT_EQ(value(derivative(pow(2.0, x), 0), {3.0}), 8 * std::log(2.0));
  // An operand that does not depend on the input must not bring 0 · inf.
  EXPECT_EQ(value(derivative(x * y, 0), {1, kInf}), kInf);
  EXPECT_EQ(value(derivative(x + log(y), 0), {1, 0}), 1);
  // The quotient rule would give inf / inf.
  EXPECT_EQ(value(derivative(sigmoid(x), 0), {-1000.0}), 0);
  EXPECT_EQ(value(derivative(x * sigmoid(x), 0), {-1000.0}), 0);
  EXPECT_EQ(value(derivative(derivative(sigmoid(x), 0), 0), {-1000.0}), 0);
}

TEST(Expr, MeaningOfThePrimitives) {
  EXPECT_EQ(value(mod(x, y), {-1, 3}), 2);
  EXPECT_EQ(value(mod(x, y), {1, -3}), -2);
  EXPECT_EQ(value(mod(x, y), {-6, 3}), 0);
  EXPECT_EQ(value(mod(x, y), {5.5, 2}), 1.5);
  EXPECT_TRUE(std::isnan(value(mod(x, y), {1, 0})));
  EXPECT_EQ(value(round(x), {0.5}), 0);
  EXPECT_EQ(value(round(x), {1.5}), 2);
  EXPECT_EQ(value(round(x), {-2.5}), -2);
  EXPECT_TRUE(std::isnan(value(min(x, y), {kNan, 1})));
  EXPECT_TRUE(std::isnan(value(min(x, y), {1, kNan})));
  EXPECT_TRUE(std::isnan(value(max(x, y), {kNan, 1})));
  EXPECT_TRUE(std::isnan(value(max(x, y), {1, kNan})));
  EXPECT_EQ(value(max(x, y), {-1, -2}), -1);
  EXPECT_TRUE(std::isnan(value(sign(x), {kNan})));
  EXPECT_EQ(value(sign(x), {-0.0}), 0);
  EXPECT_EQ(value(sign(x), {-3}), -1);
  EXPECT_EQ(value(is_nan(x), {kNan}), 1);
  EXPECT_EQ(value(is_nan(x), {kInf}), 0);
  EXPECT_EQ(value(select(x, y, z), {kNan, 1, 2}), 1);  // NaN != 0
  EXPECT_EQ(value(select(x, y, z), {-0.0, 1, 2}), 2);
  EXPECT_EQ(value(x > y, {2, 1}), 1);
  EXPECT_EQ(value(x >= y, {kNan, 1}), 0);
  EXPECT_EQ(value(x != y, {kNan, kNan}), 1);
  EXPECT_EQ(value(x && y, {3, -1}), 1);
  EXPECT_EQ(value(x || y, {0, 0}), 0);
  EXPECT_EQ(value(!x, {0.0}), 1);
  EXPECT_EQ(value(trunc(x), {-1.7}), -1);
  EXPECT_EQ(value(rsqrt(x), {4}), 0.5);
  EXPECT_NEAR(value(sigmoid(x), {0.3}), 1 / (1 + std::exp(-0.3)), 1e-15);
}

TEST(Expr, FoldsConstantsAndExactIdentities) {
  EXPECT_EQ(print(Expr(2) * 3 + 1), "7");
  EXPECT_EQ(print(x + 0.0), "x0");
  EXPECT_EQ(print(0.0 + x), "x0");
  EXPECT_EQ(print(x - 0.0), "x0");
  EXPECT_EQ(print(0.0 - x), "-x0");
  EXPECT_EQ(print(x * 1.0), "x0");
  EXPECT_EQ(print(x / 1.0), "x0");
  EXPECT_EQ(print(-(-x)), "x0");
  EXPECT_EQ(print(x + -y), "x0 - x1");
  EXPECT_EQ(print(x - -y), "x0 + x1");
  EXPECT_EQ(print(-(2.0 * x)), "-2 * x0");
  EXPECT_EQ(print(-x * -y), "x0 * x1");
  EXPECT_EQ(print(pow(x, 1.0)), "x0");
  EXPECT_EQ(print(pow(x, 2.0)), "x0 * x0");
  EXPECT_EQ(print(pow(x, 0.0)), "1");
  EXPECT_EQ(print(select(1.0, x, y)), "x0");
  EXPECT_EQ(print(select(0.0, x, y)), "x1");
  EXPECT_EQ(print(select(x, y, y)), "x1");
  EXPECT_EQ(print(abs(-x)), "abs(x0)");
  EXPECT_EQ(print(Expr(0.0) && x), "0");
  EXPECT_EQ(print(Expr(1.0) && (x < y)), "x0 < x1");
  EXPECT_EQ(print(Expr(1.0) && x), "1 && x0");  // x may be 7
  EXPECT_EQ(print(x * 0.0), "x0 * 0");          // x may be infinite
  EXPECT_EQ(print(x - x), "x0 - x0");
}

TEST(Expr, PrintsOnlyTheParenthesesThatMatter) {
  EXPECT_EQ(print(x * sigmoid(2.0 * x)), "x0 * sigmoid(2 * x0)");
  EXPECT_EQ(print((x + y) * z), "(x0 + x1) * x2");
  EXPECT_EQ(print(x + y * z), "x0 + x1 * x2");
  EXPECT_EQ(print(x + y + z), "x0 + x1 + x2");
  EXPECT_EQ(print(x + (y + z)), "x0 + (x1 + x2)");
  EXPECT_EQ(print(x - (y - z)), "x0 - (x1 - x2)");
  EXPECT_EQ(print(x / (y * z)), "x0 / (x1 * x2)");
  EXPECT_EQ(print(-(x + y)), "-(x0 + x1)");
  EXPECT_EQ(print(-x * y), "-x0 * x1");
  EXPECT_EQ(print(!(x < y) || z), "!(x0 < x1) || x2");
  EXPECT_EQ(print((x < y) == z), "x0 < x1 == x2");
  EXPECT_EQ(print(select(x <= y, exp(x), -2.5)), "select(x0 <= x1, exp(x0), -2.5)");
  EXPECT_EQ(print(atan2(x, y + 1)), "atan2(x0, x1 + 1)");
  EXPECT_EQ(print(x * 0.1), "x0 * 0.1");
}

TEST(Expr, FlattenSharesEqualSubtrees) {
  // Built twice, so the nodes differ; equal all the same.
  const Expr sum = exp(x + y) * exp(y + x) + exp(x + y);
  const Code code = flatten(2, {sum, exp(x + y)});
  EXPECT_EQ(code.instrs.size(), 6u);  // x, y, x + y, exp, mul, add
  EXPECT_EQ(code.outputs.size(), 2u);
  for (std::size_t i = 0; i < code.instrs.size(); ++i) {
    for (const int operand : {code.instrs[i].a, code.instrs[i].b, code.instrs[i].c}) {
      EXPECT_LT(operand, static_cast<int>(i));
    }
  }
  const double at[] = {0.5, 0.25};
  EXPECT_DOUBLE_EQ(evaluate(code, at, 1), std::exp(0.75));
  EXPECT_DOUBLE_EQ(evaluate(code, at, 0), std::exp(1.5) + std::exp(0.75));
  // Order matters for what does not commute, and -0 is not 0.
  EXPECT_EQ(flatten(2, {x - y, y - x}).instrs.size(), 4u);
  EXPECT_EQ(flatten(0, {0.0, -0.0, 0.0}).instrs.size(), 2u);
}

TEST(Expr, SubstitutesInputs) {
  EXPECT_EQ(print(substitute(x * exp(y), {y + 1, 2 * x})), "(x1 + 1) * exp(2 * x0)");
  EXPECT_EQ(print(substitute(x * y, {3, 4})), "12");  // folded on the way
  EXPECT_THROW(substitute(z, {x, y}), Error);
}

TEST(Expr, RefusesWhatIsMalformed) {
  const Expr one[] = {x};
  EXPECT_THROW(Expr::make(Prim::add, one, 1), Error);
  EXPECT_THROW(Expr::make(Prim::input, nullptr, 0), Error);
  EXPECT_THROW(Expr::input(-1), Error);
  try {
    flatten(1, {x + z});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("reads input 2, but the formula has 1 inputs"), std::string::npos) << e.what();
  }
}

TEST(Expr, DeepAndSharedExpressionsAreFine) {
  Expr deep = x;
  for (int i = 0; i < 100'000; ++i) deep = sin(deep) + y;
  EXPECT_TRUE(std::isfinite(value(deep, {0.1, 0.2})));
  EXPECT_TRUE(std::isfinite(value(derivative(deep, 0), {0.1, 0.2})));
  EXPECT_GT(print(substitute(deep, {y, x})).size(), 1000u);

  Expr wide = x;  // a tree of 2^80 leaves, a graph of 81 nodes
  for (int i = 0; i < 80; ++i) wide = wide * wide;
  EXPECT_EQ(flatten(1, {wide}).instrs.size(), 81u);
  EXPECT_EQ(value(derivative(wide, 0), {1.0}), std::pow(2.0, 80));
  EXPECT_LT(print(wide).size(), 2u << 20);
}

Expr two(Expr a, Expr b) { return a * b; }

TEST(Formula, KnowsItsArityAndItsOutputs) {
  EXPECT_FALSE(Formula());
  const Formula one = [](Expr a) { return exp(a); };
  const Formula several = [](Expr a, Expr b, Expr c) { return std::vector<Expr>{a + b, c}; };
  EXPECT_EQ(one.arity(), 1);
  EXPECT_EQ(Formula(two).arity(), 2);
  EXPECT_EQ(several.arity(), 3);
  EXPECT_EQ(Formula([] { return Expr(3); }).arity(), 0);
  ASSERT_EQ(several.on_inputs().size(), 2u);
  EXPECT_EQ(print(several.on_inputs()[0]), "x0 + x1");
  EXPECT_EQ(print(one({y})[0]), "exp(x1)");
}

}  // namespace
}  // namespace varve::expr
