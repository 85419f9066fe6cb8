// Keys that many layers share.
#pragma once

#include "nn/text/schema.h"

namespace varve::nn {

inline constexpr const char *kWhole = "integer", *kNumber = "number", *kFlag = "boolean", *kWord = "string",
                            *kPair = "integer or [height, width]",
                            *kPadding = "\"same\", \"valid\", integer or [rows, columns]",
                            *kInit = "name or {name = number}";

inline LayerKey activation_key(const std::string& standard = "\"linear\"") {
  return {"activation", kWord, standard, "what follows: relu, tanh, gelu…"};
}
inline LayerKey bias_key() { return {"bias", kFlag, "true", "whether a bias is added"}; }
inline std::vector<LayerKey> init_keys() {
  return {{"weight_init", kInit, "\"auto\"", "where weights start; auto: He for the relu family, Glorot otherwise"},
          {"bias_init", kInit, "\"auto\"", "where biases start; auto: zeros"}};
}
inline std::vector<LayerKey> operator+(std::vector<LayerKey> a, const std::vector<LayerKey>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace varve::nn
