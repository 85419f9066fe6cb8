#include "bench/equity.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace varve::bench {
namespace {

double relative(double loss, double reference) { return std::abs(loss - reference) / std::abs(reference); }

}  // namespace

std::vector<double> loss_bounds(const Losses& reference, const std::vector<Losses>& perturbed) {
  std::vector<double> bounds(reference.size(), kLossBound);
  if (!bounds.empty()) bounds[0] = kFirstLossBound;
  for (std::size_t i = 1; i < bounds.size(); ++i) {
    bounds[i] = std::max(bounds[i], bounds[i - 1]);
    for (const Losses& run : perturbed) {
      const double spread = i < run.size() ? relative(run[i], reference[i]) : 0;
      if (std::isfinite(spread)) bounds[i] = std::max(bounds[i], kRoundingFactor * spread);
    }
    bounds[i] = std::min(bounds[i], kLargestLossBound);
  }
  return bounds;
}

LossComparison compare_losses(const Losses& losses, const Losses& reference, const std::vector<double>& bounds) {
  if (losses.size() != reference.size())
    return {.objection = cat("expected ", reference.size(), " losses, got ", losses.size())};
  LossComparison found;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const double apart = relative(losses[i], reference[i]);
    if (!(apart <= bounds[i])) {  // NaN is no agreement
      found.objection =
          cat("loss ", i + 1, " is ", losses[i], ", Varve's ", reference[i], ": more than ", bounds[i], " apart");
      return found;
    }
    found.worst = std::max(found.worst, apart);
  }
  return found;
}

std::string prediction_objection(double prediction, double reference) {
  if (relative(prediction, reference) <= kPredictionBound) return "";
  return cat("predictions after five steps have a root mean square of ", prediction, ", Varve's of ", reference,
             ": more than ", kPredictionBound, " apart");
}

}  // namespace varve::bench
