#include "backends/cuda/conv/conv_epilogue.h"

#include <algorithm>

namespace varve::cuda {
namespace {

// One value for each channel, repeated along all other axes.
bool is_bias(const TensorType& type, const TensorType& result) {
  const Shape& shape = type.shape;
  if (type.dtype != result.dtype || shape.rank() == 0 || shape.rank() > result.shape.rank()) return false;
  if (shape.back() != result.shape.back()) return false;
  return std::all_of(shape.begin(), shape.end() - 1, [](std::int64_t size) { return size == 1; });
}

// Whether the node adds a bias to `value` and nothing else.
bool adds_bias(const ir::NodePtr& node, const ir::Value& value, ir::Value& bias) {
  if (!node || !node->is("add") || node->types[0] != value.type()) return false;
  bias = node->inputs[node->inputs[0] == value ? 1 : 0];
  return bias != value && is_bias(bias.type(), value.type());
}

}  // namespace

std::string ConvFollowers::text() const {
  return std::string(epilogue.bias ? "+bias" : "") + (epilogue.relu ? "+relu" : "");
}

void ConvFollowers::cover(backend::Claim& claim) const {
  if (nodes.empty()) return;
  claim.nodes.insert(claim.nodes.end(), nodes.begin(), nodes.end());
  if (epilogue.bias) claim.inputs.push_back(bias);
  claim.outputs = {{nodes.back(), 0}};
}

std::vector<ConvFollowers> followers_of_conv(const backend::Site& site) {
  std::vector<ConvFollowers> found{{}};
  ConvFollowers so_far;
  ir::Value value{site.root(), 0};
  ir::NodePtr next = site.sole_user(value);
  if (adds_bias(next, value, so_far.bias)) {
    so_far.nodes.push_back(next);
    so_far.epilogue.bias = true;
    found.push_back(so_far);
    value = {next, 0};
    next = site.sole_user(value);
  }
  if (next && next->is("relu")) {
    so_far.nodes.push_back(next);
    so_far.epilogue.relu = true;
    found.push_back(so_far);
  }
  std::reverse(found.begin(), found.end());
  return found;
}

}  // namespace varve::cuda
