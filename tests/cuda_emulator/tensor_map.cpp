// Tensor maps: what the real driver checks of them is checked here too.
#include <cuda.h>

#include <cstring>

#include "prelude/abi.h"

namespace {

unsigned bytes_of(CUtensorMapDataType type) {
  if (type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32) return 4;
  return type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 || type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16 ? 2 : 0;
}

unsigned bytes_of(CUtensorMapSwizzle swizzle) {
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_32B:
      return 32;
    case CU_TENSOR_MAP_SWIZZLE_64B:
      return 64;
    case CU_TENSOR_MAP_SWIZZLE_128B:
      return 128;
    default:
      return 0;
  }
}

}  // namespace

extern "C" CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                           const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                                           const cuuint32_t* steps, CUtensorMapInterleave interleave,
                                           CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                                           CUtensorMapFloatOOBfill) {
  static_assert(sizeof(EmuTensorMap) <= sizeof(CUtensorMap));
  EmuTensorMap made{static_cast<char*>(address), {}, {}, {}, bytes_of(type), bytes_of(swizzle)};
  bool valid = (rank == 3 || rank == 4) && made.element_bytes != 0 && interleave == CU_TENSOR_MAP_INTERLEAVE_NONE &&
               reinterpret_cast<unsigned long long>(address) % 16 == 0;
  for (unsigned axis = 0; valid && axis < rank; ++axis) {
    valid = sizes[axis] > 0 && sizes[axis] <= 1ull << 32 && box[axis] > 0 && box[axis] <= 256 && steps[axis] == 1;
    if (axis + 1 < rank) valid = valid && strides[axis] % 16 == 0 && strides[axis] < 1ull << 40;
  }
  if (!valid || box[0] * made.element_bytes % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  if (made.swizzle_bytes && box[0] * made.element_bytes > made.swizzle_bytes) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned axis = 0; axis < 4; ++axis) {
    made.sizes[axis] = axis < rank ? sizes[axis] : 1;
    made.box[axis] = axis < rank ? box[axis] : 1;
    if (axis + 1 < rank) made.strides[axis] = strides[axis];
  }
  std::memcpy(map, &made, sizeof(made));
  return CUDA_SUCCESS;
}
