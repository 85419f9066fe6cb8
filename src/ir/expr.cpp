// The nodes of a formula, and the functions that build them.
#include "varve/expr.h"

#include <utility>

#include "ir/expr_eval.h"
#include "ir/expr_walk.h"

namespace varve::expr {

const char* name(Prim prim) {
  switch (prim) {
    case Prim::input:
      return "input";
    case Prim::constant:
      return "constant";
    case Prim::add:
      return "add";
    case Prim::sub:
      return "sub";
    case Prim::mul:
      return "mul";
    case Prim::div:
      return "div";
    case Prim::pow:
      return "pow";
    case Prim::min:
      return "min";
    case Prim::max:
      return "max";
    case Prim::mod:
      return "mod";
    case Prim::atan2:
      return "atan2";
    case Prim::lt:
      return "lt";
    case Prim::le:
      return "le";
    case Prim::eq:
      return "eq";
    case Prim::ne:
      return "ne";
    case Prim::logical_and:
      return "logical_and";
    case Prim::logical_or:
      return "logical_or";
    case Prim::select:
      return "select";
    case Prim::neg:
      return "neg";
    case Prim::abs:
      return "abs";
    case Prim::sign:
      return "sign";
    case Prim::floor:
      return "floor";
    case Prim::ceil:
      return "ceil";
    case Prim::round:
      return "round";
    case Prim::trunc:
      return "trunc";
    case Prim::exp:
      return "exp";
    case Prim::expm1:
      return "expm1";
    case Prim::log:
      return "log";
    case Prim::log1p:
      return "log1p";
    case Prim::sqrt:
      return "sqrt";
    case Prim::rsqrt:
      return "rsqrt";
    case Prim::sin:
      return "sin";
    case Prim::cos:
      return "cos";
    case Prim::tan:
      return "tan";
    case Prim::asin:
      return "asin";
    case Prim::acos:
      return "acos";
    case Prim::atan:
      return "atan";
    case Prim::sinh:
      return "sinh";
    case Prim::cosh:
      return "cosh";
    case Prim::tanh:
      return "tanh";
    case Prim::erf:
      return "erf";
    case Prim::erfc:
      return "erfc";
    case Prim::logical_not:
      return "logical_not";
    case Prim::is_nan:
      return "is_nan";
  }
  return "unknown";
}

int arity(Prim prim) {
  if (prim <= Prim::constant) return 0;
  if (prim <= Prim::logical_or) return 2;
  return prim == Prim::select ? 3 : 1;
}

namespace {

Expr unary(Prim prim, const Expr& x) { return Expr::make(prim, &x, 1); }

Expr binary(Prim prim, Expr a, Expr b) {
  const Expr operands[] = {std::move(a), std::move(b)};
  return Expr::make(prim, operands, 2);
}

}  // namespace

Expr operator+(Expr a, Expr b) { return binary(Prim::add, std::move(a), std::move(b)); }
Expr operator-(Expr a, Expr b) { return binary(Prim::sub, std::move(a), std::move(b)); }
Expr operator*(Expr a, Expr b) { return binary(Prim::mul, std::move(a), std::move(b)); }
Expr operator/(Expr a, Expr b) { return binary(Prim::div, std::move(a), std::move(b)); }
Expr operator-(Expr a) { return unary(Prim::neg, a); }
Expr operator<(Expr a, Expr b) { return binary(Prim::lt, std::move(a), std::move(b)); }
Expr operator<=(Expr a, Expr b) { return binary(Prim::le, std::move(a), std::move(b)); }
Expr operator>(Expr a, Expr b) { return binary(Prim::lt, std::move(b), std::move(a)); }
Expr operator>=(Expr a, Expr b) { return binary(Prim::le, std::move(b), std::move(a)); }
Expr operator==(Expr a, Expr b) { return binary(Prim::eq, std::move(a), std::move(b)); }
Expr operator!=(Expr a, Expr b) { return binary(Prim::ne, std::move(a), std::move(b)); }
Expr operator&&(Expr a, Expr b) { return binary(Prim::logical_and, std::move(a), std::move(b)); }
Expr operator||(Expr a, Expr b) { return binary(Prim::logical_or, std::move(a), std::move(b)); }
Expr operator!(Expr a) { return unary(Prim::logical_not, a); }

Expr select(Expr condition, Expr a, Expr b) {
  const Expr operands[] = {std::move(condition), std::move(a), std::move(b)};
  return Expr::make(Prim::select, operands, 3);
}
Expr min(Expr a, Expr b) { return binary(Prim::min, std::move(a), std::move(b)); }
Expr max(Expr a, Expr b) { return binary(Prim::max, std::move(a), std::move(b)); }
Expr pow(Expr a, Expr b) { return binary(Prim::pow, std::move(a), std::move(b)); }
Expr mod(Expr a, Expr b) { return binary(Prim::mod, std::move(a), std::move(b)); }
Expr atan2(Expr a, Expr b) { return binary(Prim::atan2, std::move(a), std::move(b)); }
Expr abs(Expr x) { return unary(Prim::abs, x); }
Expr sign(Expr x) { return unary(Prim::sign, x); }
Expr floor(Expr x) { return unary(Prim::floor, x); }
Expr ceil(Expr x) { return unary(Prim::ceil, x); }
Expr round(Expr x) { return unary(Prim::round, x); }
Expr trunc(Expr x) { return unary(Prim::trunc, x); }
Expr exp(Expr x) { return unary(Prim::exp, x); }
Expr expm1(Expr x) { return unary(Prim::expm1, x); }
Expr log(Expr x) { return unary(Prim::log, x); }
Expr log1p(Expr x) { return unary(Prim::log1p, x); }
Expr sqrt(Expr x) { return unary(Prim::sqrt, x); }
Expr rsqrt(Expr x) { return unary(Prim::rsqrt, x); }
Expr sin(Expr x) { return unary(Prim::sin, x); }
Expr cos(Expr x) { return unary(Prim::cos, x); }
Expr tan(Expr x) { return unary(Prim::tan, x); }
Expr asin(Expr x) { return unary(Prim::asin, x); }
Expr acos(Expr x) { return unary(Prim::acos, x); }
Expr atan(Expr x) { return unary(Prim::atan, x); }
Expr sinh(Expr x) { return unary(Prim::sinh, x); }
Expr cosh(Expr x) { return unary(Prim::cosh, x); }
Expr tanh(Expr x) { return unary(Prim::tanh, x); }
Expr erf(Expr x) { return unary(Prim::erf, x); }
Expr erfc(Expr x) { return unary(Prim::erfc, x); }
Expr is_nan(Expr x) { return unary(Prim::is_nan, x); }
Expr sigmoid(Expr x) { return 1.0 / (1.0 + exp(-x)); }
Expr square(Expr x) { return x * x; }

const Expr* sigmoid_argument(const Expr& e) {
  const ExprNode& quotient = e.node();
  if (quotient.prim != Prim::div || !is_constant(quotient.operands[0], 1)) return nullptr;
  const ExprNode& sum = quotient.operands[1].node();
  if (sum.prim != Prim::add) return nullptr;
  const int one = is_constant(sum.operands[0]) ? 0 : 1;
  if (!is_constant(sum.operands[static_cast<std::size_t>(one)], 1)) return nullptr;
  const ExprNode& power = sum.operands[static_cast<std::size_t>(1 - one)].node();
  return power.prim == Prim::exp ? &power.operands[0] : nullptr;
}

Formula::AnyExpr::operator Expr() const { return Expr(0.0); }

std::vector<Expr> Formula::on_inputs() const {
  std::vector<Expr> inputs;
  for (int i = 0; i < arity_; ++i) inputs.push_back(Expr::input(i));
  return call_(inputs);
}

}  // namespace varve::expr
