#include <algorithm>

#include "backends/cpu/common/loops.h"
#include "backends/cpu/conv/winograd/filters.h"
#include "backends/cpu/conv/winograd/passes.h"
#include "backends/cpu/conv/winograd/tiles.h"

namespace varve::cpu::plain {
namespace {

// Whole images stay with one worker, which adds their tiles in order.
class Transposed final : public BiasedConvolution {
 public:
  Transposed(const ConvShape& s, const WinogradOptions& options)
      : shape_(s),
        options_(options),
        kernels_(winograd_kernels(options.size, options.dtype)),
        filters_(s, options.size, options.dtype, WinogradFilters::Use::transposed),
        grid_(gradient_grid(s, options.size)),
        row_(align_up(filters_.terms(), 16)),
        width_(filters_.panels() * kernels_.panel) {
    constexpr std::int64_t kBlockFloats = 160 << 10, kFewest = 48;  // in L2; tiles worth all filters
    const std::int64_t most = std::max(kBlockFloats / (positions() * (row_ + width_)), kFewest);
    const std::int64_t blocks = align_up(
        (s.batch + most / image_tiles() - 1) / std::max<std::int64_t>(most / image_tiles(), 1), options.workers);
    images_ = std::max<std::int64_t>((s.batch + blocks - 1) / blocks, 1);
    workers_ = std::clamp<std::int64_t>((s.batch + images_ - 1) / images_, 1, options.workers);
    const std::int64_t tiles = align_up(images_ * image_tiles(), kernels_.rows);
    gradient_position_ = position_stride(tiles * row_);
    sum_position_ = position_stride(tiles * width_);
  }

  std::size_t scratch_bytes() const override {
    return filters_.staged_bytes(filters_.panels()) + filters_.bytes(filters_.panels()) +
           worker_bytes() * static_cast<std::size_t>(workers_);
  }

  void run(const ConvArgs& args) const override {
    const std::int64_t panels = filters_.panels(), blocks = (shape_.batch + images_ - 1) / images_;
    auto* staged = static_cast<float*>(args.scratch);
    auto* filters =
        reinterpret_cast<float*>(at(args.scratch, static_cast<std::int64_t>(filters_.staged_bytes(panels))));
    auto* rest = reinterpret_cast<std::byte*>(filters) + filters_.bytes(panels);
    filters_.transform(args.second, 0, panels, staged, filters);
    parallel_for(workers_, 1, [&](std::int64_t worker, std::int64_t) {
      auto* own = reinterpret_cast<float*>(rest + static_cast<std::size_t>(worker) * worker_bytes());
      for (std::int64_t block = worker; block < blocks; block += workers_)
        run_images(block * images_, std::min(images_, shape_.batch - block * images_), args, filters, own);
    });
  }

 private:
  std::int64_t positions() const { return options_.size.positions(); }
  std::int64_t image_tiles() const { return grid_.rows * grid_.columns; }
  std::size_t worker_bytes() const {
    return float_bytes(positions() * gradient_position_) + float_bytes(positions() * sum_position_) +
           float_bytes(shape_.in_image());
  }

  void run_images(std::int64_t first, std::int64_t count, const ConvArgs& args, const float* filters,
                  float* own) const {
    float* gradients = own;
    float* sums = gradients + float_bytes(positions() * gradient_position_) / sizeof(float);
    float* image = sums + float_bytes(positions() * sum_position_) / sizeof(float);
    const std::int64_t bytes = element_bytes(options_.dtype), tiles = count * image_tiles();
    const TileGrid::Images dy = target_images(shape_, false, bytes, const_cast<void*>(args.first));  // only read
    for (std::int64_t t = 0; t < tiles; ++t)
      kernels_.gradients(grid_.tile(dy, first * image_tiles() + t),
                         {gradients + t * row_, gradient_position_, kernels_.panel});
    multiply(tiles, gradients, filters, sums);
    const TileGrid::Images dx{image,         shape_.in_height, shape_.in_width, shape_.in_channels,
                              sizeof(float), shape_.pad_top,   shape_.pad_left};
    for (std::int64_t i = 0; i < count; ++i) {
      std::fill_n(image, shape_.in_image(), 0.f);
      for (std::int64_t t = 0; t < image_tiles(); ++t)
        kernels_.deposit({sums + (i * image_tiles() + t) * width_, sum_position_, kernels_.panel}, grid_.tile(dx, t));
      convert(image, f32, at(args.out, (first + i) * shape_.in_image() * bytes), options_.dtype, shape_.in_image());
    }
  }

  void multiply(std::int64_t tiles, const float* gradients, const float* filters, float* sums) const {
    for (std::int64_t position = 0; position < positions(); ++position)
      for (std::int64_t panel = 0; panel < filters_.panels(); ++panel)
        kernels_.multiply({.a = gradients + position * gradient_position_,
                           .b = filters_.panel(filters, filters_.panels(), position, panel),
                           .c = sums + position * sum_position_ + panel * kernels_.panel,
                           .rows = align_up(tiles, kernels_.rows),
                           .k = filters_.terms(),
                           .a_row = row_,
                           .a_k = 1,
                           .c_row = width_,
                           .accumulate = false});
  }

  ConvShape shape_;
  WinogradOptions options_;
  WinogradKernels kernels_;
  WinogradFilters filters_;
  TileGrid grid_;
  std::int64_t row_, width_;  // floats from tile to tile: of dy, of dx
  std::int64_t images_ = 1, workers_ = 1, gradient_position_ = 0, sum_position_ = 0;
};

}  // namespace

std::unique_ptr<BiasedConvolution> winograd_transposed(const ConvShape& shape, const WinogradOptions& options) {
  return std::make_unique<Transposed>(shape, options);
}

}  // namespace varve::cpu::plain
