// How TMA is told of a matrix in memory, and of the tiles of it that it brings (kernels/tma.cuh).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "varve/dtype.h"

namespace varve::cuda {

struct MatrixPlace {
  const void* address = nullptr;  // on 16 bytes
  std::int64_t rows = 0, columns = 0;
  std::int64_t row = 0;  // elements from one to the next: a multiple of 16 bytes
};

// Slabs of columns, of 128 bytes or 64: a tile is some rows of some neighbouring slabs, one slab after the other.
struct SlabTile {
  std::int64_t rows = 0, slabs = 0;
  std::int64_t columns = 32;  // of a slab
};
CUtensorMap slab_map(const MatrixPlace& matrix, const SlabTile& tile, DType dtype = f32);

// Images [count,height,width,channels]: a tile is 128 bytes of channels of some rows, and zeros around the image up to
// `pitch` pixels and `rows` rows.
struct ImagePlace {
  const void* address = nullptr;  // on 16 bytes
  std::int64_t channels = 0, width = 0, height = 0, count = 0;
};
struct RowTile {
  std::int64_t pitch = 0, rows = 0;
};
CUtensorMap row_map(const ImagePlace& images, const RowTile& tile, DType dtype);

// A tile is some columns, of 32 or 64 bytes, of some rows.
struct ColumnTile {
  std::int64_t rows = 0, columns = 0;
};
CUtensorMap column_map(const MatrixPlace& matrix, DType dtype, const ColumnTile& tile);

}  // namespace varve::cuda
