#include "backends/cuda/matmul/matmul_match.h"

#include <algorithm>
#include <cmath>

#include "backends/cuda/matmul/matmul_update_plain.h"

namespace varve::cuda::match {
namespace {

// A formula of one result, of which every operand has the result's type or is a scalar.
bool is_formula(const ir::Node& node) {
  if (node.op->exprs.size() != 1 || node.types.size() != 1 || node.op->family == "optimizer") return false;
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](const ir::Value& in) { return in.type() == node.types[0] || is_scalar(in); });
}

// Composes what follows a matrix out of nodes that nobody else reads.
class Composer {
 public:
  Composer(const backend::Site& site, const ir::Value& matrix, std::size_t most_inputs)
      : site_(site), matrix_(matrix), most_inputs_(most_inputs) {}

  // With the node as its last. False: that cannot be.
  bool compose(const ir::NodePtr& last) {
    const std::optional<expr::Expr> function = of_node(last);
    if (!function) return false;
    found_.result = {last, 0};
    found_.function = expr::flatten(static_cast<int>(found_.inputs.size()) + 1, {*function});
    const std::vector<expr::Instr>& instrs = found_.function.instrs;
    return std::all_of(instrs.begin(), instrs.end(), [](const expr::Instr& instr) {
      return instr.prim != expr::Prim::constant || std::isfinite(instr.value);
    });
  }
  Following& found() { return found_; }

 private:
  std::optional<expr::Expr> of_node(const ir::NodePtr& node) {
    if (std::find(found_.nodes.begin(), found_.nodes.end(), node) == found_.nodes.end()) found_.nodes.push_back(node);
    std::vector<expr::Expr> operands;
    for (const ir::Value& in : node->inputs) {
      const std::optional<expr::Expr> operand = of_value(in);
      if (!operand) return std::nullopt;
      operands.push_back(*operand);
    }
    return expr::substitute(node->op->exprs[0], operands);
  }

  std::optional<expr::Expr> of_value(const ir::Value& value) {
    if (value == matrix_) return expr::Expr::input(0);
    if (const auto number = number_of(value)) return expr::Expr(*number);
    if (value.type() != matrix_.type()) return std::nullopt;
    if (is_formula(*value.node) && is_read_only_by(site_, value, found_.nodes)) return of_node(value.node);
    std::vector<ir::Value>& inputs = found_.inputs;
    auto input = std::find(inputs.begin(), inputs.end(), value);
    if (input == inputs.end()) {
      if (inputs.size() == most_inputs_ || !is_computed(value)) return std::nullopt;
      input = inputs.insert(inputs.end(), value);
    }
    return expr::Expr::input(static_cast<int>(input - inputs.begin()) + 1);
  }

  const backend::Site& site_;
  ir::Value matrix_;
  std::size_t most_inputs_;
  Following found_;
};

ir::NodePtr sum_of_columns(const backend::Site& site, const ir::Value& matrix) {
  const TensorType columns{matrix.type().dtype, {matrix.type().shape.back()}};
  for (const ir::Use& use : site.users(matrix))
    if (use.user->is("sum") && use.user->attrs.ints("axes") == Ints{0} && use.user->types[0] == columns)
      return use.user;
  return nullptr;
}

}  // namespace

std::optional<Following> following(const backend::Site& site, const ir::Value& matrix, std::size_t most_inputs) {
  std::optional<Following> longest;
  if (matrix.type().shape.rank() != 2) return longest;
  ir::NodePtr next = site.sole_user(matrix);
  while (next && is_formula(*next) && next->types[0] == matrix.type()) {
    Composer composer(site, matrix, most_inputs);
    if (!composer.compose(next)) break;
    longest = std::move(composer.found());
    next = site.sole_user({next, 0});
  }
  if (longest) longest->sum = sum_of_columns(site, longest->result);
  return longest;
}

Tail tail_of(const Following& f) {
  return {function_text(f.function, f.inputs.size()), f.inputs.size(), f.sum != nullptr};
}

void take_in(const Following& f, backend::Claim& claim) {
  claim.kernel += f.sum ? "+function+sums" : "+function";
  claim.nodes.insert(claim.nodes.end(), f.nodes.begin(), f.nodes.end());
  claim.inputs.insert(claim.inputs.end(), f.inputs.begin(), f.inputs.end());
  claim.outputs.back() = f.result;
  if (!f.sum) return;
  claim.nodes.push_back(f.sum);
  claim.outputs.push_back({f.sum, 0});
}

void cover_number(const backend::Site& site, const ir::Value& value, backend::Claim& claim) {
  const ir::Value& made = behind_views(value);
  if (made.node->is("fill") && is_read_only_by(site, made, claim.nodes)) claim.nodes.push_back(made.node);
}

std::optional<ir::Value> state_behind_cast(const backend::Site& site, const ir::Value& value) {
  if (!value.node->is("cast") || size_of(value.type().dtype) != 2) return std::nullopt;
  const ir::Value& from = value.node->inputs[0];
  if (from.type().dtype != f32 || !site.is_state(from)) return std::nullopt;
  return from;
}

bool is_computed(const ir::Value& value) { return !value.node->op->view && value.node->op != &ir::input_op(); }

}  // namespace varve::cuda::match
