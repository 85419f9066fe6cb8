#include "optim/named.h"
#include "varve/distributed.h"
#include "varve/ops.h"
#include "varve/optim.h"

namespace varve::optim {

Average::Average(const std::vector<Variable>& parameters, double decay) : parameters_(parameters), decay_(decay) {
  check_fraction("average: decay", decay);
  for (const Variable& parameter : parameters) {
    averages_.emplace_back("average." + parameter.name(), parameter.value(), false);
    distributed::keep_like(parameter, {averages_.back()});
  }
}

Average Average::equal(const std::vector<Variable>& parameters) {
  Average average(parameters);
  average.count_ = Variable("average.count", zeros({}), false);
  return average;
}

void Average::update() {
  const Scope scope("average");
  Tensor share;  // of the newest
  if (count_.state()) {
    count_.assign(count_.value() + 1);
    share = reciprocal(count_.value());
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Scope there("", distributed::placed_on(parameters_[i]));
    const bool split = distributed::is_split(parameters_[i]);
    const Variable parameter = split ? distributed::part_of(parameters_[i]) : parameters_[i];
    Variable kept = split ? distributed::part_of(averages_[i]) : averages_[i];
    const Tensor average = kept.value();
    const Operand weight = share.defined() ? Operand(share.to(average.dtype())) : Operand(1 - decay_);
    kept.assign(average + (parameter.value() - average) * weight);
  }
}

void Average::swap() {
  if (tracing()) throw Error("average: swap() inside a compiled function; call it between steps.");
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor current = parameters_[i].value();
    parameters_[i].assign(averages_[i].value());
    averages_[i].assign(current);
    // Where values travel, all ranks make them now, in one order.
    if (distributed::kept_of(parameters_[i]).same(parameters_[i])) continue;
    distributed::kept_of(parameters_[i]).value().eval();
    distributed::kept_of(averages_[i]).value().eval();
  }
}

std::vector<Variable> Average::state() const {
  std::vector<Variable> all = averages_;
  if (count_.state()) all.push_back(count_);
  return all;
}

}  // namespace varve::optim
