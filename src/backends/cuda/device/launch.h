// What kernels of indexing, random numbers and pooling share: launches.
#pragma once

#include <algorithm>
#include <string>

#include "backends/cuda/claims.h"
#include "backends/cuda/device/context.h"
#include "backends/cuda/device/function.h"
#include "backends/cuda/device/sizes.h"
#include "backends/cuda/task.h"
#include "base/text.h"

namespace varve::cuda {

// For kernels whose threads go on to further items: blocks for so many items, no more than fill the GPU a few times.
inline Launch striding(std::int64_t items, int block = 256) {
  constexpr std::int64_t kWaves = 2;
  return {.grid = std::min(ceil_div(items, block), kWaves * gpu().threads() / block), .block = block};
}

// For kernels that go along rows: threads for so many items of a row, by rows.
inline Launch along_rows(std::int64_t items, std::int64_t rows) {
  constexpr int kBlock = 256;
  int across = 1;
  while (across < items && across < kBlock) across *= 2;
  const int down = kBlock / across;
  return {.grid = striding(ceil_div(rows, down) * kBlock).grid, .block = across, .block_y = down};
}

}  // namespace varve::cuda
