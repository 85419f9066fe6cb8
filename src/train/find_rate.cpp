// The rate finder: a sweep of rising rates, and the rate at which the loss falls fastest (L. Smith 2015, as fastai).
#include <algorithm>
#include <cmath>
#include <numbers>

#include "page/chart.h"
#include "page/numbers.h"
#include "train/evaluator.h"
#include "train/report.h"
#include "varve/autodiff.h"
#include "varve/compile.h"
#include "varve/interrupt.h"
#include "varve/ops.h"
#include "varve/train.h"

namespace varve::train {
namespace {

using page::general;
using page::line_chart_svg;

constexpr double kSmoothing = 0.9;      // of the old mean in the new one
constexpr double kDiverged = 4;         // times the best loss
constexpr std::size_t kWindowPart = 5;  // a fifth of the sweep is one window of the moving mean
constexpr std::size_t kSlopePart = 8;   // an eighth to either side is what a slope is measured over
constexpr double kLeastFall = 0.02;     // of the first loss
constexpr double kClearFall = 4.5;      // times the deviation of a window's mean

void check(const data::Dataset& train, const RateFinderOptions& options) {
  if (!(options.from > 0 && options.to > options.from && std::isfinite(options.to)))
    throw Error("find_rate: needs 0 < from < to, got from " + general(options.from, 6) + " to " +
                general(options.to, 6) + ".");
  if (options.steps < 10 || options.steps > 1'000'000)
    throw Error("find_rate: needs 10 to 1,000,000 steps, got " + std::to_string(options.steps) + ".");
  if (options.batch < 1)
    throw Error("find_rate: needs a batch of at least 1, got " + std::to_string(options.batch) + ".");
  if (!train.defined() || train.size() == 0) throw Error("find_rate: the data set is empty.");
}

// Puts every variable back to where it was, whichever way the sweep ends.
class Restore {
 public:
  explicit Restore(nn::Module& model) {
    for (const nn::NamedVariable& named : model.named_variables())
      saved_.emplace_back(named.variable, named.variable.value().eval());
  }
  ~Restore() {
    for (auto& [variable, value] : saved_) variable.assign(value);
  }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  std::vector<std::pair<Variable, Tensor>> saved_;
};

// Batches without end: one epoch after the other.
class Stream {
 public:
  Stream(const data::Dataset& train, const RateFinderOptions& options) : train_(train) {
    options_.batch = train.streams() > 0 ? train.streams() : std::min(options.batch, train.size());
    options_.seed = options.seed;
    options_.drop_last = true;
    options_.workers = options.workers;
  }
  std::int64_t batch() const { return options_.batch; }
  data::Batch next() {
    data::Batch batch;
    if (!loader_) loader_ = std::make_unique<data::Loader>(train_, options_);
    if (!loader_->next(batch)) {
      ++options_.epoch;
      loader_ = std::make_unique<data::Loader>(train_, options_);
      if (!loader_->next(batch)) throw Error("find_rate: the data set has no whole batch.");
    }
    return batch;
  }

