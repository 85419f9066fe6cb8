// Whether kernels can run here, for tests of the backend's own parts; cuda/on_cuda.h asks for programs.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "backends/cuda/device/context.h"
#include "varve/error.h"

namespace varve::cuda {

// Why there is no GPU here, if only an emulated one; empty: there is one.
inline const std::string& no_gpu() {
  static const std::string why = [] {
    try {
      context();
      return std::string();
    } catch (const Error& error) {
      return std::string("no GPU: ") + error.what();
    }
  }();
  return why;
}
inline bool has_gpu() { return no_gpu().empty(); }
inline bool is_emulated() { return context().gpu().name == "Emulated GPU"; }

// Why tests that compile texts for GPUs of their choice do nothing beside a GPU.
inline constexpr const char* kNotCollected =
    "this process has a GPU: texts are compiled for it at once, not collected. The run without a GPU compiles them.";

}  // namespace varve::cuda
