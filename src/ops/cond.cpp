// cond: one of two recorded branches, and its gradient, which is a cond over the gradients of both.
#include "base/text.h"
#include "ops/batching.h"
#include "ops/families.h"
#include "ops/region.h"
#include "ops/shared.h"
#include "tensor/record.h"
#include "varve/control.h"
#include "varve/error.h"

namespace varve {
namespace {

std::vector<Tensor> cond_gradient(const Vjp& v);
std::optional<std::vector<Tensor>> batch_cond(const Batching& call);

// Inputs: predicate, operands, captured values; regions: then, otherwise, of all inputs but the predicate.
const OpDef cond_op = define({.name = "cond",
                              .doc = "One of two branches, as a predicate says: only that one is computed.",
                              .family = "control",
                              .arity = -1,
                              .shape = [](const Call&) { return std::vector<TensorType>(); },  // typed by the branches
                              .gradient = cond_gradient,
                              .batching = batch_cond,
                              .pure = false});

void check_same(const std::vector<Tensor>& then, const std::vector<Tensor>& otherwise) {
  if (types_of(then) != types_of(otherwise))
    throw Error(cat("cond: both branches must give the same types and shapes: then gives ", types_text(then),
                    "; otherwise gives ", types_text(otherwise), "."));
  if (then.empty()) throw Error("cond: its branches give nothing. Return at least one tensor from each.");
}

std::vector<Tensor> cond_gradient(const Vjp& v) {
  const auto regions = v.out[0].node()->regions;
  std::vector<std::size_t> wanted;  // among the operands
  for (std::size_t i = 1; i < v.in.size(); ++i)
    if (v.needs[i] && is_floating(v.in[i].dtype())) wanted.push_back(i - 1);
  if (wanted.empty()) return std::vector<Tensor>(v.in.size());
  const std::size_t operands = v.in.size() - 1;
  std::vector<Tensor> in = part(v.in, 1, operands);
  for (std::size_t o = 0; o < v.out.size(); ++o)
    if (is_floating(v.out[o].dtype())) in.push_back(flowing(v, o));
  const auto pulled = [&](std::size_t branch) {
    return [&, branch](const std::vector<Tensor>& all) {
      return pull(*regions[branch], part(all, 0, operands), part(all, operands, all.size() - operands), wanted);
    };
  };
  const std::vector<Tensor> found = cond(v.in[0], pulled(0), pulled(1), in);
  std::vector<Tensor> grads(v.in.size());
  for (std::size_t w = 0; w < wanted.size(); ++w) grads[wanted[w] + 1] = found[w];
  return grads;
}

// One branch for all examples, of operands that they share or not.
Branch branch_of_all(const Batching& call, const ir::Graph& branch) {
  return [&call, &branch](const std::vector<Tensor>& operands) {
    BatchWalk walk(call.size, call.fresh, 0);
    for (std::size_t i = 0; i < operands.size(); ++i)
      walk.place({branch.inputs[i], 0}, {operands[i], call.batched[i + 1]});
    std::vector<Tensor> results;
    for (const ir::Value& output : branch.outputs) results.push_back(walk.batched(Tensor(output)));
    return results;
  };
}

// A branch for those examples that take it, if any does. The others lend themselves the operands of one that does: what
// is wrong with theirs (an index, a logarithm) must not be met.
std::vector<Tensor> branch_of_some(const Batching& call, const ir::Graph& branch, const Tensor& takes) {
  std::vector<Tensor> operands = part(call.in, 1, call.in.size() - 1);
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (call.batched[i + 1]) operands[i] = of_active(operands[i], takes);
  const auto nothing = [&](const std::vector<Tensor>&) {
    std::vector<Tensor> results;
    for (const ir::Value& output : branch.outputs)
      results.push_back(zeros(Shape(prefixed(output.type().shape.vec(), call.size)), output.type().dtype));
    return results;
  };
  return cond(any(takes), branch_of_all(call, branch), nothing, operands);
}

std::optional<std::vector<Tensor>> batch_cond(const Batching& call) {
  if (!call.node) return std::nullopt;
  const ir::Graph &then = *call.node->regions[0], &otherwise = *call.node->regions[1];
  if (!call.batched[0])
    return cond(call.in[0], branch_of_all(call, then), branch_of_all(call, otherwise),
                part(call.in, 1, call.in.size() - 1));
  const std::vector<Tensor> yes = branch_of_some(call, then, call.in[0]),
                            no = branch_of_some(call, otherwise, !call.in[0]);
  std::vector<Tensor> results;
  for (std::size_t o = 0; o < yes.size(); ++o) results.push_back(where(of_each(call.in[0], yes[o]), yes[o], no[o]));
  return results;
}

}  // namespace

std::vector<const OpRecord*> control_ops() { return {&cond_op.record(), &while_record()}; }

std::vector<Tensor> cond(const Tensor& predicate, const Branch& then, const Branch& otherwise,
                         const std::vector<Tensor>& operands) {
  const Tensor chosen = checked_predicate("cond", predicate);
  Region yes("cond", Invariants::inside), no("cond", Invariants::inside);
  const std::vector<Tensor> yes_in = yes.add_inputs(types_of(operands), "operand"),
                            no_in = no.add_inputs(types_of(operands), "operand");
  const std::vector<Tensor>& given = yes.record([&] { return then(yes_in); });
  check_same(given, no.record([&] { return otherwise(no_in); }));
  const std::vector<Tensor> captured = captured_by({&yes, &no});
  RecordExtras extras;
  extras.regions = {yes.graph(values_of(captured)), no.graph(values_of(captured))};
  extras.types = types_of(given);
  return record(cond_op.record(), joined(joined({chosen}, operands), captured), {}, std::move(extras));
}

Tensor cond(const Tensor& predicate, const std::function<Tensor()>& then, const std::function<Tensor()>& otherwise) {
  const auto one = [](const std::function<Tensor()>& f) {
    return [&f](const std::vector<Tensor>&) { return std::vector<Tensor>{f()}; };
  };
  return cond(predicate, one(then), one(otherwise), std::vector<Tensor>())[0];
}

Tensor cond(const Tensor& predicate, const std::function<Tensor(const Tensor&)>& then,
            const std::function<Tensor(const Tensor&)>& otherwise, const Tensor& operand) {
  const auto one = [](const std::function<Tensor(const Tensor&)>& f) {
    return [&f](const std::vector<Tensor>& in) { return std::vector<Tensor>{f(in[0])}; };
  };
  return cond(predicate, one(then), one(otherwise), std::vector<Tensor>{operand})[0];
}

}  // namespace varve
