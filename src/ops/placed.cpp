// Values that one rank alone has (compiler/passes/place.cpp).
#include "base/ranks.h"
#include "base/text.h"
#include "ops/families.h"
#include "ops/shared.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve {
namespace {

bool is_here(const Call& call) { return call.attrs.integer("rank") == rank_place().rank; }

const OpDef owned_op =
    define({.name = "owned",
            .doc = "What a rank keeps of a variable that lives on it; the others keep nothing.",
            .family = "placed",
            .arity = 1,
            .never_batched = kOncePerBatch,
            .shape =
                [](const Call& call) {
                  const TensorType type{call.in[0].dtype, Shape(call.attrs.ints("shape"))};
                  if (is_here(call) && type != call.in[0])
                    throw Error(cat("owned: expected ", type.str(), ", got ", call.in[0].str(), "."));
                  return std::vector<TensorType>{type};
                },
            .cost = costs_nothing,
            .differentiable = false});
const OpDef keep_op = define({.name = "keep",
                              .doc = "A value as the rank that it lives on keeps it: nothing on the others.",
                              .family = "placed",
                              .arity = 1,
                              .never_batched = kOncePerBatch,
                              .shape =
                                  [](const Call& call) {
                                    const TensorType nothing{call.in[0].dtype, {0}};
                                    return std::vector<TensorType>{is_here(call) ? call.in[0] : nothing};
                                  },
                              .cost = costs_nothing,
                              .differentiable = false});

}  // namespace

std::vector<const OpRecord*> placed_ops() { return {&owned_op.record(), &keep_op.record()}; }

}  // namespace varve
