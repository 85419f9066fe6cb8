#include "optim/named.h"
#include "varve/optim.h"

namespace varve::optim {

Average::Average(const std::vector<Variable>& parameters, double decay) : parameters_(parameters), decay_(decay) {
  check_fraction("average: decay", decay);
  for (const Variable& parameter : parameters)
    averages_.emplace_back("average." + parameter.name(), parameter.value(), false);
}

void Average::update() {
  const Scope scope("average");
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
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
  }
}

std::vector<Variable> Average::state() const { return averages_; }

}  // namespace varve::optim
