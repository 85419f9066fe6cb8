#include "backend/update.h"

#include <algorithm>

namespace varve::backend {

UpdateFormula formula_of(const ir::Node& update, const ir::Value& gradient) {
  UpdateFormula formula;
  std::vector<expr::Expr> operands;
  std::vector<int> place;
  for (const ir::Value& in : update.inputs) {
    place.push_back(static_cast<int>(formula.inputs.size()));
    if (in == gradient) {
      operands.push_back(expr::Expr::input(0));
    } else if (const auto number = number_of(in)) {
      operands.push_back(expr::Expr(*number));
    } else {
      formula.inputs.push_back(in);
      operands.push_back(expr::Expr::input(static_cast<int>(formula.inputs.size())));
    }
  }
  for (const expr::Expr& e : update.op->exprs) formula.results.push_back(expr::substitute(e, operands));
  for (const auto& [output, input] : update.op->in_place) {
    const auto i = static_cast<std::size_t>(input);
    if (!is_scalar(update.inputs[i])) formula.in_place.push_back({output, place[i]});
  }
  return formula;
}

void cover_update(Claim& claim, const ir::NodePtr& update, const UpdateFormula& formula) {
  const auto factors = static_cast<int>(claim.inputs.size());
  claim.nodes.push_back(update);
  claim.inputs.insert(claim.inputs.end(), formula.inputs.begin(), formula.inputs.end());
  claim.outputs.clear();
  for (std::size_t o = 0; o < formula.results.size(); ++o) claim.outputs.push_back({update, static_cast<int>(o)});
  claim.in_place.clear();
  for (const auto& [output, input] : formula.in_place) claim.in_place.push_back({output, input + factors});
}

std::string update_refusal(const ir::Node& product, const ir::Node& update, const ir::Value& gradient) {
  const TensorType& type = gradient.type();
  if (type.dtype != f32 && type.dtype != f64) return name(type.dtype);
  if (type.shape.rank() != 2) return "not a matrix";
  if (std::count(update.inputs.begin(), update.inputs.end(), gradient) != 1) return "the gradient stands there twice";
  for (const ir::Value& in : update.inputs) {
    if (!(in.type() == type) && !(is_scalar(in) && in.type().dtype == type.dtype)) return "operands of another shape";
    for (const ir::Value& operand : product.inputs)
      if (!is_scalar(in) && behind_views(operand) == behind_views(in))
        return "what it updates is an operand of the gradient";
  }
  return "";
}

}  // namespace varve::backend
