// How the driver calls kernels whose types it does not know: the table at the end of each module is made of these.
#pragma once

#include "abi.h"

template <auto kernel, class Function = decltype(kernel)>
struct EmuEntry;
template <auto kernel, class... Args>
struct EmuEntry<kernel, void (*)(Args...)> {
  static constexpr EmuParameter parameters[sizeof...(Args) + 1] = {{sizeof(Args), alignof(Args)}..., {0, 0}};
  template <unsigned... i>
  static void unpack(void* const* arguments) {
    kernel(*static_cast<Args*>(arguments[i])...);
  }
  static void call(void* const* arguments) { unpack<__integer_pack(sizeof...(Args))...>(arguments); }
  static constexpr EmuKernel describe(const char* name) { return {name, call, sizeof...(Args), parameters}; }
};
