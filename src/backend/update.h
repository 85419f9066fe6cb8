// An optimiser's update as what follows a gradient: what backends ask that compute both at once.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backend/match.h"
#include "varve/expr.h"

namespace varve::backend {

// Over the gradient and what is read beside it; numbers known now are part of it.
struct UpdateFormula {
  std::vector<expr::Expr> results;
  std::vector<ir::Value> inputs;              // without the gradient, which is input 0
  std::vector<std::pair<int, int>> in_place;  // (output, one of these inputs)
};
UpdateFormula formula_of(const ir::Node& update, const ir::Value& gradient);

// Takes the update into a claim of the product alone.
void cover_update(Claim& claim, const ir::NodePtr& update, const UpdateFormula& formula);

// Why a kernel that computes the gradient [M,N] with this product cannot apply the update to each piece of it; empty:
// it can.
std::string update_refusal(const ir::Node& product, const ir::Node& update, const ir::Value& gradient);

}  // namespace varve::backend
