#include "backends/cpu/plain/winograd.h"

#include <algorithm>

#include "backends/cpu/loops.h"
#include "backends/cpu/plain/winograd_tiles.h"
#include "backends/cpu/tile/scratch.h"

namespace varve::cpu::plain {
namespace {

// Floats that wait in a lane's second-level cache between the steps of a block. Where many channels leave room for few
// tiles, reading all filters again for each block costs more than a slower cache.
constexpr std::int64_t kBlockFloats = 160 << 10;
constexpr std::int64_t kChunkPanels = 2;  // of results at a time
constexpr std::int64_t kGrain = 8;        // tiles or filters that one thread takes at a time

std::size_t float_bytes(std::int64_t count) { return round_up(static_cast<std::size_t>(count) * sizeof(float)); }

// y from x, and dx from dy, which differ in the padding and in how the weights are read.
class Sliding final : public Winograd {
 public:
  Sliding(ConvPass pass, const ConvShape& s, const WinogradOptions& options)
      : shape_(s),
        options_(options),
        backward_(pass == ConvPass::input_grad),
        kernels_(winograd_kernels(options.size, options.dtype)),
        grid_(s.batch, backward_ ? s.in_height : s.out_height, backward_ ? s.in_width : s.out_width, options.size.out),
        terms_(backward_ ? s.out_channels : s.in_channels),
        results_(backward_ ? s.in_channels : s.out_channels),
        panels_(round_to(results_, kernels_.panel) / kernels_.panel) {
    chunk_ = std::min(kChunkPanels, panels_);
    choose_block();
    row_ = round_to(terms_, 16);
    filter_position_ = position_stride(panels_ * terms_ * kernels_.panel);
    pixel_position_ = position_stride(block_ * row_);
    sum_position_ = position_stride(block_ * chunk_ * kernels_.panel);
  }

  std::size_t scratch_bytes() const override {
    return staged_bytes() + filter_bytes() + lane_bytes() * static_cast<std::size_t>(lanes_);
  }

  void run(const WinogradArgs& args) const override {
    Carver memory(static_cast<std::byte*>(args.scratch));
    auto* staged = memory.take<float>(staged_bytes() / sizeof(float));
    auto* filters = memory.take<float>(filter_bytes() / sizeof(float));
    std::byte* rest = memory.take<std::byte>(0);
    stage(args.second, staged);
    transform_filters(staged, filters);
    const std::int64_t blocks = (grid_.count() + block_ - 1) / block_;
    parallel_for(lanes_, 1, [&](std::int64_t lane, std::int64_t) {
      auto* own = reinterpret_cast<float*>(rest + static_cast<std::size_t>(lane) * lane_bytes());
      for (std::int64_t block = lane; block < blocks; block += lanes_) run_block(block * block_, args, filters, own);
    });
  }

 private:
  std::int64_t positions() const { return options_.size.positions(); }
  std::int64_t padded_results() const { return panels_ * kernels_.panel; }
  std::size_t staged_bytes() const { return float_bytes(shape_.taps() * terms_ * padded_results()); }
  std::size_t filter_bytes() const { return float_bytes(positions() * filter_position_); }
  std::size_t lane_bytes() const {
    return float_bytes(positions() * pixel_position_) + float_bytes(positions() * sum_position_);
  }

  // As many tiles as the cache holds, shared evenly.
  void choose_block() {
    const std::int64_t floats = positions() * (round_to(terms_, 16) + chunk_ * kernels_.panel);
    const std::int64_t most = std::clamp<std::int64_t>(kBlockFloats / floats / kernels_.rows, 8, 16) * kernels_.rows;
    const std::int64_t blocks = round_to((grid_.count() + most - 1) / most, options_.lanes);
    block_ = round_to((grid_.count() + blocks - 1) / blocks, kernels_.rows);
    lanes_ = std::clamp<std::int64_t>((grid_.count() + block_ - 1) / block_, 1, options_.lanes);
  }

  // Weights [O, taps, I] as f32 [taps, terms, results]: results padded with zeros; the taps in reverse for dx.
  void stage(const void* weights, float* staged) const {
    if (options_.dtype == bf16)
      stage_as(static_cast<const bfloat16*>(weights), staged);
    else
      stage_as(static_cast<const float*>(weights), staged);
  }
  template <class T>
  void stage_as(const T* weights, float* staged) const {
    const std::int64_t taps = shape_.taps(), row = padded_results();
    const std::int64_t term = backward_ ? taps * results_ : 1, result = backward_ ? 1 : taps * terms_;
    parallel_for(taps * terms_, kGrain, [&](std::int64_t begin, std::int64_t end) {
      each_row(begin, end, terms_, [&](std::int64_t tap, std::int64_t k) {
        const T* from = weights + (backward_ ? taps - 1 - tap : tap) * (backward_ ? results_ : terms_) + k * term;
        float* to = staged + (tap * terms_ + k) * row;
        for (std::int64_t n = 0; n < results_; ++n) to[n] = cast_to<float>(element(from, n * result));
        std::fill(to + results_, to + row, 0.f);
      });
    });
  }

  void transform_filters(const float* staged, float* filters) const {
    const std::int64_t panel = kernels_.panel;
    parallel_for(panels_ * terms_, kGrain, [&](std::int64_t begin, std::int64_t end) {
      each_row(begin, end, terms_, [&](std::int64_t p, std::int64_t k) {
        kernels_.filters(staged + k * padded_results() + p * panel, terms_ * padded_results(),
                         {filters + (p * terms_ + k) * panel, filter_position_, panel});
      });
    });
  }

