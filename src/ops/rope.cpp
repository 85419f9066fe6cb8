// Rotary embedding: pairs of features are turned by angles that grow with the position.
#include <cmath>

#include "base/text.h"
#include "ops/shared.h"
#include "varve/ops.h"

namespace varve {
namespace {

std::int64_t checked_features(const Tensor& x, const RopeOptions& o) {
  if (x.rank() < 2 || !is_floating(x.dtype()))
    throw Error(cat("rope: takes floating x [.., T, D], got ", x.type().str(), "."));
  const std::int64_t features = o.features == 0 ? x.dim(-1) : o.features;
  constexpr std::int64_t kMost = 1 << 20;
  if (features < 2 || features % 2 != 0 || features > x.dim(-1) || features > kMost)
    throw Error(cat("rope: turns pairs of features: ", features, " of the ", x.dim(-1), " of x ", x.shape(),
                    " is not an even number from 2 to that, and no more than ", kMost, "."));
  if (!(o.base > 0) || !std::isfinite(o.base))
    throw Error(cat("rope: the base is ", o.base, "; expected more than 0."));
  return features;
}

// [.., T, pairs]: position · base^(-2i / features)
Tensor angles(const Tensor& x, std::int64_t features, const RopeOptions& o) {
  const DType dtype = x.dtype() == f64 ? f64 : f32;
  const Tensor positions = o.positions.defined() ? o.positions.to(dtype) : arange(x.dim(-2)).to(dtype);
  Shape steps = x.shape();
  steps = Shape(Ints(steps.begin(), steps.end() - 1));
  if (positions.rank() > steps.rank() || broadcast(positions.shape(), steps, "rope") != steps)
    throw Error(
        cat("rope: positions ", positions.shape(), " do not broadcast to the steps ", steps, " of x ", x.shape(), "."));
  std::vector<double> rates;
  for (std::int64_t i = 0; i < features; i += 2)
    rates.push_back(std::pow(o.base, -static_cast<double>(i) / static_cast<double>(features)));
  return expand_dims(positions, -1) * tensor(rates).to(dtype);
}

}  // namespace

Tensor rope(const Tensor& x, const RopeOptions& options) {
  const std::int64_t features = checked_features(x, options), pairs = features / 2, rest = x.dim(-1) - features;
  const Tensor angle = angles(x, features, options), c = cos(angle), s = sin(angle), wide = widened(x);
  const std::vector<Tensor> parts = split(wide, {features, rest}, -1);
  Tensor turned;
  if (options.interleaved) {
    Shape apart = parts[0].shape();
    apart[apart.rank() - 1] = pairs;
    apart.push_back(2);
    const std::vector<Tensor> both = split(reshape(parts[0], apart), 2, -1);
    const Tensor a = squeeze(both[0], {-1}), b = squeeze(both[1], {-1});
    turned = reshape(stack({a * c - b * s, b * c + a * s}, -1), parts[0].shape());
  } else {
    const std::vector<Tensor> both = split(parts[0], 2, -1);
    turned = concat({both[0] * c - both[1] * s, both[1] * c + both[0] * s}, -1);
  }
  return (rest ? concat({turned, parts[1]}, -1) : turned).to(x.dtype());
}

}  // namespace varve
