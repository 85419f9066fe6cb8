#include "backend/update.h"

namespace varve::backend {

const ir::Value& behind_views(const ir::Value& value) {
  return value.node->op->view ? behind_views(value.node->inputs[0]) : value;
}

UpdateFormula formula_of(const ir::Node& update, const ir::Value& gradient) {
  UpdateFormula formula;
  std::vector<expr::Expr> operands;
  std::vector<int> place;
  for (const ir::Value& in : update.inputs) {
    place.push_back(static_cast<int>(formula.inputs.size()));
    if (in == gradient) {
      operands.push_back(expr::Expr::input(0));
    } else if (is_scalar(in) && in.node->is("fill")) {
      operands.push_back(expr::Expr(in.node->attrs.number("value")));
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

}  // namespace varve::backend
