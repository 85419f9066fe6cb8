// Ranks that step by themselves: averages of their weights now and then, or a parameter server.
#include "train/interrupt.h"
#include "train/trainer.h"
#include "varve/distributed.h"

namespace varve::train {

bool Trainer::averages() const { return distributed::size() > 1 && options_.parallel.average_every > 0; }
bool Trainer::has_server() const { return distributed::size() > 1 && options_.parallel.staleness >= 0; }
bool Trainer::is_server() const { return has_server() && distributed::rank() == 0; }
int Trainer::sharers() const { return whole_batch_ ? 1 : distributed::size() - (has_server() ? 1 : 0); }
int Trainer::place() const { return whole_batch_ ? 0 : distributed::rank() - (has_server() ? 1 : 0); }
double Trainer::rate_share() const { return has_server() && options_.parallel.staleness > 0 ? 1.0 / sharers() : 1; }

void Trainer::prepare_alone() {
  if (averages()) {
    std::vector<Variable> variables;
    for (const Kept& kept : kept_)
      if (kept.name.rfind("optimizer.", 0) != 0) variables.push_back(kept.variable);
    rank_average_.emplace(variables, options_.parallel.block_momentum);
    for (const Variable& variable : rank_average_->state()) kept_.push_back({"block." + variable.name(), variable});
  }
  if (is_server())
    server_.emplace(model_, options_.parallel.staleness);
  else if (has_server())
    worker_.emplace(model_);
}

void Trainer::settle_alone(TrainStep& step, std::int64_t samples) {
  wishes_ = {};
  const bool asked = InterruptScope::asked(), stopped = !at_.history.stopped.empty();
  if (worker_) {
    wishes_ = worker_->exchange(step, {.loss = loss_, .samples = samples, .ends = asked, .stops = stopped});
  } else if (at_.total_steps % options_.parallel.average_every == 0 || at_.step == batches_) {
    (*rank_average_)();
    agree();
  }
}

bool Trainer::serve_epoch(Totals& totals) {
  progress_->begin_epoch(epoch(), at_.step);
  double sum = 0, steps = 0;
  const auto stepped = [&](double loss) {
    ++at_.step;
    ++at_.total_steps;
    ++steps;
    loss_ = loss;
    began_ = true;
    if (folder_) folder_->keep();
    progress_->step(at_.step, {{"loss", (sum += loss) / steps}});
    call_step_end(totals);
    if (save_due() && at_.step < batches_) save(&totals);
    return TrainStep::Wishes{InterruptScope::asked(), !at_.history.stopped.empty(), false};
  };
  wishes_ = server_->serve(*step_, at_.step, {[this] { set_rate(); }, stepped});
  at_.history.most_ahead = server_->most_ahead();
  if (wishes_.end) return end_interrupted(totals);
  stops_now();
  distributed::broadcast_variables(state_of_model());
  return finish_epoch(totals);
}

// A worker whose epoch is over waits for the others.
bool Trainer::finish_work(Totals& totals) {
  settle(totals);
  if (!wishes_.end && !wishes_.stop) {
    wishes_ = worker_->finish({.ends = InterruptScope::asked(), .stops = !at_.history.stopped.empty()});
    stops_now();
  }
  if (wishes_.end) return false;
  distributed::broadcast_variables(state_of_model());
  return true;
}

// The server's weights are right, and what it has heard of statistics.
std::vector<Variable> Trainer::state_of_model() {
  std::vector<Variable> all;
  for (const nn::NamedVariable& named : model_.named_variables()) all.push_back(named.variable);
  if (average_)
    for (const Variable& variable : average_->state()) all.push_back(variable);
  return all;
}

}  // namespace varve::train
