// What both kinds of Winograd's convolution share: the grid of tiles, and where their parts stand in memory.
#pragma once

#include <cstdint>

#include "backends/cpu/common/align.h"
#include "backends/cpu/common/scratch.h"
#include "backends/cpu/conv/conv_shape.h"
#include "backends/cpu/conv/winograd/kernels.h"

namespace varve::cpu::plain {

// Matrices one position apart: not a power of two, or all of them would fall on the same lines of the cache.
constexpr std::int64_t position_stride(std::int64_t elements) { return align_up(elements, 16) + 16; }

// Tiles of `step` × `step` pixels over images [batch, height, width].
struct TileGrid {
  std::int64_t batch, rows, columns, step;

  TileGrid(std::int64_t images, std::int64_t height, std::int64_t width, std::int64_t pixels)
      : batch(images), rows((height + pixels - 1) / pixels), columns((width + pixels - 1) / pixels), step(pixels) {}

  std::int64_t count() const { return batch * rows * columns; }

  // Tile `number` of `images` [height, width, channels], as far up and left as the padding says.
  struct Images {
    const void* data;
    std::int64_t height, width, channels, bytes;  // bytes of an element
    std::int64_t pad_top = 0, pad_left = 0;
  };
  WinogradTile tile(const Images& images, std::int64_t number) const {
    const std::int64_t image = number / (rows * columns), rest = number % (rows * columns);
    const auto* first = static_cast<const std::byte*>(images.data) +
                        image * images.height * images.width * images.channels * images.bytes;
    return {const_cast<std::byte*>(first),  // what is read is not written
            images.height,
            images.width,
            images.channels,
            rest / columns * step - images.pad_top,
            rest % columns * step - images.pad_left};
  }
};

// The images that a pass reads and writes, and where its tiles start.
inline TileGrid::Images source_images(const ConvShape& s, bool backward, std::int64_t bytes, const void* data) {
  if (!backward) return {data, s.in_height, s.in_width, s.in_channels, bytes, s.pad_top, s.pad_left};
  return {data,
          s.out_height,
          s.out_width,
          s.out_channels,
          bytes,
          s.kernel_height - 1 - s.pad_top,
          s.kernel_width - 1 - s.pad_left};
}
inline TileGrid::Images target_images(const ConvShape& s, bool backward, std::int64_t bytes, void* data) {
  if (backward) return {data, s.in_height, s.in_width, s.in_channels, bytes};
  return {data, s.out_height, s.out_width, s.out_channels, bytes};
}

// Tiles over what a pass gives.
inline TileGrid result_grid(const ConvShape& s, bool backward, WinogradSize size) {
  return {s.batch, backward ? s.in_height : s.out_height, backward ? s.in_width : s.out_width, size.out};
}
// Tiles over dy.
inline TileGrid gradient_grid(const ConvShape& s, WinogradSize size) {
  return {s.batch, s.out_height, s.out_width, size.out};
}
// Whether dx takes clearly fewer tiles by the transposed steps, which add to it what the others write.
inline bool transposes(const ConvShape& s, WinogradSize size) {
  return 4 * gradient_grid(s, size).count() <= 3 * result_grid(s, true, size).count();
}

}  // namespace varve::cpu::plain
