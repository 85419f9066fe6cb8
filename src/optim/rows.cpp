#include "optim/rows.h"

#include "varve/indexing.h"

namespace varve::optim {

SummedRows summed(const GradientRows& gradient) {
  const std::int64_t count = gradient.rows.dim(0);
  if (count < 2) return {gradient.rows, gradient.values, zeros({count}, i64), gradient.from};
  const Tensor order = argsort(gradient.rows, 0);
  const Tensor rows = gather(gradient.rows, order), values = gather(gradient.values, order);
  const Tensor begins = (rows.slice({{1, kEnd}}) != rows.slice({{0, count - 1}})).to(i64);
  const Tensor which = cumsum(concat({zeros({1}, i64), begins}, 0), 0);
  return {rows, scatter_add(zeros(values.shape(), values.dtype()), which, values), which, gradient.from};
}

GradientRows padded(const GradientRows& gradient) {
  const std::int64_t count = gradient.rows.dim(0);
  std::int64_t size = 16;
  while (size < count) size = size / 2 * 3 >= count ? size / 2 * 3 : 2 * size;
  if (count == 0 || size == count) return gradient;
  Shape rest = gradient.values.shape();
  rest[0] = size - count;
  const Tensor last = broadcast_to(gradient.rows.slice({{count - 1, count}}), {size - count});
  return {concat({gradient.rows, last}, 0), concat({gradient.values, zeros(rest, gradient.values.dtype())}, 0),
          gradient.from};
}

void update_rows(const Variable& parameter, const std::vector<Variable>& state, const SummedRows& gradient,
                 const RowRule& rule, const Tensor& rate, const Tensor& step, double weight_decay) {
  Optimizer::Slot slot{.parameter = gather(parameter.value(), gradient.rows),
                       .gradient = gather(gradient.distinct, gradient.which),
                       .state = {},
                       .rate = rate,
                       .step = step,
                       .weight_decay = weight_decay};
  for (const Variable& one : state) slot.state.push_back(gather(one.value(), gradient.rows));
  const Updated updated = rule(slot);
  for (std::size_t i = 0; i < state.size(); ++i)
    Variable(state[i]).assign(scatter(state[i].value(), gradient.rows, updated.state[i]));
  Variable(parameter).assign(scatter(parameter.value(), gradient.rows, updated.parameter));
}

}  // namespace varve::optim
