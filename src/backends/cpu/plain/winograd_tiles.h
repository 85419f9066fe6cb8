// What both kinds of Winograd's convolution share: the grid of tiles, and where their parts stand in memory.
#pragma once

#include <cstdint>

#include "backends/cpu/plain/winograd_kernels.h"

namespace varve::cpu::plain {

constexpr std::int64_t round_to(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Matrices one position apart: not a power of two, or all of them would fall on the same lines of the cache.
constexpr std::int64_t position_stride(std::int64_t elements) { return round_to(elements, 16) + 16; }

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

}  // namespace varve::cpu::plain
