#include "backend/max_pool.h"

#include "base/text.h"

namespace varve::backend {

MaxPoolGradient::MaxPoolGradient(const Site& site, ir::NodePtr gradient, ir::NodePtr dropped)
    : grad(std::move(gradient)), drop(std::move(dropped)) {
  const ir::Value dx{grad, 0};
  const ir::NodePtr next = site.sole_user(dx);
  if (!next || !next->is("relu_grad") || next->inputs != std::vector<ir::Value>{grad->inputs[0], dx}) return;
  masked = next;
  for (const ir::Use& use : site.users({masked, 0}))
    if (use.user->is("sum") && use.user->attrs.ints("axes") == Ints{0, 1, 2} &&
        use.user->types[0].dtype == dx.type().dtype)
      sum = use.user;
}

std::string MaxPoolGradient::text(bool with_mask) const {
  return cat(drop ? "dropout+" : "", "max_pool2d_grad", with_mask ? "+relu_grad" : "",
             with_mask && sum ? "+bias_grad" : "");
}

void MaxPoolGradient::cover(Claim& claim, bool with_mask) const {
  if (drop) {
    claim.nodes.push_back(drop);
    claim.inputs = {grad->inputs[0], drop->inputs[0], drop->inputs[1], drop->inputs[2]};
  }
  if (!with_mask) return;
  claim.nodes.push_back(masked);
  claim.outputs = {{masked, 0}};
  if (!sum) return;
  claim.nodes.push_back(sum);
  claim.outputs.push_back({sum, 0});
}

}  // namespace varve::backend
