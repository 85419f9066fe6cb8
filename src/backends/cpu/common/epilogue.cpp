#include "backends/cpu/common/epilogue.h"

#include <map>

#include "varve/error.h"

namespace varve::cpu {
namespace {

using dnn::Activation;

Activation activation_of(const std::string& op) {
  static const std::map<std::string, Activation> known = {
      {"relu", Activation::relu},     {"tanh", Activation::tanh},           {"sigmoid", Activation::sigmoid},
      {"gelu", Activation::gelu_erf}, {"gelu_tanh", Activation::gelu_tanh}, {"silu", Activation::silu}};
  const auto it = known.find(op);
  return it == known.end() ? Activation::none : it->second;
}

}  // namespace

Epilogue::Epilogue(const backend::Followers& followers)
    : biased(followers.biased()), activation(activation_of(followers.activation)) {}

#ifdef VARVE_HAS_ONEDNN
// A product with nothing to sum over.
dnn::Matmul Epilogue::alone(std::int64_t rows, std::int64_t columns) const {
  auto offered = dnn::Matmul::prepare(
      {.m = rows, .n = columns, .c = {.row = columns}, .bias = biased, .activation = activation, .beta = 1});
  if (!offered) throw Error(offered.reason());
  return std::move(*offered);
}
#endif

std::vector<backend::Followers> followers_of(const backend::Site& site, std::int64_t terms) {
  constexpr std::int64_t kWorthIt = 128;  // measured: at 64 terms relu costs a quarter, at 256 a tenth or less
  return backend::followers_of(site, [terms](const ir::Node& node) {
    return terms >= kWorthIt && activation_of(node.op->name) != Activation::none;
  });
}

}  // namespace varve::cpu
