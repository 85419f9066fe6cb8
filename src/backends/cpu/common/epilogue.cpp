#include "backends/cpu/common/epilogue.h"

#include <algorithm>
#include <map>

#include "varve/error.h"

namespace varve::cpu {
namespace {

using dnn::Activation;

Activation activation_of(const ir::Node& node) {
  static const std::map<std::string, Activation> known = {
      {"relu", Activation::relu},     {"tanh", Activation::tanh},           {"sigmoid", Activation::sigmoid},
      {"gelu", Activation::gelu_erf}, {"gelu_tanh", Activation::gelu_tanh}, {"silu", Activation::silu}};
  const auto it = known.find(node.op->name);
  return it == known.end() ? Activation::none : it->second;
}

// One value for each column, repeated along all other axes.
bool is_bias(const TensorType& type, const TensorType& result) {
  const Shape& shape = type.shape;
  if (type.dtype != result.dtype || shape.rank() == 0 || shape.rank() > result.shape.rank()) return false;
  if (shape.back() != result.shape.back()) return false;
  return std::all_of(shape.begin(), shape.end() - 1, [](std::int64_t size) { return size == 1; });
}

// The node that adds a bias to `value` and nothing else, with the other operand.
bool adds_bias(const ir::NodePtr& node, const ir::Value& value, ir::Value& bias) {
  if (!node || !node->is("add") || node->types[0] != value.type()) return false;
  const bool first = node->inputs[0] == value;
  bias = node->inputs[first ? 1 : 0];
  return bias != value && is_bias(bias.type(), value.type());
}

}  // namespace

std::string Epilogue::text() const {
  return std::string(biased ? "+bias" : "") + (activation_name.empty() ? "" : "+" + activation_name);
}

Epilogue Epilogue::without_nodes() const {
  Epilogue copy = *this;
  copy.nodes.clear();
  copy.bias = {};
  return copy;
}

#ifdef VARVE_HAS_ONEDNN
// A product with nothing to sum over.
dnn::Matmul Epilogue::alone(std::int64_t rows, std::int64_t columns) const {
  auto offered = dnn::Matmul::prepare(
      {.m = rows, .n = columns, .c = {.row = columns}, .bias = biased, .activation = activation, .beta = 1});
  if (!offered) throw Error(offered.reason());
  return std::move(*offered);
}
#endif

void Epilogue::cover(backend::Claim& claim) const {
  if (nodes.empty()) return;
  claim.nodes.insert(claim.nodes.end(), nodes.begin(), nodes.end());
  if (biased) claim.inputs.push_back(bias);
  claim.outputs = {{nodes.back(), 0}};
}

std::vector<Epilogue> epilogues_after(const backend::Site& site, std::int64_t terms) {
  constexpr std::int64_t kWorthIt = 128;  // measured: at 64 terms relu costs a quarter, at 256 a tenth or less
  std::vector<Epilogue> found;
  Epilogue so_far;
  ir::Value value{site.root(), 0};
  ir::NodePtr next = site.sole_user(value);
  if (adds_bias(next, value, so_far.bias)) {
    so_far.nodes.push_back(next);
    so_far.biased = true;
    found.push_back(so_far);
    value = {next, 0};
    next = site.sole_user(value);
  }
  if (terms >= kWorthIt && next && next->types[0] == value.type() && activation_of(*next) != Activation::none) {
    so_far.nodes.push_back(next);
    so_far.activation = activation_of(*next);
    so_far.activation_name = next->op->name;
    found.push_back(so_far);
  }
  std::reverse(found.begin(), found.end());
  return found;
}

}  // namespace varve::cpu
