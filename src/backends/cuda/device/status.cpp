#include "backends/cuda/device/status.h"

#include "base/text.h"
#include "varve/error.h"

namespace varve::cuda {

std::string text_of(CUresult status) {
  const char *name = nullptr, *text = nullptr;
  cuGetErrorName(status, &name);
  cuGetErrorString(status, &text);
  return cat(text ? text : "unknown error", " (", name ? name : cat("code ", static_cast<int>(status)), ")");
}

void check(CUresult status, const char* call) {
  if (status != CUDA_SUCCESS) throw Error(cat(call, " failed: ", text_of(status), "."));
}

void check(nvrtcResult status, const char* call) {
  if (status != NVRTC_SUCCESS) throw Error(cat(call, " failed: ", nvrtcGetErrorString(status), "."));
}

}  // namespace varve::cuda
