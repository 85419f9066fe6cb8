#pragma once

#include "backends/cpu/onednn/kernel.h"

namespace varve::cpu::dnn {

// `plain` and `packed` name the same logical axes: [K, N] for matrices, [(G,) O, I, H, W] for convolutions.
struct PackedLayout::Impl {
  Desc packed;
  Type type;
  Kernel pack;
  Kernel unpack;
};

// `plain` gives the shape and the plain strides; its type is taken as f32.
PackedLayout make_layout(const Desc& plain, const Desc& packed, Type type);

}  // namespace varve::cpu::dnn
