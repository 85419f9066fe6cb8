// Arithmetic of one tensor.
#include <numbers>

#include "ops/families.h"
#include "varve/ops.h"

namespace varve::expr {
namespace {

constexpr double kLn2 = std::numbers::ln2;
constexpr double kLargeArgument = 1e8;  // from here on 1 + x² is x², even in double

// The power leaves an error of some units, since 1/3 is no floating-point number; one step of Newton's takes it away.
Expr cbrt_formula(Expr x) {
  const Expr a = abs(x);
  const Expr guess = pow(a, 1.0 / 3.0);
  const Expr root = guess - (guess - a / (guess * guess)) / 3.0;
  return select(x == 0.0 || x - x != 0.0, x, sign(x) * root);
}

// With log1p, exact for small x; for large x the square would overflow.
Expr asinh_formula(Expr x) {
  const Expr a = abs(x);
  const Expr small = log1p(a + a * a / (1.0 + sqrt(1.0 + a * a)));
  return sign(x) * select(a > kLargeArgument, log(a) + kLn2, small);
}
Expr asinh_derivative(Expr x, Expr) { return select(abs(x) > kLargeArgument, 1.0 / abs(x), rsqrt(1.0 + x * x)); }

// Two roots, so that x < -1 gives NaN as it should.
Expr acosh_formula(Expr x) {
  const Expr t = x - 1.0;
  return select(x > kLargeArgument, log(x) + kLn2, log1p(t + sqrt(t) * sqrt(t + 2.0)));
}
Expr acosh_derivative(Expr x, Expr) { return rsqrt(x - 1.0) * rsqrt(x + 1.0); }

// By |x|: near -1 the quotient would lose the digits that count.
Expr atanh_formula(Expr x) {
  const Expr a = abs(x);
  return 0.5 * sign(x) * log1p(2.0 * a / (1.0 - a));
}
Expr atanh_derivative(Expr x, Expr) { return 1.0 / ((1.0 - x) * (1.0 + x)); }

}  // namespace
}  // namespace varve::expr

namespace varve {
namespace {

constexpr double kLn2 = std::numbers::ln2;
constexpr double kLn10 = std::numbers::ln10;

// Flat between its steps: the gradient is 0 wherever there is one.
OpDef step(std::string name, std::string doc, expr::Formula formula) {
  return elementwise({.name = std::move(name),
                      .doc = std::move(doc),
                      .formula = std::move(formula),
                      .differentiable = false,
                      .smooth = false,
                      .family = "arithmetic"});
}

// A function of real numbers: integers are converted first.
OpDef real(std::string name, std::string doc, expr::Formula formula, expr::Formula derivative = {}) {
  return elementwise({.name = std::move(name),
                      .doc = std::move(doc),
                      .formula = std::move(formula),
                      .derivative = std::move(derivative),
                      .result = ResultType::floating,
                      .family = "arithmetic"});
}

}  // namespace

const OpDef negative =
    elementwise({.name = "negative", .doc = "-x", .formula = [](Expr x) { return -x; }, .family = "arithmetic"});
const OpDef abs =
    elementwise({.name = "abs", .doc = "|x|", .formula = expr::abs, .smooth = false, .family = "arithmetic"});
const OpDef square = elementwise({.name = "square", .doc = "x²", .formula = expr::square, .family = "arithmetic"});
const OpDef sign = step("sign", "-1, 0 or 1", expr::sign);
const OpDef floor = step("floor", "the largest whole number not above x", expr::floor);
const OpDef ceil = step("ceil", "the smallest whole number not below x", expr::ceil);
const OpDef round = step("round", "the nearest whole number; halves to even", expr::round);
const OpDef trunc = step("trunc", "x without its fraction", expr::trunc);

const OpDef reciprocal = real(
    "reciprocal", "1 / x", [](Expr x) { return 1.0 / x; }, [](Expr, Expr y) { return -y * y; });
const OpDef exp = real("exp", "eˣ", expr::exp, [](Expr, Expr y) { return y; });
const OpDef exp2 = real(
    "exp2", "2ˣ", [](Expr x) { return expr::pow(2.0, x); }, [](Expr, Expr y) { return kLn2 * y; });
const OpDef expm1 = real("expm1", "eˣ - 1, exact near 0", expr::expm1);
const OpDef log = real("log", "natural logarithm", expr::log);
const OpDef log2 = real("log2", "logarithm to base 2", [](Expr x) { return expr::log(x) * (1 / kLn2); });
const OpDef log10 = real("log10", "logarithm to base 10", [](Expr x) { return expr::log(x) * (1 / kLn10); });
const OpDef log1p = real("log1p", "log(1 + x), exact near 0", expr::log1p);
const OpDef sqrt = real("sqrt", "√x", expr::sqrt, [](Expr, Expr y) { return 0.5 / y; });
const OpDef rsqrt = real("rsqrt", "1 / √x", expr::rsqrt, [](Expr, Expr y) { return -0.5 * (y * y * y); });
const OpDef cbrt = real("cbrt", "∛x", expr::cbrt_formula, [](Expr, Expr y) { return 1.0 / (3.0 * y * y); });

const OpDef sin = real("sin", "sine of x radians", expr::sin);
const OpDef cos = real("cos", "cosine of x radians", expr::cos);
const OpDef tan = real("tan", "tangent of x radians", expr::tan, [](Expr, Expr y) { return 1.0 + y * y; });
const OpDef asin = real("asin", "arc sine, in [-π/2, π/2]", expr::asin);
const OpDef acos = real("acos", "arc cosine, in [0, π]", expr::acos);
const OpDef atan = real("atan", "arc tangent, in [-π/2, π/2]", expr::atan);
const OpDef sinh = real("sinh", "hyperbolic sine", expr::sinh);
const OpDef cosh = real("cosh", "hyperbolic cosine", expr::cosh);
const OpDef tanh = real("tanh", "hyperbolic tangent", expr::tanh, [](Expr, Expr y) { return 1.0 - y * y; });
const OpDef asinh = real("asinh", "inverse hyperbolic sine", expr::asinh_formula, expr::asinh_derivative);
const OpDef acosh = real("acosh", "inverse hyperbolic cosine", expr::acosh_formula, expr::acosh_derivative);
const OpDef atanh = real("atanh", "inverse hyperbolic tangent", expr::atanh_formula, expr::atanh_derivative);
const OpDef erf = real("erf", "error function", expr::erf);
const OpDef erfc = real("erfc", "1 - erf(x), exact for large x", expr::erfc);

std::vector<const OpRecord*> unary_ops() {
  std::vector<const OpRecord*> list;
  for (const OpDef* op : {&negative, &abs,  &sign, &floor, &ceil,  &round, &trunc, &square, &reciprocal, &exp, &exp2,
                          &expm1,    &log,  &log2, &log10, &log1p, &sqrt,  &rsqrt, &cbrt,   &sin,        &cos, &tan,
                          &asin,     &acos, &atan, &sinh,  &cosh,  &tanh,  &asinh, &acosh,  &atanh,      &erf, &erfc})
    list.push_back(&op->record());
  return list;
}

}  // namespace varve
