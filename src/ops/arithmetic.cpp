// Arithmetic of two and three tensors, comparisons, logic.
#include "ops/families.h"
#include "varve/ops.h"

namespace varve::expr {
namespace {

// As Python divides: exact in integers, and 1 // 0.1 is 9 although 1 / 0.1 rounds to 10. An infinite divisor leaves
// only signs to look at (b - b is not 0 for it).
Expr floor_divide_formula(Expr a, Expr b) {
  const Expr quotient = round((a - mod(a, b)) / b);
  const Expr by_infinity = floor(sign(a) * sign(b) / 2.0) + 0.0 * a;
  return select(b == 0.0, a / b, select(b - b != 0.0, by_infinity, quotient));
}

std::vector<Expr> divide_derivative(Expr, Expr b, Expr y) { return {1.0 / b, -y / b}; }

// The base at 0 with exponent 0, and the exponent at base 0, have limits that the plain rules miss.
std::vector<Expr> power_derivative(Expr a, Expr b, Expr y) {
  return {select(b == 0.0, 0.0, b * pow(a, b - 1.0)), select(a == 0.0 && b >= 0.0, 0.0, y * log(a))};
}

// At a bound the gradient still goes to x.
std::vector<Expr> clip_derivative(Expr x, Expr low, Expr high, Expr) {
  return {select(low <= x && x <= high, 1.0, 0.0), select(x < low && low <= high, 1.0, 0.0),
          select(high < x || high < low, 1.0, 0.0)};
}

}  // namespace
}  // namespace varve::expr

