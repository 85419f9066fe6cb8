#include <algorithm>

#include "backends/cpu/common/loops.h"
#include "backends/cpu/conv/winograd/passes.h"
#include "backends/cpu/conv/winograd/tiles.h"

namespace varve::cpu::plain {
namespace {

constexpr std::int64_t kGrain = 8;  // tiles or filters that one thread takes at a time

// dw: the forward pass read backwards. Tiles are the terms of the sums, so a chunk of them is transformed by all
// workers, which then share the positions.
class WinogradWeightGradient final : public BiasedConvolution {
 public:
  WinogradWeightGradient(const ConvShape& s, const WinogradOptions& options)
      : shape_(s),
        options_(options),
        kernels_(winograd_kernels(options.size, options.dtype)),
        grid_(gradient_grid(s, options.size)),
        panels_(align_up(s.in_channels, kernels_.panel) / kernels_.panel),
        rows_(align_up(s.out_channels, kernels_.rows)),
        row_(align_up(s.out_channels, 48)) {        // whole vectors, and whole blocks of rows
    constexpr std::int64_t kChunkFloats = 2 << 20;  // stay in the last-level cache
    const std::int64_t floats = positions() * (panels_ * kernels_.panel + row_);
    // Chunks that outweigh the sums, which are read and written for each; of sizes alone, for the same bits always.
    const std::int64_t most = std::max(kChunkFloats, positions() * panels_ * rows_ * kernels_.panel) / floats;
    chunk_ = align_up(std::clamp<std::int64_t>(most, kDepth, std::max(grid_.count(), kDepth)), kDepth);
    pixel_position_ = position_stride(panels_ * chunk_ * kernels_.panel);
    gradient_position_ = position_stride(chunk_ * row_);
    sum_position_ = position_stride(panels_ * rows_ * kernels_.panel);
  }

  std::size_t scratch_bytes() const override {
    return float_bytes(positions() * pixel_position_) + float_bytes(positions() * gradient_position_) +
           float_bytes(positions() * sum_position_);
  }

  void run(const ConvArgs& args) const override {
    Carver memory(static_cast<std::byte*>(args.scratch));
    const Parts parts{memory.take<float>(static_cast<std::size_t>(positions() * pixel_position_)),
                      memory.take<float>(static_cast<std::size_t>(positions() * gradient_position_)),
                      memory.take<float>(static_cast<std::size_t>(positions() * sum_position_))};
    for (std::int64_t first = 0; first < grid_.count(); first += chunk_) {
      const std::int64_t count = std::min(chunk_, grid_.count() - first);
      transform(args, first, count, parts);
      multiply(count, first > 0, parts);
    }
    finish(parts.sums, args.out);
  }

 private:
  static constexpr std::int64_t kDepth = 96;  // tiles whose panels stay in the first-level cache
  struct Parts {
    float *pixels, *gradients, *sums;
  };

  std::int64_t positions() const { return options_.size.positions(); }

  void transform(const ConvArgs& args, std::int64_t first, std::int64_t count, const Parts& parts) const {
    const std::int64_t bytes = element_bytes(options_.dtype), panel = kernels_.panel;
    const TileGrid::Images x{args.first, shape_.in_height, shape_.in_width, shape_.in_channels,
                             bytes,      shape_.pad_top,   shape_.pad_left};
    const TileGrid::Images dy{args.second, shape_.out_height, shape_.out_width, shape_.out_channels, bytes};
    parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        kernels_.pixels(grid_.tile(x, first + t), {parts.pixels + t * panel, pixel_position_, chunk_ * panel});
        kernels_.gradients(grid_.tile(dy, first + t), {parts.gradients + t * row_, gradient_position_, panel});
      }
    });
  }

  void multiply(std::int64_t count, bool accumulate, const Parts& parts) const {
    const std::int64_t panel = kernels_.panel;
    parallel_for(positions() * panels_, 1, [&](std::int64_t begin, std::int64_t end) {
      each_row(begin, end, panels_, [&](std::int64_t position, std::int64_t p) {
        for (std::int64_t k = 0; k < count; k += kDepth)
          kernels_.multiply({.a = parts.gradients + position * gradient_position_ + k * row_,
                             .b = parts.pixels + position * pixel_position_ + (p * chunk_ + k) * panel,
                             .c = parts.sums + position * sum_position_ + p * rows_ * panel,
                             .rows = rows_,
                             .k = std::min(kDepth, count - k),
                             .a_row = 1,
                             .a_k = row_,
                             .c_row = panel,
                             .accumulate = accumulate || k > 0});
      });
    });
  }

  void finish(float* sums, void* out) const {
    const std::int64_t panel = kernels_.panel, bytes = element_bytes(options_.dtype), channels = shape_.in_channels;
    parallel_for(panels_ * shape_.out_channels, kGrain, [&](std::int64_t begin, std::int64_t end) {
      each_row(begin, end, shape_.out_channels, [&](std::int64_t p, std::int64_t o) {
        kernels_.filter_gradients({sums + (p * rows_ + o) * panel, sum_position_, panel},
                                  at(out, (o * shape_.taps() * channels + p * panel) * bytes), channels,
                                  std::min(panel, channels - p * panel));
      });
    });
  }

  ConvShape shape_;
  WinogradOptions options_;
  WinogradKernels kernels_;
  TileGrid grid_;
  std::int64_t panels_, rows_, row_, chunk_ = 1;
  std::int64_t pixel_position_ = 0, gradient_position_ = 0, sum_position_ = 0;
};

}  // namespace

std::unique_ptr<BiasedConvolution> winograd_weight_gradient(const ConvShape& shape, const WinogradOptions& options) {
  return std::make_unique<WinogradWeightGradient>(shape, options);
}

}  // namespace varve::cpu::plain
