// A run without a network, for callbacks.
#pragma once

#include "varve/train.h"

namespace varve::train {

class SessionDouble : public Session {
 public:
  explicit SessionDouble(std::string monitor = "val_loss", std::string run = "") : run_(std::move(run)) {
    history_.monitor = std::move(monitor);
  }
  nn::Module& model() override { throw Error("there is no network"); }
  optim::Bound& optimizer() override { throw Error("there is no optimiser"); }
  const History& history() const override { return history_; }
  int epoch() const override { return static_cast<int>(history_.epochs.size()); }
  std::int64_t step() const override { return step_; }
  double loss() const override { return loss_; }
  const std::string& run() const override { return run_; }
  void stop(const std::string& why) override { stopped_ = why; }

  void do_step(Callback& callback, double loss) {
    ++step_;
    loss_ = loss;
    callback.step_end(*this);
  }
  // An epoch with these values ends; the run's own value is better when lower.
  void do_epoch(Callback& callback, std::vector<std::pair<std::string, double>> values) {
    const int number = epoch() + 1;
    history_.epochs.push_back({.epoch = number, .seconds = 1.5, .rate = 0.25, .values = std::move(values)});
    const double value = history_.epochs.back().value(history_.monitor);
    if (history_.best_epoch == 0 || value < history_.best) {
      history_.best_epoch = number;
      history_.best = value;
    }
    callback.epoch_end(*this);
  }
  void resume_at(std::int64_t step) { step_ = step; }
  const std::string& stopped() const { return stopped_; }

 private:
  History history_;
  std::string run_, stopped_;
  std::int64_t step_ = 0;
  double loss_ = 0;
};

}  // namespace varve::train
