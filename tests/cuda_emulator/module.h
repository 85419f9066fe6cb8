// Modules: the shared libraries that the emulated NVRTC makes.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <deque>

#include "prelude/abi.h"

struct CUfunc_st {
  CUmodule module;
  const EmuKernel* kernel;
  unsigned max_dynamic_shared;  // what cuFuncSetAttribute has raised it to
};

struct CUmod_st {
  void* library;
  const EmuModule* table;
  std::ptrdiff_t shared_offset;  // of the thread-local segment, from the address that table->block() gives
  std::size_t shared_bytes;      // its size: the __shared__ variables of all kernels, and one pointer
  std::deque<CUfunc_st> functions;
};
