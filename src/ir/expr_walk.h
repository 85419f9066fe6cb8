// Visiting an expression: each node once, operands first, with its own stack, since formulas may be deep.
#pragma once

#include <cstddef>
#include <vector>

#include "varve/expr.h"

namespace varve::expr {

// `done(node)` says that a node needs no visit; `visit(expr)` is called after all operands are done.
template <class Done, class Visit>
void visit_operands_first(const Expr& root, Done done, Visit visit) {
  struct Step {
    const Expr* expr;
    std::size_t next = 0;  // the operand to descend into
  };
  std::vector<Step> stack;
  if (!done(&root.node())) stack.push_back({&root});
  while (!stack.empty()) {
    Step& top = stack.back();
    const std::vector<Expr>& operands = top.expr->node().operands;
    if (top.next < operands.size()) {
      const Expr& operand = operands[top.next++];
      if (!done(&operand.node())) stack.push_back({&operand});  // invalidates `top`
      continue;
    }
    visit(*top.expr);
    stack.pop_back();
  }
}

inline bool is_constant(const Expr& e) { return e.node().prim == Prim::constant; }
inline bool is_constant(const Expr& e, double value) { return is_constant(e) && e.node().value == value; }

// The u of 1 / (1 + exp(u)), else null: sigmoid(-u), which is differentiated and printed as itself.
const Expr* sigmoid_argument(const Expr& e);

}  // namespace varve::expr
