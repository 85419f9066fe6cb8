// Every status of the CUDA libraries is checked, with the name of the call.
#pragma once

#include <cuda.h>
#include <nvrtc.h>

#include <string>

namespace varve::cuda {

// Throws Error: "cuLaunchKernel failed: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)."
void check(CUresult status, const char* call);
void check(nvrtcResult status, const char* call);

std::string text_of(CUresult status);

}  // namespace varve::cuda
