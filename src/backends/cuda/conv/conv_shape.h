// The geometry of a convolution, as all its kernels read it.
#pragma once

#include "backend/conv_shape.h"

namespace varve::cuda {

using backend::conv_call;
using backend::ConvCall;
using backend::ConvPass;
using backend::ConvShape;

}  // namespace varve::cuda
