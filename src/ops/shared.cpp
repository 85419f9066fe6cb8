#include "ops/shared.h"

namespace varve {

Tensor flowing(const Vjp& v, std::size_t output) {
  return v.dys[output].defined() ? v.dys[output] : zeros(v.out[output].shape(), v.out[output].dtype());
}

Cost moves_only(const Call& call, const std::vector<TensorType>& out) {
  Cost cost;
  for (const TensorType& type : call.in) cost.bytes += static_cast<double>(type.bytes());
  for (const TensorType& type : out) cost.bytes += static_cast<double>(type.bytes());
  return cost;
}

Cost costs_nothing(const Call&, const std::vector<TensorType>&) { return {}; }

}  // namespace varve
