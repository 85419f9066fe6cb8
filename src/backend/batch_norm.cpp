#include "backend/batch_norm.h"

#include <algorithm>

#include "backend/match.h"
#include "base/text.h"

namespace varve::backend {
namespace {

// A sum of two values of this type.
bool is_sum_of(const ir::NodePtr& node, const TensorType& type) {
  return node && node->is("add") && node->inputs[0].type() == type && node->inputs[1].type() == type;
}

// The norm whose gradient this is, when nothing stood between it and the ReLU that gave `output`.
ir::NodePtr norm_before(const ir::Value& output, const ir::Node& gradient) {
  if (!output.node->is("relu")) return nullptr;
  const ir::Value& y = output.node->inputs[0];
  if (!y.node->is("batch_norm_train") || y.index != 0) return nullptr;
  const std::vector<ir::Value>& in = gradient.inputs;
  const bool same = y.node->inputs[0] == in[0] && y.node->inputs[1] == in[2] && in[3] == ir::Value{y.node, 1} &&
                    in[4] == ir::Value{y.node, 2} &&
                    y.node->attrs.number("epsilon") == gradient.attrs.number("epsilon");
  return same ? y.node : nullptr;
}

}  // namespace

std::string NormFollowers::text() const { return cat(added.node ? "+add" : "", relu ? "+relu" : ""); }

std::vector<NormFollowers> norm_followers(const Site& site) {
  std::vector<NormFollowers> found{{}};
  NormFollowers so_far;
  ir::Value value{site.root(), 0};
  ir::NodePtr next = site.sole_user(value);
  if (is_sum_of(next, value.type())) {
    so_far.added = next->inputs[next->inputs[0] == value ? 1 : 0];
    if (so_far.added == value || depends_on(so_far.added, site.root().get())) return found;
    so_far.nodes.push_back(next);
    found.push_back(so_far);
    value = {next, 0};
    next = site.sole_user(value);
  }
  if (next && next->is("relu")) {
    so_far.nodes.push_back(next);
    so_far.relu = true;
    found.push_back(so_far);
  }
  std::reverse(found.begin(), found.end());
  return found;
}

std::string NormSource::text() const { return cat(more.node ? "+add" : "", nodes.empty() ? "" : "+relu_grad"); }

void NormSource::cover(Claim& claim) const {
  claim.nodes.insert(claim.nodes.end(), nodes.begin(), nodes.end());
  claim.inputs[1] = dy;
  claim.in_place = {{0, 1}, {0, 0}};
  if (also.node) claim.inputs.push_back(also);
  if (more.node) claim.inputs.push_back(more);
  if (!passes) return;
  claim.outputs.push_back({nodes.front(), 0});
  claim.in_place.insert(claim.in_place.begin(), {3, 1});
  if (more.node) claim.in_place.insert(claim.in_place.end(), {{3, 6}, {0, 6}});
}

std::vector<NormSource> norm_sources(const Site& site) {
  const ir::Node& node = site.node();
  const NormSource alone{.dy = node.inputs[1]};
  const ir::NodePtr& relu = node.inputs[1].node;
  const TensorType& type = node.inputs[0].type();
  if (!relu->is("relu_grad") || relu->inputs[0].type() != type || relu->inputs[1].type() != type) return {alone};
  for (const std::size_t i : {0u, 2u, 3u, 4u})
    if (depends_on(node.inputs[i], relu.get())) return {alone};
  NormSource with{
      .nodes = {relu}, .dy = relu->inputs[1], .also = relu->inputs[0], .passes = site.sole_user({relu, 0}) == nullptr};
  if (const ir::NodePtr norm = norm_before(relu->inputs[0], node); norm && !with.passes) {
    with.recomputes = true;
    with.also = norm->inputs[2];
  }
  std::vector<NormSource> found{with, alone};
  const ir::NodePtr& sum = with.dy.node;
  if (with.passes && is_sum_of(sum, with.dy.type()) && site.sole_user(with.dy)) {
    NormSource longer = with;
    longer.nodes.push_back(sum);
    longer.dy = sum->inputs[0];
    longer.more = sum->inputs[1];
    found.insert(found.begin(), longer);
  }
  return found;
}

}  // namespace varve::backend
