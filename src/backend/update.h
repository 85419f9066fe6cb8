// An optimiser's update as what follows a gradient: what backends ask that compute both at once.
#pragma once

#include <utility>
#include <vector>

#include "ir/node.h"
#include "varve/expr.h"

namespace varve::backend {

inline bool is_scalar(const ir::Value& value) { return value.type().shape.rank() == 0; }

// The value behind views.
const ir::Value& behind_views(const ir::Value& value);

// Over the gradient and what is read beside it; numbers known now are part of it.
struct UpdateFormula {
  std::vector<expr::Expr> results;
  std::vector<ir::Value> inputs;              // without the gradient, which is input 0
  std::vector<std::pair<int, int>> in_place;  // (output, one of these inputs)
};
UpdateFormula formula_of(const ir::Node& update, const ir::Value& gradient);

}  // namespace varve::backend
