// One number everywhere: the driver does that, and nothing has to be compiled for it.
#pragma once

#include "backend/backend.h"

namespace varve::cuda {

// False of a number of eight bytes whose halves differ.
bool driver_fills(DType dtype, double number);
backend::Prepared prepare_fill(const TensorType& type, double number);

}  // namespace varve::cuda