namespace varve {
namespace {

// Comparisons and logic: bool results, nothing to differentiate.
OpDef predicate(std::string name, std::string doc, expr::Formula formula) {
  return elementwise({.name = std::move(name),
                      .doc = std::move(doc),
                      .formula = std::move(formula),
                      .result = ResultType::predicate,
                      .differentiable = false,
                      .smooth = false,
                      .family = "arithmetic"});
}

}  // namespace

const OpDef add = elementwise(
    {.name = "add", .doc = "a + b", .formula = [](Expr a, Expr b) { return a + b; }, .family = "arithmetic"});
const OpDef subtract = elementwise(
    {.name = "subtract", .doc = "a - b", .formula = [](Expr a, Expr b) { return a - b; }, .family = "arithmetic"});
const OpDef multiply = elementwise(
    {.name = "multiply", .doc = "a · b", .formula = [](Expr a, Expr b) { return a * b; }, .family = "arithmetic"});
const OpDef divide = elementwise({.name = "divide",
                                  .doc = "a / b; of integers too a floating-point number",
                                  .formula = [](Expr a, Expr b) { return a / b; },
                                  .derivative = expr::divide_derivative,
                                  .result = ResultType::floating,
                                  .family = "arithmetic"});
const OpDef power = elementwise({.name = "power",
                                 .doc = "a to the power b",
                                 .formula = expr::pow,
                                 .derivative = expr::power_derivative,
                                 .family = "arithmetic"});
const OpDef maximum = elementwise({.name = "maximum",
                                   .doc = "the larger one; NaN if either is; equals share the gradient",
                                   .formula = expr::max,
                                   .smooth = false,
                                   .family = "arithmetic"});
const OpDef minimum = elementwise({.name = "minimum",
                                   .doc = "the smaller one; NaN if either is; equals share the gradient",
                                   .formula = expr::min,
                                   .smooth = false,
                                   .family = "arithmetic"});
const OpDef remainder = elementwise({.name = "remainder",
                                     .doc = "a - b · floor(a / b): the sign is the divisor's, as in Python",
                                     .formula = expr::mod,
                                     .smooth = false,
                                     .family = "arithmetic"});
const OpDef floor_divide = elementwise({.name = "floor_divide",
                                        .doc = "floor(a / b), as in Python; of integers an integer, 0 where b is 0",
                                        .formula = expr::floor_divide_formula,
                                        .differentiable = false,
                                        .smooth = false,
                                        .family = "arithmetic"});
const OpDef atan2 = elementwise({.name = "atan2",
                                 .doc = "the angle of the point (b, a), in (-π, π]",
                                 .formula = expr::atan2,
                                 .result = ResultType::floating,
                                 .family = "arithmetic"});

const OpDef less = predicate("less", "a < b", [](Expr a, Expr b) { return a < b; });
const OpDef less_equal = predicate("less_equal", "a ≤ b", [](Expr a, Expr b) { return a <= b; });
const OpDef greater = predicate("greater", "a > b", [](Expr a, Expr b) { return a > b; });
const OpDef greater_equal = predicate("greater_equal", "a ≥ b", [](Expr a, Expr b) { return a >= b; });
const OpDef equal = predicate("equal", "a = b; NaN equals nothing", [](Expr a, Expr b) { return a == b; });
const OpDef not_equal = predicate("not_equal", "a ≠ b", [](Expr a, Expr b) { return a != b; });
const OpDef logical_and = predicate("logical_and", "a and b; not 0 is true", [](Expr a, Expr b) { return a && b; });
const OpDef logical_or = predicate("logical_or", "a or b; not 0 is true", [](Expr a, Expr b) { return a || b; });
const OpDef logical_not = predicate("logical_not", "not a; not 0 is true", [](Expr a) { return !a; });
const OpDef is_nan = predicate("is_nan", "whether x is NaN", expr::is_nan);
// x - x is 0 for finite numbers, and NaN for all others.
const OpDef is_finite =
    predicate("is_finite", "whether x is neither NaN nor infinite", [](Expr x) { return x - x == 0.0; });
const OpDef is_inf =
    predicate("is_inf", "whether x is infinite", [](Expr x) { return x - x != 0.0 && !expr::is_nan(x); });

const OpDef where = elementwise({.name = "where",
                                 .doc = "where(condition, a, b): a where the condition is not 0, else b",
                                 .formula = expr::select,
                                 .smooth = false,
                                 .family = "arithmetic"});
const OpDef clip =
    elementwise({.name = "clip",
                 .doc = "clip(x, low, high): x, but not below low nor above high",
                 .formula = [](Expr x, Expr low, Expr high) { return expr::min(expr::max(x, low), high); },
                 .derivative = expr::clip_derivative,
                 .smooth = false,
                 .family = "arithmetic"});

Tensor operator+(const Operand& a, const Operand& b) { return add(a, b); }
Tensor operator-(const Operand& a, const Operand& b) { return subtract(a, b); }
Tensor operator*(const Operand& a, const Operand& b) { return multiply(a, b); }
Tensor operator/(const Operand& a, const Operand& b) { return divide(a, b); }
Tensor operator%(const Operand& a, const Operand& b) { return remainder(a, b); }
Tensor operator-(const Tensor& a) { return negative(a); }
Tensor operator<(const Operand& a, const Operand& b) { return less(a, b); }
Tensor operator<=(const Operand& a, const Operand& b) { return less_equal(a, b); }
Tensor operator>(const Operand& a, const Operand& b) { return greater(a, b); }
Tensor operator>=(const Operand& a, const Operand& b) { return greater_equal(a, b); }
Tensor operator==(const Operand& a, const Operand& b) { return equal(a, b); }
Tensor operator!=(const Operand& a, const Operand& b) { return not_equal(a, b); }
Tensor operator&&(const Operand& a, const Operand& b) { return logical_and(a, b); }
Tensor operator||(const Operand& a, const Operand& b) { return logical_or(a, b); }
Tensor operator!(const Tensor& a) { return logical_not(a); }

namespace {
Variable& assigned(Variable& variable, const Tensor& value) {
  variable.assign(value);
  return variable;
}
}  // namespace
Variable& operator+=(Variable& a, const Operand& b) { return assigned(a, a + b); }
Variable& operator-=(Variable& a, const Operand& b) { return assigned(a, a - b); }
Variable& operator*=(Variable& a, const Operand& b) { return assigned(a, a * b); }
Variable& operator/=(Variable& a, const Operand& b) { return assigned(a, a / b); }

std::vector<const OpRecord*> arithmetic_ops() {
  std::vector<const OpRecord*> list;
  for (const OpDef* op :
       {&add,          &subtract,   &multiply,    &divide,     &power,     &maximum,       &minimum, &remainder,
        &floor_divide, &atan2,      &less,        &less_equal, &greater,   &greater_equal, &equal,   &not_equal,
        &logical_and,  &logical_or, &logical_not, &is_nan,     &is_finite, &is_inf,        &where,   &clip})
    list.push_back(&op->record());
  return list;
}

}  // namespace varve
