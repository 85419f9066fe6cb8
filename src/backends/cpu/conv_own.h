// Offers of our own convolutions that take bias and ReLU along.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backends/cpu/conv_claims.h"
#include "backends/cpu/plain/biased_conv.h"

namespace varve::cpu {

struct OwnConv {
  std::string kernel;  // such as "thin"
  std::function<std::unique_ptr<plain::BiasedConvolution>(bool relu)> make;
};

// Forward with bias and ReLU first, then alone; gradients alone.
void offer_own_conv(const backend::Site& site, const ConvCall& call, const OwnConv& conv,
                    std::vector<backend::Claim>& claims);

}  // namespace varve::cpu
