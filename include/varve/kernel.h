// Kernels of your own for an operator of your own: a record (op.h) says what it means, a kernel computes it.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "varve/op.h"

namespace varve {

// One operand, contiguous.
struct KernelView {
  TensorType type;
  void* data = nullptr;
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

struct KernelCall {
  std::span<const KernelView> in, out;
  const Attrs& attrs;
};

// Registers the kernel for one device, or for every one that computes. It must not keep the pointers, and may be called
// from one thread at a time for each program.
using KernelFn = std::function<void(const KernelCall& call)>;
void add_kernel(const OpDef& op, KernelFn kernel, const std::string& device = "");

}  // namespace varve
