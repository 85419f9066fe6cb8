// The SIMD loops of Winograd's convolution: tiles of images and filters to the transformed domain and back, and the
// products between. Vectors run along the channels.
#pragma once

#include <cstdint>

#include "varve/dtype.h"

namespace varve::cpu::plain {

// Tiles of size × size pixels give out × out results; kernel = size − out + 1.
struct WinogradSize {
  int size = 0, out = 0;

  int kernel() const { return size - out + 1; }
  int positions() const { return size * size; }
  bool operator==(const WinogradSize&) const = default;
};

// One tile of one image [height, width, channels]; it may reach over the rim.
struct WinogradTile {
  void* image;  // f32 or bf16
  std::int64_t height, width, channels;
  std::int64_t row, column;  // of the tile's first pixel
};

// Where the transformed values of a tile stand: channels in panels, one matrix for each position.
struct WinogradPlace {
  float* data;
  std::int64_t position, panel;  // distances
};

struct WinogradFinish {
  std::int64_t first, count;    // channels, from the start of a panel
  const float* bias = nullptr;  // of channel 0
  bool relu = false;
};

// c [rows, panel] (+)= a·b: a by its strides, b [k, panel] dense; `rows` is a multiple of the block's.
struct WinogradProduct {
  const float *a, *b;
  float* c;
  std::int64_t rows, k, a_row, a_k, c_row;
  bool accumulate;
};

struct WinogradKernels {
  int rows, panel;                                                    // of a block of the product
  void (*pixels)(const WinogradTile& from, const WinogradPlace& to);  // size × size pixels
  void (*results)(const WinogradPlace& from, const WinogradTile& to, const WinogradFinish& finish);  // out × out
  void (*gradients)(const WinogradTile& from, const WinogradPlace& to);                              // out × out
  void (*deposit)(const WinogradPlace& from, const WinogradTile& to);  // adds size × size pixels to an f32 image
  // The filters of one panel of channels, taps `tap` elements apart.
  void (*filters)(const float* from, std::int64_t tap, const WinogradPlace& to);
  void (*filter_gradients)(const WinogradPlace& from, void* to, std::int64_t tap, std::int64_t count);
  void (*multiply)(const WinogradProduct& product);
};

// f32 or bf16 images; sums are f32. Null members: no such size.
WinogradKernels winograd_kernels(WinogradSize size, DType images);

}  // namespace varve::cpu::plain
