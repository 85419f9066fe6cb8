// Checks that layers have in common.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "varve/nn/layers.h"

namespace varve::nn {

// A size that a user or a file gave, such as units or a kernel: from `least` to 2^31.
void check_size(const std::string& kind, const std::string& what, std::int64_t value, std::int64_t least = 1);
void check_pair(const std::string& kind, const std::string& what, const Pair& value, std::int64_t least = 1);
void check_rank(const std::string& where, const Tensor& x, int rank, const std::string& axes);
// `dense "fc1": expected 784 input features, got 768 (input shape [32, 768]).`
std::string features_message(const std::string& where, const std::string& what, std::int64_t expected, const Tensor& x);
void check_features(const std::string& where, const std::string& what, std::int64_t expected, const Tensor& x);

// "same" or the sizes given, for the rows and columns of an image [N, H, W, C].
std::pair<Padding, Padding> padding_for(const ConvPadding& padding, const Tensor& x, const Pair& kernel,
                                        const Pair& stride, const Pair& dilation);

// Where a layer's weights start unless it is told: by its activation.
Initializer weight_init(const Initializer& given, const Activation& activation);
Initializer bias_init(const Initializer& given);

}  // namespace varve::nn
