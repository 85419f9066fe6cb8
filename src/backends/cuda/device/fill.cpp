#include "backends/cuda/device/fill.h"

#include <cuda.h>

#include "backends/cuda/device/context.h"
#include "backends/cuda/device/status.h"
#include "base/convert.h"

namespace varve::cuda {
namespace {

struct Bits {
  std::uint32_t words[2] = {0, 0};
  Bits(DType dtype, double number) { store_f(words, dtype, 0, number); }
};

}  // namespace

bool driver_fills(DType dtype, double number) {
  const Bits bits(dtype, number);
  return size_of(dtype) < sizeof bits || bits.words[0] == bits.words[1];
}

backend::Prepared prepare_fill(const TensorType& type, double number) {
  const std::size_t element = size_of(type.dtype), bytes = type.bytes();
  return backend::prepared([element, bytes, word = Bits(type.dtype, number).words[0]](const backend::RunArgs& args) {
    if (bytes == 0) return;
    const auto to = reinterpret_cast<CUdeviceptr>(args.out[0]);
    const CUstream stream = context().stream();
    if (element == 1)
      check(cuMemsetD8Async(to, static_cast<unsigned char>(word), bytes, stream), "cuMemsetD8Async");
    else if (element == 2)
      check(cuMemsetD16Async(to, static_cast<unsigned short>(word), bytes / 2, stream), "cuMemsetD16Async");
    else
      check(cuMemsetD32Async(to, word, bytes / 4, stream), "cuMemsetD32Async");
  });
}

}  // namespace varve::cuda
