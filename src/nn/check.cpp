#include "nn/check.h"

#include <algorithm>

namespace varve::nn {

void check_size(const std::string& kind, const std::string& what, std::int64_t value, std::int64_t least) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (value < least || value > kMost)
    throw Error(kind + ": " + what + " is " + std::to_string(value) + "; expected " + std::to_string(least) +
                " or more" + (value > kMost ? ", and at most 2^31." : "."));
}

void check_pair(const std::string& kind, const std::string& what, const Pair& value, std::int64_t least) {
  check_size(kind, what, value.height, least);
  check_size(kind, what, value.width, least);
}

void check_rank(const std::string& where, const Tensor& x, int rank, const std::string& axes) {
  if (x.rank() != rank) throw Error(where + ": expected input " + axes + ", got shape " + x.shape().str() + ".");
}

std::string features_message(const std::string& where, const std::string& what, std::int64_t expected,
                             const Tensor& x) {
  return where + ": expected " + std::to_string(expected) + " " + what + ", got " + std::to_string(x.dim(-1)) +
         " (input shape " + x.shape().str() + ").";
}

void check_features(const std::string& where, const std::string& what, std::int64_t expected, const Tensor& x) {
  if (x.dim(-1) != expected) throw Error(features_message(where, what, expected, x));
}

Initializer weight_init(const Initializer& given, const Activation& activation) {
  if (given) return given;
  static const std::vector<std::string> relu_family = {"relu",      "relu6", "leaky_relu", "elu",      "gelu",
                                                       "gelu_tanh", "silu",  "mish",       "hardswish"};
  const bool he = std::find(relu_family.begin(), relu_family.end(), activation.name) != relu_family.end();
  return he ? init::he_normal() : init::glorot_uniform();
}

Initializer bias_init(const Initializer& given) { return given ? given : init::zeros(); }

}  // namespace varve::nn
