#include "backend/followers.h"

#include <algorithm>

#include "backend/match.h"

namespace varve::backend {

std::string Followers::text() const {
  return std::string(biased() ? "+bias" : "") + (activation.empty() ? "" : "+" + activation);
}

void Followers::cover(Claim& claim) const {
  if (nodes.empty()) return;
  claim.nodes.insert(claim.nodes.end(), nodes.begin(), nodes.end());
  if (biased()) claim.inputs.push_back(bias);
  claim.outputs = {{nodes.back(), 0}};
}

std::vector<Followers> followers_of(const Site& site, const std::function<bool(const ir::Node&)>& takes_activation) {
  std::vector<Followers> found;
  Followers so_far;
  ir::Value value{site.root(), 0};
  if (const auto add = bias_after(site, value)) {
    so_far.nodes.push_back(add->node);
    so_far.bias = add->bias;
    found.push_back(so_far);
    value = {add->node, 0};
  }
  const ir::NodePtr next = site.sole_user(value);
  if (next && next->types[0] == value.type() && takes_activation(*next)) {
    so_far.nodes.push_back(next);
    so_far.activation = next->op->name;
    found.push_back(so_far);
  }
  std::reverse(found.begin(), found.end());
  return found;
}

}  // namespace varve::backend
