#include "backend/task.h"

#include "base/text.h"

namespace varve::backend {

std::vector<Claim> claims_of(const ClaimMap& map, const Site& site, const std::string& backend) {
  std::vector<Claim> result;
  if (const auto known = map.find(site.node().op->name); known != map.end())
    for (const ClaimFn& claim : known->second) claim(site, result);
  if (result.empty()) result.push_back(Claim::no(backend, "no kernel for this operator"));
  return result;
}

Claim claim_of(std::string kernel, const ir::NodePtr& node, Maker make) {
  return Claim::of(
      std::move(kernel), node,
      [make, op = node->op->name, attrs = node->attrs](const std::vector<Port>& in, const std::vector<Port>& out) {
        return make({op, attrs, in, out});
      });
}

void offer(ClaimMap& map, const std::string& backend, const std::string& op, Maker make) {
  map[op].push_back([make, kernel = cat(backend, " ", op)](const Site& site, std::vector<Claim>& claims) {
    claims.push_back(claim_of(kernel, site.root(), make));
  });
}

}  // namespace varve::backend
