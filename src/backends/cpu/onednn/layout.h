#pragma once

#include "backends/cpu/onednn/kernel.h"

namespace varve::cpu::dnn {

// `plain` and `packed` name the same logical axes: [K, N] for matrices, [(G,) O, I, H, W] for convolutions.
struct PackedLayout::Impl {
  Desc packed;
  Type type;
  bool plain;
  Kernel pack;
  Kernel unpack;
};

// `plain` gives the shape and the plain strides; its type is taken as f32.
PackedLayout make_layout(const Desc& plain, const Desc& packed, Type type);

// The same memory with the two axes of a matrix swapped.
Desc transposed(const Desc& matrix);

}  // namespace varve::cpu::dnn
