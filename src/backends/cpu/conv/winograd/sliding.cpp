#include <algorithm>

#include "backends/cpu/common/loops.h"
#include "backends/cpu/conv/winograd/filters.h"
#include "backends/cpu/conv/winograd/passes.h"
#include "backends/cpu/conv/winograd/tiles.h"

namespace varve::cpu::plain {
namespace {

using Use = WinogradFilters::Use;

// What both orders share: tiles transformed, multiplied by some panels of filters, transformed back.
class Sliding : public BiasedConvolution {
 protected:
  Sliding(ConvPass pass, const ConvShape& s, const WinogradOptions& options)
      : shape_(s),
        options_(options),
        backward_(pass == ConvPass::input_grad),
        kernels_(winograd_kernels(options.size, options.dtype)),
        filters_(s, options.size, options.dtype, backward_ ? Use::flipped : Use::forward),
        grid_(result_grid(s, backward_, options.size)),
        row_(align_up(filters_.terms(), 16)) {}

  // Some tiles in a row, and where their parts stand.
  struct Tiles {
    std::int64_t first, count;
    float* pixels;
    std::int64_t pixel_position;
    float* sums;
    std::int64_t sum_position, sum_row;
  };

  std::int64_t positions() const { return options_.size.positions(); }

  void read(const Tiles& t, const ConvArgs& args) const {
    const TileGrid::Images from = source_images(shape_, backward_, element_bytes(options_.dtype), args.first);
    for (std::int64_t i = 0; i < t.count; ++i)
      kernels_.pixels(grid_.tile(from, t.first + i), {t.pixels + i * row_, t.pixel_position, kernels_.panel});
  }

  // `of` panels were transformed; [first, first + count) of them, the first of which is panel `number` of all.
  struct Panels {
    const float* filters;
    std::int64_t of, first, count, number;
  };
  void multiply(const Tiles& t, const Panels& p) const {
    constexpr std::int64_t kDepth = 256;  // of the filters that stay in the first-level cache
    const std::int64_t terms = filters_.terms(), width = kernels_.panel;
    for (std::int64_t position = 0; position < positions(); ++position)
      for (std::int64_t panel = 0; panel < p.count; ++panel)
        for (std::int64_t k = 0; k < terms; k += kDepth)
          kernels_.multiply({.a = t.pixels + position * t.pixel_position + k,
                             .b = filters_.panel(p.filters, p.of, position, p.first + panel) + k * width,
                             .c = t.sums + position * t.sum_position + panel * width,
                             .rows = align_up(t.count, kernels_.rows),
                             .k = std::min(kDepth, terms - k),
                             .a_row = row_,
                             .a_k = 1,
                             .c_row = t.sum_row,
                             .accumulate = k > 0});
  }

  void write(const Tiles& t, const Panels& p, const ConvArgs& args) const {
    const TileGrid::Images to = target_images(shape_, backward_, element_bytes(options_.dtype), args.out);
    const std::int64_t width = kernels_.panel, channel = p.number * width;
    const WinogradFinish finish{channel, std::min(p.count * width, filters_.results() - channel), args.bias,
                                options_.relu};
    for (std::int64_t i = 0; i < t.count; ++i)
      kernels_.results({t.sums + i * t.sum_row, t.sum_position, width}, grid_.tile(to, t.first + i), finish);
  }

  ConvShape shape_;
  WinogradOptions options_;
  bool backward_;
  WinogradKernels kernels_;
  WinogradFilters filters_;
  TileGrid grid_;
  std::int64_t row_;  // floats from tile to tile
};

class ByTiles final : public Sliding {
 public:
  ByTiles(ConvPass pass, const ConvShape& s, const WinogradOptions& options) : Sliding(pass, s, options) {
    chunk_ = std::min(kChunkPanels, filters_.panels());
    choose_block();
    pixel_position_ = position_stride(block_ * row_);
    sum_position_ = position_stride(block_ * chunk_ * kernels_.panel);
  }

  std::size_t scratch_bytes() const override {
    return filters_.staged_bytes(filters_.panels()) + filters_.bytes(filters_.panels()) +
           worker_bytes() * static_cast<std::size_t>(workers_);
  }

  void run(const ConvArgs& args) const override {
    const std::int64_t panels = filters_.panels(), blocks = (grid_.count() + block_ - 1) / block_;
    auto* staged = static_cast<float*>(args.scratch);
    auto* filters =
        reinterpret_cast<float*>(at(args.scratch, static_cast<std::int64_t>(filters_.staged_bytes(panels))));
    auto* rest = reinterpret_cast<std::byte*>(filters) + filters_.bytes(panels);
    filters_.transform(args.second, 0, panels, staged, filters);
    parallel_for(workers_, 1, [&](std::int64_t worker, std::int64_t) {
      auto* own = reinterpret_cast<float*>(rest + static_cast<std::size_t>(worker) * worker_bytes());
      for (std::int64_t block = worker; block < blocks; block += workers_) {
        const Tiles tiles{block * block_,
                          std::min(block_, grid_.count() - block * block_),
                          own,
                          pixel_position_,
                          own + float_bytes(positions() * pixel_position_) / sizeof(float),
                          sum_position_,
                          chunk_ * kernels_.panel};
        read(tiles, args);
        for (std::int64_t panel = 0; panel < panels; panel += chunk_) {
          const Panels some{filters, panels, panel, std::min(chunk_, panels - panel), panel};
          multiply(tiles, some);
          write(tiles, some, args);
        }
      }
    });
  }

