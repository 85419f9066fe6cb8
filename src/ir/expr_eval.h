// The plain meaning of a primitive on doubles: what folding, the reference backend and every oracle agree on.
#pragma once

#include "varve/expr.h"

namespace varve::expr {

// Operands past the arity are ignored. Not for input and constant, which have no operands to apply to.
double apply(Prim prim, double a, double b = 0, double c = 0);

constexpr bool is_commutative(Prim p) {
  return p == Prim::add || p == Prim::mul || p == Prim::eq || p == Prim::ne || p == Prim::logical_and ||
         p == Prim::logical_or;
}

// Whether the value is always 0 or 1.
constexpr bool is_truth_valued(Prim p) {
  return (p >= Prim::lt && p <= Prim::logical_or) || p == Prim::logical_not || p == Prim::is_nan;
}

}  // namespace varve::expr
