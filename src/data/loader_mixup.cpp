#include "data/loader_mixup.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace varve::data {
namespace {

// The logarithm of a draw from Gamma(shape): by Marsaglia and Tsang for shapes of 1 and more; a smaller one follows
// from that of shape + 1 (the logarithm, because draws for α = 0.01 are often less than the least double).
double log_gamma_draw(double shape, Random& random) {
  if (shape < 1) {
    const double boost = std::log(1 - random.uniform()) / shape;
    return log_gamma_draw(shape + 1, random) + boost;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double z = random.normal(), cube = std::pow(1 + c * z, 3);
    if (cube <= 0) continue;
    if (std::log(1 - random.uniform()) < 0.5 * z * z + d - d * cube + d * std::log(cube)) return std::log(d * cube);
  }
}

}  // namespace

double beta(double alpha, Random& random) {
  const double first = log_gamma_draw(alpha, random), second = log_gamma_draw(alpha, random);
  return 1 / (1 + std::exp(second - first));
}

void mix_rows(std::span<float> x, std::span<const std::int64_t> partner, float lambda, std::span<float> spare) {
  const std::size_t width = spare.size();
  const auto row = [&](std::int64_t i) { return x.data() + static_cast<std::size_t>(i) * width; };
  std::vector<bool> mixed(partner.size());
  // A permutation falls into cycles: along one, each row is still unmixed when the one before it needs it, but for the
  // first, which the last one needs.
  for (std::size_t start = 0; start < partner.size(); ++start) {
    if (mixed[start]) continue;
    std::copy_n(row(static_cast<std::int64_t>(start)), width, spare.data());
    for (std::size_t i = start; !mixed[i]; i = static_cast<std::size_t>(partner[i])) {
      mixed[i] = true;
      float* mine = row(static_cast<std::int64_t>(i));
      const float* other = partner[i] == static_cast<std::int64_t>(start) ? spare.data() : row(partner[i]);
      for (std::size_t k = 0; k < width; ++k) mine[k] = other[k] + lambda * (mine[k] - other[k]);
    }
  }
}

void mix_targets(std::span<float> y, std::span<const std::int64_t> labels, std::span<const std::int64_t> partner,
                 float lambda, std::int64_t classes) {
  std::fill(y.begin(), y.end(), 0.f);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::int64_t other = labels[static_cast<std::size_t>(partner[i])];
    if (labels[i] < 0 || labels[i] >= classes)
      throw Error(cat("mixup: a target is ", labels[i], ", but there are ", classes, " classes."));
    if (other < 0 || other >= classes) continue;  // its own row says so
    float* row = y.data() + i * static_cast<std::size_t>(classes);
    row[labels[i]] += lambda;
    row[other] += 1 - lambda;
  }
}

}  // namespace varve::data