  TileGrid::Images source(const void* data) const {
    const auto bytes = element_bytes(options_.dtype);
    if (!backward_) return {data, shape_.in_height, shape_.in_width, terms_, bytes, shape_.pad_top, shape_.pad_left};
    return {data,
            shape_.out_height,
            shape_.out_width,
            terms_,
            bytes,
            shape_.kernel_height - 1 - shape_.pad_top,
            shape_.kernel_width - 1 - shape_.pad_left};
  }
  TileGrid::Images target(void* data) const {
    const auto bytes = element_bytes(options_.dtype);
    if (backward_) return {data, shape_.in_height, shape_.in_width, results_, bytes};
    return {data, shape_.out_height, shape_.out_width, results_, bytes};
  }

  void run_block(std::int64_t first, const WinogradArgs& args, const float* filters, float* own) const {
    const std::int64_t count = std::min(block_, grid_.count() - first);
    float* pixels = own;
    float* sums = own + float_bytes(positions() * pixel_position_) / sizeof(float);
    const TileGrid::Images from = source(args.first);
    for (std::int64_t t = 0; t < count; ++t)
      kernels_.pixels(grid_.tile(from, first + t), {pixels + t * row_, pixel_position_, kernels_.panel});
    for (std::int64_t panel = 0; panel < panels_; panel += chunk_)
      finish_chunk(first, count, panel, args, pixels, filters, sums);
  }

  void finish_chunk(std::int64_t first, std::int64_t count, std::int64_t panel, const WinogradArgs& args,
                    const float* pixels, const float* filters, float* sums) const {
    const std::int64_t width = kernels_.panel, chunk = std::min(chunk_, panels_ - panel);
    for (std::int64_t position = 0; position < positions(); ++position)
      for (std::int64_t p = 0; p < chunk; ++p)
        kernels_.multiply({.a = pixels + position * pixel_position_,
                           .b = filters + position * filter_position_ + (panel + p) * terms_ * width,
                           .c = sums + position * sum_position_ + p * width,
                           .rows = round_to(count, kernels_.rows),
                           .k = terms_,
                           .a_row = row_,
                           .a_k = 1,
                           .c_row = chunk_ * width,
                           .accumulate = false});
    const TileGrid::Images to = target(args.out);
    const std::int64_t channel = panel * width;
    const WinogradFinish finish{channel, std::min(chunk * width, results_ - channel), args.bias, options_.relu};
    for (std::int64_t t = 0; t < count; ++t)
      kernels_.results({sums + t * chunk_ * width, sum_position_, width}, grid_.tile(to, first + t), finish);
  }

  ConvShape shape_;
  WinogradOptions options_;
  bool backward_;
  WinogradKernels kernels_;
  TileGrid grid_;
  std::int64_t terms_, results_;  // channels that are summed over, and that come out
  std::int64_t panels_, chunk_ = 1, block_ = 1, lanes_ = 1, row_ = 0;
  std::int64_t filter_position_ = 0, pixel_position_ = 0, sum_position_ = 0;
};

// dw: the forward pass read backwards. Tiles are the terms of the sums, so a chunk of them is transformed by all lanes,
// which then share the positions.
class WeightGradient final : public Winograd {
 public:
  WeightGradient(const ConvShape& s, const WinogradOptions& options)
      : shape_(s),
        options_(options),
        kernels_(winograd_kernels(options.size, options.dtype)),
        grid_(s.batch, s.out_height, s.out_width, options.size.out),
        panels_(round_to(s.in_channels, kernels_.panel) / kernels_.panel),
        rows_(round_to(s.out_channels, kernels_.rows)),
        row_(round_to(s.out_channels, 48)) {
    constexpr std::int64_t kChunkFloats = 2 << 20;
    const std::int64_t floats = positions() * (panels_ * kernels_.panel + row_);
    // Chunks that outweigh the sums, which are read and written for each; of sizes alone, for the same bits always.
    const std::int64_t most = std::max(kChunkFloats, positions() * panels_ * rows_ * kernels_.panel) / floats;
    chunk_ = round_to(std::clamp<std::int64_t>(most, kDepth, std::max(grid_.count(), kDepth)), kDepth);
    pixel_position_ = position_stride(panels_ * chunk_ * kernels_.panel);
    gradient_position_ = position_stride(chunk_ * row_);
    sum_position_ = position_stride(panels_ * rows_ * kernels_.panel);
  }

  std::size_t scratch_bytes() const override {
    return float_bytes(positions() * pixel_position_) + float_bytes(positions() * gradient_position_) +
           float_bytes(positions() * sum_position_);
  }

  void run(const WinogradArgs& args) const override {
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

  void transform(const WinogradArgs& args, std::int64_t first, std::int64_t count, const Parts& parts) const {
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

std::string winograd_refusal(const ConvShape& s, WinogradSize size, DType dtype) {
  if (dtype != f32 && dtype != bf16) return name(dtype);
  if (s.groups != 1) return "groups";
  if (s.stride_height != 1 || s.stride_width != 1) return "strides";
  if (s.dilation_height != 1 || s.dilation_width != 1) return "dilation";
  if (s.kernel_height != size.kernel() || s.kernel_width != size.kernel()) return "another kernel";
  return winograd_kernels(size, dtype).multiply ? "" : "no such tiles";
}

std::unique_ptr<Winograd> winograd(ConvPass pass, const ConvShape& shape, const WinogradOptions& options) {
  if (pass == ConvPass::weight_grad) return std::make_unique<WeightGradient>(shape, options);
  return std::make_unique<Sliding>(pass, shape, options);
}

}  // namespace varve::cpu::plain
