#include "backends/cuda/device/tensor_map.h"

#include "backends/cuda/device/status.h"
#include "varve/error.h"

namespace varve::cuda {
namespace {

CUtensorMapDataType data_type(DType dtype) {
  switch (dtype) {
    case f32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case bf16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case f16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    default:
      throw Error("no tiles of this type.");
  }
}

// What lies outside reads as 0 and is not written.
template <std::size_t kAxes>
CUtensorMap encode(DType dtype, const void* address, const cuuint64_t (&sizes)[kAxes],
                   const cuuint64_t (&strides)[kAxes - 1], const cuuint32_t (&box)[kAxes], CUtensorMapSwizzle swizzle) {
  CUtensorMap map;
  const cuuint32_t steps[] = {1, 1, 1, 1};
  check(cuTensorMapEncodeTiled(&map, data_type(dtype), kAxes, const_cast<void*>(address), sizes, strides, box, steps,
                               CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "cuTensorMapEncodeTiled");
  return map;
}

cuuint64_t size(std::int64_t n) { return static_cast<cuuint64_t>(n); }
cuuint32_t side(std::int64_t n) { return static_cast<cuuint32_t>(n); }

}  // namespace

CUtensorMap slab_map(const MatrixPlace& matrix, const SlabTile& tile, DType dtype) {
  const std::size_t bytes = size_of(dtype);
  const cuuint64_t slab = size(tile.columns) * bytes;
  return encode(dtype, matrix.address, {size(tile.columns), size(matrix.rows), size(matrix.columns / tile.columns)},
                {size(matrix.row) * bytes, slab}, {side(tile.columns), side(tile.rows), side(tile.slabs)},
                slab == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B);
}

CUtensorMap row_map(const ImagePlace& images, const RowTile& tile, DType dtype) {
  const std::size_t bytes = size_of(dtype);
  const cuuint64_t pixel = size(images.channels) * bytes;
  const cuuint64_t row = pixel * size(images.width);
  return encode(
      dtype, images.address, {size(images.channels), size(images.width), size(images.height), size(images.count)},
      {pixel, row, row * size(images.height)},
      {static_cast<cuuint32_t>(128 / bytes), side(tile.pitch), side(tile.rows), 1}, CU_TENSOR_MAP_SWIZZLE_128B);
}

CUtensorMap column_map(const MatrixPlace& matrix, DType dtype, const ColumnTile& tile) {
  const std::size_t bytes = size_of(dtype), row = static_cast<std::size_t>(tile.columns) * bytes;
  const cuuint64_t stride = size(matrix.row) * bytes;
  return encode(dtype, matrix.address, {size(matrix.columns), size(matrix.rows), 1},
                {stride, stride * size(matrix.rows)}, {side(tile.columns), side(tile.rows), 1},
                row == 32 ? CU_TENSOR_MAP_SWIZZLE_32B : CU_TENSOR_MAP_SWIZZLE_64B);
}

}  // namespace varve::cuda
