#pragma once

#include <optional>

#include "backends/cpu/onednn/kernel.h"

namespace varve::cpu::dnn {

// The layouts of one convolution's three tensors.
struct ConvLayouts {
  Desc x;
  Desc weights;
  Desc y;
};

// A kernel for one pass, with the layouts that it works in. Its arguments are x, weights, bias, y.
struct ConvKernel {
  Kernel kernel;
  ConvLayouts used;
};

// Channels last, weights [O, KH, KW, I/groups]; the types are those that the pass reads and writes.
ConvLayouts plain_layouts(Conv2dPass pass, const Conv2dSpec& spec);

// The same with the weights left to the library.
ConvLayouts open_layouts(Conv2dPass pass, const Conv2dSpec& spec);

// Nothing when the library has no kernel for `wanted`, or only its reference one.
std::optional<ConvKernel> prepare_pass(Conv2dPass pass, const Conv2dSpec& spec, const ConvLayouts& wanted);

}  // namespace varve::cpu::dnn
