// Stands before every kernel's text: the part of CUDA C++ that our kernels use, for g++. No standard headers, for they
// would cost more time than the kernels themselves.
#pragma once

#define VARVE_EMULATED 1
#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define __CUDA_ARCH__ 900

#include "abi.h"
#include "atomics.h"
#include "bits.h"
#include "copy_engine.h"
#include "kernels.h"
#include "math.h"
#include "runtime.h"
#include "tensor_core.h"
#include "types.h"
#include "warp.h"
