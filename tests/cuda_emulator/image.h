// What the emulated NVRTC hands out as a "cubin": this, and the path of a shared library.
#pragma once

namespace varve::emulator {

constexpr char kImagePrefix[] = "varve emulated kernels: ";

}  // namespace varve::emulator
