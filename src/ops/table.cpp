// The one list of operators. Nodes point to their records: only look-up by name, documentation and tests need it.
#include "base/text.h"
#include "ir/node.h"
#include "ops/families.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve {
namespace {

using Family = std::vector<const OpRecord*> (*)();

std::vector<const OpRecord*> leaf_ops() { return {&ir::input_op(), &ir::constant_op()}; }

constexpr Family kFamilies[] = {
    leaf_ops,   create_ops,     unary_ops,     arithmetic_ops, cast_ops,        activation_ops, softmax_ops,
    reduce_ops, cumulative_ops, shape_ops,     index_ops,      scatter_ops,     matmul_ops,     linalg_ops,
    fft_ops,    conv_ops,       pool_ops,      norm_ops,       recurrent_ops,   control_ops,    attention_ops,
    loss_ops,   random_ops,     optimizer_ops, collective_ops, compression_ops, message_ops,    placed_ops};

std::vector<const OpRecord*> all_operators() {
  std::vector<const OpRecord*> all;
  for (const Family family : kFamilies)
    for (const OpRecord* op : family()) all.push_back(op);
  return all;
}

}  // namespace

const std::vector<const OpRecord*>& operators() {
  static const std::vector<const OpRecord*> all = all_operators();
  return all;
}

const OpRecord& find_operator(const std::string& name) {
  std::vector<std::string> names;
  for (const OpRecord* op : operators()) {
    if (op->name == name) return *op;
    names.push_back(op->name);
  }
  throw Error(cat("unknown operator '", name, "'.", did_you_mean(name, names)));
}

// An operator that is just one primitive of its inputs, in their order, computes that primitive.
void register_primitives() {
  for (const OpDef* op :
       {&add,  &subtract,   &multiply, &divide,    &power,       &minimum,    &maximum, &remainder, &atan2,
        &less, &less_equal, &equal,    &not_equal, &logical_and, &logical_or, &where,   &negative,  &abs,
        &sign, &floor,      &ceil,     &round,     &trunc,       &exp,        &expm1,   &log,       &log1p,
        &sqrt, &rsqrt,      &sin,      &cos,       &tan,         &asin,       &acos,    &atan,      &sinh,
        &cosh, &tanh,       &erf,      &erfc,      &logical_not, &is_nan})
    set_primitive_op(op->record().exprs[0].node().prim, op->record());
}

}  // namespace varve
