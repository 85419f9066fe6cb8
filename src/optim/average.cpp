#include "optim/named.h"
#include "varve/distributed.h"
#include "varve/optim.h"

namespace varve::optim {

Average::Average(const std::vector<Variable>& parameters, double decay) : parameters_(parameters), decay_(decay) {
  check_fraction("average: decay", decay);
  for (const Variable& parameter : parameters) {
    averages_.emplace_back("average." + parameter.name(), parameter.value(), false);
    if (const int rank = distributed::placed_on(parameter); rank >= 0) distributed::place({averages_.back()}, rank);
  }
}

void Average::update() {
  const Scope scope("average");
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Scope there("", distributed::placed_on(parameters_[i]));
    const Tensor average = averages_[i].value();
    averages_[i].assign(average + (parameters_[i].value() - average) * (1 - decay_));
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
