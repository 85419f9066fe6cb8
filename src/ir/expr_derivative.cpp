// Derivatives and substitution: one walk each, operands first, building new expressions.
#include <numbers>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "ir/expr_walk.h"
#include "varve/error.h"

namespace varve::expr {
namespace {

constexpr double kTwoOverSqrtPi = 2 * std::numbers::inv_sqrtpi;

// factor · d, where a derivative that is identically zero stays zero whatever the factor: 0 · inf must not make a NaN
// out of an operand that does not depend on the input.
Expr chain(const Expr& factor, const Expr& d) { return is_constant(d, 0) ? d : factor * d; }

// ∂pow/∂a = b·a^(b-1), but 0 for b = 0, where the power would be infinite at a = 0.
// ∂pow/∂b = a^b·log a, but 0 for a = 0 and b >= 0, where a^b stays 0 while log a is infinite.
Expr pow_derivative(const Expr& y, const Expr& a, const Expr& b, const Expr& da, const Expr& db) {
  Expr by_base = 0.0, by_exponent = 0.0;
  if (!is_constant(da, 0)) by_base = chain(select(b == 0.0, 0.0, b * pow(a, b - 1.0)), da);
  if (!is_constant(db, 0)) by_exponent = chain(select(a == 0.0 && b >= 0.0, 0.0, y * log(a)), db);
  return by_base + by_exponent;
}

// The side that wins passes its derivative; a tie gives each half.
Expr choice_derivative(const Expr& a_wins, const Expr& b_wins, const Expr& da, const Expr& db) {
  return select(a_wins, da, select(b_wins, db, 0.5 * (da + db)));
}

Expr unary_derivative(Prim prim, const Expr& y, const Expr& x) {
  switch (prim) {
    case Prim::neg:
      return -1.0;
    case Prim::abs:
      return sign(x);
    case Prim::exp:
      return y;
    case Prim::expm1:
      return exp(x);  // not y + 1, which loses every digit for very negative x
    case Prim::log:
      return 1.0 / x;
    case Prim::log1p:
      return 1.0 / (1.0 + x);
    case Prim::sqrt:
      return 0.5 / y;
    case Prim::rsqrt:
      return -0.5 * (y * y * y);
    case Prim::sin:
      return cos(x);
    case Prim::cos:
      return -sin(x);
    case Prim::tan:
      return 1.0 + y * y;
    case Prim::asin:
      return rsqrt((1.0 - x) * (1.0 + x));  // not 1 - x², which cancels near ±1
    case Prim::acos:
      return -rsqrt((1.0 - x) * (1.0 + x));
    case Prim::atan:
      return 1.0 / (1.0 + x * x);
    case Prim::sinh:
      return cosh(x);
    case Prim::cosh:
      return sinh(x);
    case Prim::tanh:
      return 1.0 - y * y;
    case Prim::erf:
      return kTwoOverSqrtPi * exp(-(x * x));
    case Prim::erfc:
      return -kTwoOverSqrtPi * exp(-(x * x));
    default:
      return 0.0;  // sign, floor, ceil, round, trunc, logical_not, is_nan: flat almost everywhere
  }
}

class Differentiator {
 public:
  explicit Differentiator(int input) : input_(input) {}

  Expr run(const Expr& root) {
    const auto done = [&](const ExprNode* node) { return known_.contains(node); };
    visit_operands_first(root, done, [&](const Expr& e) { known_.emplace(&e.node(), of(e)); });
    return known_.at(&root.node());
  }

 private:
  const Expr& d(const Expr& e) const { return known_.at(&e.node()); }

  Expr of(const Expr& y) const {
    const ExprNode& node = y.node();
    switch (arity(node.prim)) {
      case 0:
        return node.prim == Prim::input && node.index == input_ ? 1.0 : 0.0;
      case 1: {
        const Expr& dx = d(node.operands[0]);
        return is_constant(dx, 0) ? dx : chain(unary_derivative(node.prim, y, node.operands[0]), dx);
      }
      case 2:
        return of_binary(y, node.operands[0], node.operands[1]);
      default:
        return select(node.operands[0], d(node.operands[1]), d(node.operands[2]));
    }
  }

  Expr of_binary(const Expr& y, const Expr& a, const Expr& b) const {
    const Expr &da = d(a), &db = d(b);
    if (is_constant(da, 0) && is_constant(db, 0)) return 0.0;
    switch (y.node().prim) {
      case Prim::add:
        return da + db;
      case Prim::sub:
        return da - db;
      case Prim::mul:
        return chain(b, da) + chain(a, db);
      case Prim::div:
        // Sigmoid by the quotient rule is inf / inf once exp overflows; in terms of its value it is sound everywhere.
        if (const Expr* u = sigmoid_argument(y)) return -(y * (1.0 - y)) * d(*u);
        return (da - chain(y, db)) / b;
      case Prim::pow:
        return pow_derivative(y, a, b, da, db);
      case Prim::min:
        return choice_derivative(a < b, b < a, da, db);
      case Prim::max:
        return choice_derivative(b < a, a < b, da, db);
      case Prim::mod:
        return da - chain(floor(a / b), db);
      case Prim::atan2:
        return (chain(b, da) - chain(a, db)) / (a * a + b * b);
      default:
        return 0.0;  // comparisons and logic
    }
  }

  int input_;
  std::unordered_map<const ExprNode*, Expr> known_;
};

}  // namespace

Expr derivative(const Expr& of, int input) { return Differentiator(input).run(of); }

Expr substitute(const Expr& in, const std::vector<Expr>& inputs) {
  std::unordered_map<const ExprNode*, Expr> known;
  const auto rebuilt = [&](const Expr& e) -> Expr {
    const ExprNode& node = e.node();
    if (node.prim == Prim::constant) return e;
    if (node.prim == Prim::input) {
      const std::size_t index = static_cast<std::size_t>(node.index);
      if (index < inputs.size()) return inputs[index];
      throw Error(cat("expression: reads input ", index, ", but only ", inputs.size(), " were given to substitute."));
    }
    std::vector<Expr> operands;
    for (const Expr& operand : node.operands) operands.push_back(known.at(&operand.node()));
    return Expr::make(node.prim, operands.data(), static_cast<int>(operands.size()));
  };
  const auto done = [&](const ExprNode* node) { return known.contains(node); };
  visit_operands_first(in, done, [&](const Expr& e) { known.emplace(&e.node(), rebuilt(e)); });
  return known.at(&in.node());
}

}  // namespace varve::expr
