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

namespace {

void keep_as(Variable::State& state, Form form) {
  if (!tracing()) form.kept.value().eval();
  Tensor before;  // given back after the mutex
  const std::lock_guard lock(state.mutex);
  before = std::exchange(state.held, Tensor());
  state.packed = nullptr;
  state.layout = nullptr;
  state.form = std::make_shared<const Form>(std::move(form));
}

}  // namespace

void shard(const std::vector<Variable>& variables) {
  if (size() == 1) return;
  for (const Variable& variable : variables) {
    Variable::State& state = *variable.state();
    if (state.form || state.type.shape.numel() == 0) continue;
    const Shape shape = state.type.shape;
    keep_as(state, {Variable(state.name, own_part(variable.value()), state.trainable),
                    [shape](const Tensor& kept) { return gathered(kept, shape); }, own_part});
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
                                                 -1, true});
  return variable;
}

void place(const std::vector<Variable>& variables, int rank) {
  if (rank < 0) throw Error("place: expected a rank of 0 or more, got " + std::to_string(rank) + ".");
  if (size() == 1) return;
  if (rank >= size())
    throw Error("place: rank " + std::to_string(rank) + " of " + std::to_string(size()) +
                " ranks. Start more of them, or name one of 0 to " + std::to_string(size() - 1) + ".");
  static const OpRecord &owned = find_operator("owned"), &keep = find_operator("keep");
  for (const Variable& variable : variables) {
    Variable::State& state = *variable.state();
    if (state.form && state.form->owner == rank) continue;
    if (state.form) unshard({variable});
    const Shape shape = state.type.shape;
    const auto part = [rank](const Tensor& whole) { return record(keep, {whole}, {{"rank", rank}})[0]; };
    keep_as(state, {Variable(state.name, part(variable.value()), state.trainable),
                    [rank, shape](const Tensor& kept) {
                      return record(owned, {kept}, {{"rank", rank}, {"shape", shape}})[0];
                    },
                    part, rank});
  }
}

namespace {

// The rank's slices of all blocks along the axis, one after the other.
Tensor slice_of(const Tensor& whole, int axis, std::int64_t blocks) {
  const Shape& shape = whole.shape();
  Shape apart, own = shape;
  std::vector<Range> ranges;
  for (int d = 0; d < shape.rank(); ++d) {
    if (d != axis) {
      apart.push_back(shape[d]), ranges.push_back({0, shape[d]});
      continue;
    }
    for (const std::int64_t length : {blocks, std::int64_t{size()}, shape[d] / size() / blocks})
      apart.push_back(length), ranges.push_back({0, length});
    ranges[ranges.size() - 2] = {rank(), rank() + 1};
  }
  own[axis] /= size();
  return varve::slice(whole.reshape(apart), ranges).reshape(own);
}

Tensor of_slices(const Tensor& own, int axis, std::int64_t blocks) {
  const Tensor all = all_gather(own, axis);  // rank by rank
  if (blocks == 1) return all;
  const Shape& shape = all.shape();
  Shape apart;
  Axes order;
  for (int d = 0; d < shape.rank(); ++d) {
    const int at = apart.rank();
    if (d != axis) {
      apart.push_back(shape[d]), order.push_back(at);
      continue;
    }
    for (const std::int64_t length : {std::int64_t{size()}, blocks, shape[d] / size() / blocks})
      apart.push_back(length);
    for (const int turned : {at + 1, at, at + 2}) order.push_back(turned);
  }
  return transpose(all.reshape(apart), order).reshape(shape);
}

}  // namespace

void split(const std::vector<Variable>& variables, int axis, std::int64_t blocks) {
  if (size() == 1) return;
  for (const Variable& variable : variables) {
    Variable::State& state = *variable.state();
    const Shape shape = state.type.shape;
    const int a = normalize_axis(axis, shape.rank(), "split");
    if (state.form && state.form->axis == a && state.form->blocks == blocks) continue;
    if (blocks < 1 || shape[a] % (blocks * size()) != 0)
      throw Error("split: axis " + std::to_string(a) + " of \"" + state.name + "\", " + state.type.str() +
                  ", does not divide among " + std::to_string(size()) + " ranks" +
                  (blocks > 1 ? ", in " + std::to_string(blocks) + " blocks." : ".") +
                  " Choose a size that does, or start another number of ranks.");
    if (state.form) unshard({variable});
    keep_as(state, {.kept = Variable(state.name, slice_of(variable.value(), a, blocks), state.trainable),
                    .whole = [a, blocks](const Tensor& kept) { return of_slices(kept, a, blocks); },
                    .part = [a, blocks](const Tensor& whole) { return slice_of(whole, a, blocks); },
                    .axis = a,
                    .blocks = blocks});
  }
}

bool is_split(const Variable& variable) {
  return variable.state() && variable.state()->form && variable.state()->form->axis >= 0;
}

void keep_like(const Variable& like, const std::vector<Variable>& variables) {
  if (!like.state() || !like.state()->form) return;
  const Form& form = *like.state()->form;
  if (form.owner >= 0) place(variables, form.owner);
  if (form.axis >= 0) split(variables, form.axis, form.blocks);
}

int placed_on(const Variable& variable) {
  return variable.state() && variable.state()->form ? variable.state()->form->owner : -1;
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

bool is_sharded(const Variable& variable) {
  return variable.state() && variable.state()->form && variable.state()->form->owner < 0;
}

Variable part_of(const Variable& variable) { return is_sharded(variable) ? variable.state()->form->kept : variable; }

Variable kept_of(const Variable& variable) {
  return variable.state() && variable.state()->form ? variable.state()->form->kept : variable;
}

}  // namespace varve::distributed
