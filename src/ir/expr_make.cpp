// Making a node: constants are folded, and identities that hold for every value (up to the sign of zero) are applied.
// x·0 stays: it is NaN for an infinite x.
#include <optional>
#include <utility>

#include "base/text.h"
#include "ir/expr_eval.h"
#include "ir/expr_walk.h"
#include "varve/error.h"

namespace varve::expr {
namespace {

// Deleting a chain of a million nodes must not recurse a million deep: a node that dies while another is being deleted
// waits in that one's list. A plain pointer, because expressions in static storage outlive thread_local objects.
thread_local std::vector<const ExprNode*>* dying = nullptr;

void destroy(const ExprNode* node) {
  if (dying != nullptr) {
    dying->push_back(node);
    return;
  }
  std::vector<const ExprNode*> list{node};
  dying = &list;
  while (!list.empty()) {
    const ExprNode* last = list.back();
    list.pop_back();
    delete last;
  }
  dying = nullptr;
}

std::shared_ptr<const ExprNode> new_node(ExprNode node) { return {new ExprNode(std::move(node)), destroy}; }

bool is_prim(const Expr& e, Prim prim) { return e.node().prim == prim; }
bool is_truth(const Expr& e) { return is_truth_valued(e.node().prim) || is_constant(e, 0) || is_constant(e, 1); }
const Expr& operand(const Expr& e) { return e.node().operands[0]; }

std::optional<Expr> simplify_add(const Expr& a, const Expr& b) {
  if (is_constant(a, 0)) return b;
  if (is_constant(b, 0)) return a;
  if (is_prim(b, Prim::neg)) return a - operand(b);
  return std::nullopt;
}

std::optional<Expr> simplify_sub(const Expr& a, const Expr& b) {
  if (is_constant(b, 0)) return a;
  if (is_constant(a, 0)) return -b;
  if (is_prim(b, Prim::neg)) return a + operand(b);
  return std::nullopt;
}

std::optional<Expr> simplify_mul(const Expr& a, const Expr& b) {
  if (is_constant(a, 1)) return b;
  if (is_constant(b, 1)) return a;
  if (is_constant(a, -1)) return -b;
  if (is_constant(b, -1)) return -a;
  if (is_constant(a) && is_prim(b, Prim::neg)) return Expr(-a.node().value) * operand(b);
  if (is_constant(b) && is_prim(a, Prim::neg)) return operand(a) * Expr(-b.node().value);
  if (is_prim(a, Prim::neg) && is_prim(b, Prim::neg)) return operand(a) * operand(b);
  return std::nullopt;
}

std::optional<Expr> simplify_div(const Expr& a, const Expr& b) {
  if (is_constant(b, 1)) return a;
  if (is_constant(b, -1)) return -a;
  return std::nullopt;
}

std::optional<Expr> simplify_pow(const Expr& a, const Expr& b) {
  if (is_constant(b, 0)) return Expr(1.0);  // also for a NaN or infinite base, as in C
  if (is_constant(b, 1)) return a;
  if (is_constant(b, 2)) return a * a;
  if (is_constant(b, -1)) return 1.0 / a;
  return std::nullopt;
}

std::optional<Expr> simplify_logic(Prim prim, const Expr& a, const Expr& b) {
  const bool is_and = prim == Prim::logical_and;
  for (const auto& [constant, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (!is_constant(*constant)) continue;
    if ((constant->node().value != 0) != is_and) return Expr(is_and ? 0.0 : 1.0);  // decides alone
    if (is_truth(*other)) return *other;
  }
  return std::nullopt;
}

std::optional<Expr> simplify_neg(const Expr& x) {
  if (is_prim(x, Prim::neg)) return operand(x);
  if (!is_prim(x, Prim::mul)) return std::nullopt;
  const Expr &a = x.node().operands[0], &b = x.node().operands[1];
  if (is_constant(a)) return Expr(-a.node().value) * b;
  if (is_constant(b)) return a * Expr(-b.node().value);
  return std::nullopt;
}

std::optional<Expr> simplify_select(const Expr& condition, const Expr& a, const Expr& b) {
  if (is_constant(condition)) return condition.node().value != 0 ? a : b;
  if (a.ptr() == b.ptr()) return a;
  if (is_constant(a) && is_constant(b) && apply(Prim::eq, a.node().value, b.node().value) != 0) return a;
  return std::nullopt;
}

std::optional<Expr> simplify(Prim prim, const Expr* x) {
  switch (prim) {
    case Prim::add:
      return simplify_add(x[0], x[1]);
    case Prim::sub:
      return simplify_sub(x[0], x[1]);
    case Prim::mul:
      return simplify_mul(x[0], x[1]);
    case Prim::div:
      return simplify_div(x[0], x[1]);
    case Prim::pow:
      return simplify_pow(x[0], x[1]);
    case Prim::logical_and:
    case Prim::logical_or:
      return simplify_logic(prim, x[0], x[1]);
    case Prim::min:
    case Prim::max:
      return x[0].ptr() == x[1].ptr() ? std::optional(x[0]) : std::nullopt;
    case Prim::select:
      return simplify_select(x[0], x[1], x[2]);
    case Prim::neg:
      return simplify_neg(x[0]);
    case Prim::abs:
      if (is_prim(x[0], Prim::abs)) return x[0];
      if (is_prim(x[0], Prim::neg)) return abs(operand(x[0]));
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace

Expr::Expr(double constant)
    : node_(new_node({.prim = Prim::constant, .index = 0, .value = constant, .operands = {}})) {}

Expr Expr::input(int index) {
  if (index < 0) throw Error(cat("expression: input ", index, ": inputs are counted from 0."));
  return Expr(new_node({.prim = Prim::input, .index = index, .value = 0, .operands = {}}));
}

Expr Expr::make(Prim prim, const Expr* operands, int count) {
  if (count != expr::arity(prim) || count == 0) {
    throw Error(cat("expression: ", expr::name(prim), " takes ", expr::arity(prim), " operands and was given ", count,
                    count == 0 ? "; make inputs with Expr::input and constants with Expr(value)." : "."));
  }
  bool constant = true;
  double values[3] = {};
  for (int i = 0; i < count; ++i) {
    constant = constant && is_constant(operands[i]);
    values[i] = operands[i].node().value;
  }
  if (constant) return Expr(apply(prim, values[0], values[1], values[2]));
  if (std::optional<Expr> simpler = simplify(prim, operands)) return *std::move(simpler);
  return Expr(new_node({.prim = prim, .index = 0, .value = 0, .operands = {operands, operands + count}}));
}

}  // namespace varve::expr
