// Variables of which each rank keeps its part.
#include <numeric>

#include "tensor/record.h"
#include "tensor/trace.h"
#include "varve/distributed.h"
#include "varve/ops.h"

namespace varve::distributed {
namespace {

std::int64_t part_size(std::int64_t elements) { return (elements + size() - 1) / size(); }

}  // namespace

Tensor own_part(const Tensor& whole) {
  const std::int64_t elements = whole.numel(), part = part_size(elements);
  const std::int64_t begin = std::min(elements, part * rank()), end = std::min(elements, begin + part);
  const Tensor own = whole.reshape({elements}).slice({{begin, end}});
  return end - begin == part ? own : pad(own, {{0, part - (end - begin)}});
}

Tensor whole_of(const Tensor& part, const Shape& shape) {
  if (part.rank() != 1 || part.dim(0) != part_size(shape.numel()))
    throw Error("whole_of: a rank's part of " + shape.str() + " has shape [" +
                std::to_string(part_size(shape.numel())) + "], got " + part.shape().str() + ".");
  if (size() == 1) return part.reshape(shape);
  return all_gather(part).slice({{0, shape.numel()}}).reshape(shape);
}

namespace {

// A parameter: the compiler lets it go between its uses, and gathers it again (compiler/passes/regather.cpp).
Tensor gathered(const Tensor& part, const Shape& shape) {
  static const OpRecord& gather = find_operator("all_gather");
  const Tensor all = record(gather, {part}, {{"ranks", std::int64_t{size()}}, {"again", std::int64_t{-1}}})[0];
  return all.slice({{0, shape.numel()}}).reshape(shape);
}

}  // namespace

void shard(const std::vector<Variable>& variables) {
  if (size() == 1) return;
  for (const Variable& variable : variables) {
    Variable::State& state = *variable.state();
    if (state.form || state.type.shape.numel() == 0) continue;
    const Tensor own = own_part(variable.value());
    if (!tracing()) own.eval();
    const Shape shape = state.type.shape;
    auto form = std::make_shared<const Form>(Form{Variable(state.name, own, state.trainable),
                                                  [shape](const Tensor& kept) { return gathered(kept, shape); },
                                                  own_part, false});
    Tensor before;  // given back after the mutex
    const std::lock_guard lock(state.mutex);
    before = std::exchange(state.held, Tensor());
    state.packed = nullptr;
    state.layout = nullptr;
    state.form = std::move(form);
  }
}

Variable variable_of_each_rank(const std::string& name, const Tensor& own) {
  Shape shape = own.shape(), all{size()};
  for (const std::int64_t length : shape) all.push_back(length);
  if (size() == 1) return Variable(name, own.reshape(all), false);
  Variable variable(name, own, false);
  Variable::State& state = *variable.state();
  state.type.shape = all;
  state.held = Tensor();
  state.form = std::make_shared<const Form>(Form{Variable(name, own, false),
                                                 [all](const Tensor& kept) {
                                                   return all_gather(kept.reshape({1, -1})).reshape(all);
                                                 },
                                                 [shape](const Tensor& whole) {
                                                   const std::int64_t r = rank();
                                                   return whole.slice({{r, r + 1}}).reshape(shape);
                                                 },
                                                 true});
  return variable;
}

void unshard(const std::vector<Variable>& variables) {
  for (const Variable& variable : variables) {
    Variable::State& state = *variable.state();
    if (!state.form) continue;
    const Tensor whole = variable.value().eval();
    state.form = nullptr;
    Variable(variable).assign(whole);
  }
}

bool is_of_each_rank(const Variable& variable) { return is_sharded(variable) && variable.state()->form->of_each_rank; }

bool is_sharded(const Variable& variable) { return variable.state() && variable.state()->form != nullptr; }

Variable part_of(const Variable& variable) { return is_sharded(variable) ? variable.state()->form->kept : variable; }

}  // namespace varve::distributed
