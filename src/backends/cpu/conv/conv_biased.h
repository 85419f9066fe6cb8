// Offers of plain convolutions that take bias and ReLU along.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backends/cpu/conv/biased_conv.h"
#include "backends/cpu/conv/conv_claims.h"

namespace varve::cpu {

struct BiasedConv {
  std::string kernel;  // such as "few-channels"
  std::function<std::unique_ptr<plain::BiasedConvolution>(bool relu)> make;
};

// Forward with bias and ReLU first, then alone; gradients alone.
void offer_biased_conv(const backend::Site& site, const ConvCall& call, const BiasedConv& conv,
                       std::vector<backend::Claim>& claims);

}  // namespace varve::cpu