 private:
  // Floats that wait in a worker's second-level cache between the steps of a block. Where many channels leave room for
  // few tiles, reading all filters again for each block costs more than a slower cache.
  static constexpr std::int64_t kBlockFloats = 160 << 10;
  static constexpr std::int64_t kChunkPanels = 2;  // of results at a time

  std::size_t worker_bytes() const {
    return float_bytes(positions() * pixel_position_) + float_bytes(positions() * sum_position_);
  }

  // As many tiles as the cache holds, shared evenly.
  void choose_block() {
    const std::int64_t floats = positions() * (row_ + chunk_ * kernels_.panel);
    const std::int64_t most = std::clamp<std::int64_t>(kBlockFloats / floats / kernels_.rows, 8, 16) * kernels_.rows;
    const std::int64_t blocks = align_up((grid_.count() + most - 1) / most, options_.workers);
    block_ = align_up((grid_.count() + blocks - 1) / blocks, kernels_.rows);
    workers_ = std::clamp<std::int64_t>((grid_.count() + block_ - 1) / block_, 1, options_.workers);
  }

  std::int64_t chunk_ = 1, block_ = 1, workers_ = 1, pixel_position_ = 0, sum_position_ = 0;
};

class ByPanels final : public Sliding {
 public:
  ByPanels(ConvPass pass, const ConvShape& s, const WinogradOptions& options) : Sliding(pass, s, options) {
    constexpr std::int64_t kChunkPanels = 2;
    const std::int64_t each = std::max<std::int64_t>(filters_.panels() / options.workers, 1);
    chunk_ = std::min(kChunkPanels, each);
    chunks_ = (filters_.panels() + chunk_ - 1) / chunk_;
    workers_ = std::min<std::int64_t>(options.workers, chunks_);
    const std::int64_t tiles = align_up(grid_.count(), kernels_.rows);
    pixel_position_ = position_stride(tiles * row_);
    sum_position_ = position_stride(tiles * chunk_ * kernels_.panel);
  }

  std::size_t scratch_bytes() const override {
    return float_bytes(positions() * pixel_position_) + worker_bytes() * static_cast<std::size_t>(workers_);
  }

  void run(const ConvArgs& args) const override {
    auto* pixels = static_cast<float*>(args.scratch);
    std::byte* rest = at(args.scratch, static_cast<std::int64_t>(float_bytes(positions() * pixel_position_)));
    constexpr std::int64_t kGrain = 4;
    parallel_for(grid_.count(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      read({begin, end - begin, pixels + begin * row_, pixel_position_, nullptr, 0, 0}, args);
    });
    parallel_for(workers_, 1, [&](std::int64_t worker, std::int64_t) {
      auto* staged = reinterpret_cast<float*>(rest + static_cast<std::size_t>(worker) * worker_bytes());
      float* filters = staged + filters_.staged_bytes(chunk_) / sizeof(float);
      float* sums = filters + filters_.bytes(chunk_) / sizeof(float);
      const Tiles tiles{0, grid_.count(), pixels, pixel_position_, sums, sum_position_, chunk_ * kernels_.panel};
      for (std::int64_t chunk = worker; chunk < chunks_; chunk += workers_) {
        const std::int64_t first = chunk * chunk_, count = std::min(chunk_, filters_.panels() - first);
        filters_.transform(args.second, first, count, staged, filters);
        const Panels some{filters, count, 0, count, first};
        multiply(tiles, some);
        write(tiles, some, args);
      }
    });
  }

 private:
  std::size_t worker_bytes() const {
    return filters_.staged_bytes(chunk_) + filters_.bytes(chunk_) + float_bytes(positions() * sum_position_);
  }

  std::int64_t chunk_ = 1, chunks_ = 1, workers_ = 1, pixel_position_ = 0, sum_position_ = 0;
};

}  // namespace

std::unique_ptr<BiasedConvolution> winograd_by_tiles(ConvPass pass, const ConvShape& shape,
                                                     const WinogradOptions& options) {
  return std::make_unique<ByTiles>(pass, shape, options);
}

std::unique_ptr<BiasedConvolution> winograd_by_panels(ConvPass pass, const ConvShape& shape,
                                                      const WinogradOptions& options) {
  return std::make_unique<ByPanels>(pass, shape, options);
}

}  // namespace varve::cpu::plain