 private:
  data::Dataset train_;
  data::LoaderOptions options_;
  std::unique_ptr<data::Loader> loader_;
};

// The loss of each batch; their running mean is in `found`.
std::vector<double> sweep(nn::Module& model, const Objective& objective, Stream& stream,
                          const RateFinderOptions& options, RateFinder& found) {
  const Restore restore(model);
  optim::Bound optimizer = options.optimizer.over(model.parameters());
  BatchProgram step(
      [&](const data::Batch& batch) {
        const nn::Precision precision(options.precision.dtype);
        auto [loss, gradients] = value_and_grad(
            [&] { return objective.loss(model.masked_all(batch.inputs(), Mode::train, {batch.mask()}), batch); },
            model.parameters());
        optimizer.apply(gradients);
        return std::vector<Tensor>{loss};
      },
      std::nullopt, {.name = "find_rate", .tf32 = options.precision.tf32});
  const double growth = std::log(options.to / options.from) / static_cast<double>(options.steps - 1);
  double mean = 0, best = INFINITY, weight = 1;
  std::vector<double> losses;
  for (std::int64_t i = 0; i < options.steps; ++i) {
    const double rate = options.from * std::exp(growth * static_cast<double>(i));
    throw_if_interrupted();
    optimizer.set_rate(rate);
    const double loss = step(stream.next())[0].item<float>();
    mean = kSmoothing * mean + (1 - kSmoothing) * loss;
    weight *= kSmoothing;
    const double smoothed = mean / (1 - weight);  // as the mean started at 0
    if (!std::isfinite(smoothed) || smoothed > kDiverged * best) break;
    best = std::min(best, smoothed);
    found.rates.push_back(rate);
    found.losses.push_back(smoothed);
    losses.push_back(loss);
  }
  return losses;
}

}  // namespace

namespace {

// The mean of as many neighbours on either side as there are, `half` at most.
std::vector<double> moving_mean(const std::vector<double>& values, std::size_t half) {
  std::vector<double> means(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t reach = std::min({half, i, values.size() - 1 - i});
    double sum = 0;
    for (std::size_t k = i - reach; k <= i + reach; ++k) sum += values[k];
    means[i] = sum / static_cast<double>(2 * reach + 1);
  }
  return means;
}

// Of the straight line through the values around i. Rates are evenly spaced in their logarithm.
double slope_at(const std::vector<double>& values, std::size_t i, std::size_t reach) {
  double products = 0, squares = 0;
  for (std::size_t k = 1; k <= reach; ++k) {
    products += static_cast<double>(k) * (values[i + k] - values[i - k]);
    squares += 2 * static_cast<double>(k * k);
  }
  return products / squares;
}

// Deviation of single losses, from the steps between neighbours: neither a slope nor a few that blow up count.
double noise_of(const std::vector<double>& values) {
  std::vector<double> steps;
  for (std::size_t i = 1; i < values.size(); ++i) steps.push_back(std::abs(values[i] - values[i - 1]));
  const auto middle = steps.begin() + std::ssize(steps) / 2;
  std::nth_element(steps.begin(), middle, steps.end());
  constexpr double kOfNormal = 1.4826;  // deviation over median distance
  return kOfNormal * *middle / std::numbers::sqrt2;
}

}  // namespace

double steepest_rate(const std::vector<double>& rates, const std::vector<double>& losses) {
  if (rates.size() < 2) return 0;
  const std::size_t count = rates.size(), window = std::max<std::size_t>(1, count / kWindowPart), half = window / 2;
  const double noise = half == 0 ? 0 : noise_of(losses);
  double first = 0;
  for (std::size_t i = 0; i < window; ++i) first += losses[i] / static_cast<double>(window);
  // What blows up right behind the lowest point must not hide it.
  std::vector<double> bounded = losses;
  for (double& loss : bounded)
    if (half > 0) loss = std::min(loss, first + 2 * noise);
  const std::vector<double> means = moving_mean(bounded, half);
  // Means of a whole window: those at the ends are of fewer losses, and any of them may be low.
  const auto begin = means.begin() + static_cast<std::ptrdiff_t>(half), end = means.end() - (begin - means.begin());
  const auto lowest = static_cast<std::size_t>(std::min_element(begin, end) - means.begin());
  const double of_window = noise / std::sqrt(static_cast<double>(2 * half + 1));
  if (!(first - means[lowest] > std::max(kClearFall * of_window, kLeastFall * std::abs(first)))) return 0;
  const std::size_t reach = std::max<std::size_t>(1, count / kSlopePart);
  std::size_t steepest = lowest;
  double fall = 0;
  for (std::size_t i = reach; i < lowest && i + reach < count; ++i)
    if (const double slope = slope_at(means, i, reach); slope < fall) fall = slope, steepest = i;
  return fall < 0 ? rates[steepest] : rates[lowest] / 10;
}

RateFinder find_rate(nn::Module& model, const data::Dataset& train, const RateFinderOptions& options) {
  check(train, options);
  Stream stream(train, options);
  check_targets(options.loss, train);
  build_for(model, train, stream.batch(), options.seed);
  const Objective objective = objective_of(model, train, options.loss, {}, stream.batch());
  RateFinder found;
  const std::vector<double> losses = sweep(model, objective, stream, options, found);
  if (found.rates.empty())
    throw Error("find_rate: the first loss is not finite: look at the data, or start from smaller weights.");
  found.suggestion = steepest_rate(found.rates, losses);
  page::ChartOptions chart{.title = "loss, smoothed", .x_label = "learning rate", .log_x = true};
  if (found.suggestion > 0) {
    chart.mark_x = found.suggestion;
    chart.mark_label = general(found.suggestion, 2);
  }
  found.svg = line_chart_svg({{"loss", found.rates, found.losses}}, chart);
  return found;
}

}  // namespace varve::train
