// Factors of the rate over a run.
#include <algorithm>
#include <cmath>

#include "optim/named.h"
#include "varve/optim.h"

namespace varve::optim {

struct Schedule::Plateau {
  PlateauOptions options;
  bool seen = false;  // a metric, so that `best` means something
  double best = 0, factor = 1;
  int idle = 0;  // epochs without progress
};

namespace {

constexpr double kPi = 3.14159265358979323846;

// How much of the run is done.
double share(const Progress& p) {
  return p.steps < 1 ? 1 : std::clamp(static_cast<double>(p.step) / static_cast<double>(p.steps), 0.0, 1.0);
}

// From `from` to `to` along half a cosine, as t goes from 0 to 1.
double half_cosine(double from, double to, double t) { return to + (from - to) * (1 + std::cos(kPi * t)) / 2; }

// Whole units in x, where x may be a hair below for having been divided.
double whole(double x) { return std::floor(x + 1e-9); }

}  // namespace

Schedule::Schedule() : Schedule(constant()) {}

Schedule::Schedule(std::string name, Factor factor) : name_(std::move(name)), factor_(std::move(factor)) {
  if (!factor_) throw Error("schedule \"" + name_ + "\": it has no function.");
}

double Schedule::factor(const Progress& progress) const { return factor_(progress); }

Schedule Schedule::after_warmup(double epochs) const {
  check_at_least(name_ + ": warm-up", epochs, 0);
  if (epochs == 0) return *this;
  Schedule result(name_, [factor = factor_, epochs](const Progress& p) {
    if (p.epoch >= epochs) return factor(p);
    // Towards where the schedule will be then, so that there is no jump.
    Progress end = p;
    end.epoch = epochs;
    end.step = p.epochs > 0 ? std::llround(static_cast<double>(p.steps) * std::min(1.0, epochs / p.epochs)) : p.steps;
    return factor(end) * std::max(0.0, p.epoch) / epochs;
  });
  result.plateau_ = plateau_;
  return result;
}

void Schedule::observe(double metric) {
  if (!plateau_) return;
  Plateau& p = *plateau_;
  // Relative to the size of the best, of whichever sign: a metric where more is better comes negated. NaN is no
  // progress.
  const bool better = !std::isnan(metric) && (!p.seen || metric < p.best - p.options.threshold * std::abs(p.best));
  if (better) {
    p.seen = true;
    p.best = metric;
    p.idle = 0;
  } else if (++p.idle >= p.options.patience) {
    p.factor = std::max(p.options.least, p.factor * p.options.factor);
    p.idle = 0;
  }
}

std::vector<double> Schedule::state() const {
  if (!plateau_) return {};
  return {plateau_->seen ? 1.0 : 0.0, plateau_->best, plateau_->factor, static_cast<double>(plateau_->idle)};
}

void Schedule::restore(const std::vector<double>& state) {
  const std::size_t expected = plateau_ ? 4 : 0;
  if (state.size() != expected)
    throw Error("schedule \"" + name_ + "\": expected a state of " + std::to_string(expected) + " numbers, got " +
                std::to_string(state.size()) + ". Was it saved by another schedule?");
  if (!plateau_) return;
  check_at_least(name_ + ": the factor in its state", state[2], 0);
  plateau_->seen = to_flag(name_ + ": the first number of its state", state[0]);
  plateau_->best = state[1];
  plateau_->factor = state[2];
  plateau_->idle = static_cast<int>(to_whole(name_ + ": the last number of its state", state[3]));
}

Schedule constant() {
  return Schedule("constant", [](const Progress&) { return 1.0; });
}

Schedule step_decay(StepOptions options) {
  check_positive("step_decay: every", options.every);
  check_at_least("step_decay: factor", options.factor, 0);
  check_at_least("step_decay: after", options.after, 0);
  return Schedule("step_decay", [options](const Progress& p) {
    return std::pow(options.factor, std::max(0.0, whole((p.epoch - options.after) / options.every)));
  });
}

Schedule exponential(double factor_an_epoch) {
  check_at_least("exponential: factor", factor_an_epoch, 0);
  return Schedule("exponential", [=](const Progress& p) { return std::pow(factor_an_epoch, p.epoch); });
}

Schedule milestones(std::vector<double> epochs, double factor) {
  for (const double epoch : epochs) check_at_least("milestones: an epoch", epoch, 0);
  check_at_least("milestones: factor", factor, 0);
  return Schedule("milestones", [=](const Progress& p) {
    const auto passed = [&](double epoch) { return p.epoch + 1e-9 >= epoch; };
    return std::pow(factor, static_cast<double>(std::count_if(epochs.begin(), epochs.end(), passed)));
  });
}

Schedule cosine(CosineOptions options) {
  check_at_least("cosine: final", options.final, 0);
  return Schedule("cosine", [options](const Progress& p) { return half_cosine(1, options.final, share(p)); });
}

Schedule one_cycle(OneCycleOptions options) {
  check_fraction("one_cycle: rise", options.rise);
  check_at_least("one_cycle: start", options.start, 0);
  check_at_least("one_cycle: end", options.end, 0);
  return Schedule("one_cycle", [options](const Progress& p) {
    const double t = share(p);
    if (t < options.rise) return half_cosine(options.start, 1, t / options.rise);
    return half_cosine(1, options.end, (t - options.rise) / (1 - options.rise));
  });
}

Schedule polynomial(double power) {
  check_positive("polynomial: power", power);
  return Schedule("polynomial", [power](const Progress& p) { return std::pow(1 - share(p), power); });
}

Schedule plateau(PlateauOptions options) {
  if (options.patience < 1)
    throw Error("plateau: patience is " + std::to_string(options.patience) + "; expected 1 epoch or more.");
  check_fraction("plateau: factor", options.factor);
  check_at_least("plateau: threshold", options.threshold, 0);
  check_at_least("plateau: least", options.least, 0);
  auto memory = std::make_shared<Schedule::Plateau>();
  memory->options = options;
  Schedule schedule("plateau", [memory](const Progress&) { return memory->factor; });
  schedule.plateau_ = memory;
  return schedule;
}

}  // namespace varve::optim
