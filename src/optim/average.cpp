#include "optim/named.h"
#include "varve/distributed.h"
#include "varve/optim.h"

namespace varve::optim {

Average::Average(const std::vector<Variable>& parameters, double decay) : parameters_(parameters), decay_(decay) {
  check_fraction("average: decay", decay);
  for (const Variable& parameter : parameters) {
    averages_.emplace_back("average." + parameter.name(), parameter.value(), false);
    distributed::keep_like(parameter, {averages_.back()});
  }
}

void Average::update() {
  const Scope scope("average");
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Scope there("", distributed::placed_on(parameters_[i]));
    const bool split = distributed::is_split(parameters_[i]);
    const Variable parameter = split ? distributed::part_of(parameters_[i]) : parameters_[i];
    Variable kept = split ? distributed::part_of(averages_[i]) : averages_[i];
    const Tensor average = kept.value();
    kept.assign(average + (parameter.value() - average) * (1 - decay_));
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

std::vector<Variable> Average::state() const { return averages_; }

}  // namespace varve::optim
