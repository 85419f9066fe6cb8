// The rate finder: a sweep of rising rates, and the rate at which the loss falls fastest (L. Smith 2015, as fastai).
#include <algorithm>
#include <cmath>

#include "page/chart.h"
#include "page/numbers.h"
#include "train/report.h"
#include "varve/autodiff.h"
#include "varve/compile.h"
#include "varve/ops.h"
#include "varve/train.h"

namespace varve::train {
namespace {

using page::general;
using page::line_chart_svg;

constexpr double kSmoothing = 0.9;        // of the old mean in the new one
constexpr double kDiverged = 4;           // times the best loss
constexpr std::size_t kSkippedPart = 10;  // the first tenth of the sweep: means of too few batches

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

void sweep(nn::Module& model, Stream& stream, const RateFinderOptions& options, RateFinder& found) {
  const Restore restore(model);
  optim::Bound optimizer = options.optimizer.over(model.parameters());
  auto step = compile(
      [&](Tensor x, Tensor y) {
        const nn::Precision precision(options.precision.dtype);
        auto [loss, gradients] =
            value_and_grad([&] { return cast(options.loss(model(x, Mode::train), y), f32); }, model.parameters());
        optimizer.apply(gradients);
        return loss;
      },
      {.name = "find_rate", .tf32 = options.precision.tf32});
  const double growth = std::log(options.to / options.from) / static_cast<double>(options.steps - 1);
  double mean = 0, best = INFINITY, weight = 1;
  for (std::int64_t i = 0; i < options.steps; ++i) {
    const double rate = options.from * std::exp(growth * static_cast<double>(i));
    optimizer.set_rate(rate);
    const data::Batch batch = stream.next();
    const double loss = step(batch.x, batch.y).item<float>();
    mean = kSmoothing * mean + (1 - kSmoothing) * loss;
    weight *= kSmoothing;
    const double smoothed = mean / (1 - weight);  // as the mean started at 0
    if (!std::isfinite(smoothed) || smoothed > kDiverged * best) break;
    best = std::min(best, smoothed);
    found.rates.push_back(rate);
    found.losses.push_back(smoothed);
  }
}

}  // namespace

double steepest_rate(const std::vector<double>& rates, const std::vector<double>& losses) {
  if (rates.empty()) return 0;
  const auto lowest = static_cast<std::size_t>(std::min_element(losses.begin(), losses.end()) - losses.begin());
  std::size_t steepest = lowest;
  double fall = 0;
  for (std::size_t i = std::max<std::size_t>(1, rates.size() / kSkippedPart); i < lowest; ++i) {
    const double slope = losses[i + 1] - losses[i - 1];  // rates are evenly spaced in their logarithm
    if (slope < fall) fall = slope, steepest = i;
  }
  return steepest == lowest ? rates[lowest] / 10 : rates[steepest];
}

RateFinder find_rate(nn::Module& model, const data::Dataset& train, const RateFinderOptions& options) {
  check(train, options);
  Stream stream(train, options);
  if (!model.built())
    model.build(train.x().shape, {.dtype = train.x().dtype, .seed = options.seed, .batch = stream.batch()});
  RateFinder found;
  sweep(model, stream, options, found);
  if (found.rates.empty())
    throw Error("find_rate: the first loss is not finite: look at the data, or start from smaller weights.");
  found.suggestion = steepest_rate(found.rates, found.losses);
  found.svg = line_chart_svg({{"loss", found.rates, found.losses}}, {.title = "loss, smoothed",
                                                                     .x_label = "learning rate",
                                                                     .log_x = true,
                                                                     .mark_x = found.suggestion,
                                                                     .mark_label = general(found.suggestion, 2)});
  return found;
}

}  // namespace varve::train
