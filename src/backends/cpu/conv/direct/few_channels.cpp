#include "backends/cpu/conv/direct/few_channels.h"

#include <algorithm>

#include "backends/cpu/common/loops.h"
#include "backends/cpu/conv/direct/convolution.h"
#include "backends/cpu/conv/direct/few_channels_kernels.h"
#include "backends/cpu/conv/winograd/tiles.h"

namespace varve::cpu::plain {
namespace {

// Some rows of an image with its padding around them.
struct Padded {
  ConvShape shape;

  std::int64_t pitch() const { return (shape.in_width + shape.pad_left + shape.pad_right) * shape.in_channels; }
  std::int64_t in_rows(std::int64_t out_rows) const {
    return (out_rows - 1) * shape.stride_height + shape.kernel_height;
  }
  std::int64_t floats(std::int64_t out_rows) const { return in_rows(out_rows) * pitch(); }

  // What lies under results [first, first + count).
  void copy(const float* image, std::int64_t first, std::int64_t count, float* out) const {
    const std::int64_t top = first * shape.stride_height - shape.pad_top, line = shape.in_width * shape.in_channels;
    const std::int64_t left = shape.pad_left * shape.in_channels;
    for (std::int64_t i = 0; i < in_rows(count); ++i, out += pitch()) {
      const std::int64_t row = top + i;
      const bool inside = row >= 0 && row < shape.in_height;
      std::fill(out, out + (inside ? left : pitch()), 0.f);
      if (!inside) continue;
      std::copy_n(image + row * line, line, out + left);
      std::fill(out + left + line, out + pitch(), 0.f);
    }
  }
};

class Forward final : public BiasedConvolution {
 public:
  Forward(const ConvShape& s, bool relu, int workers)
      : shape_(s),
        relu_(relu),
        kernels_(few_channels_kernels()),
        padded_{s},
        terms_(s.taps() * s.in_channels),
        panels_(align_up(s.out_channels, kernels_.panel) / kernels_.panel) {
    // Bands of rows, so that few images make work for all.
    const std::int64_t wanted = (2 * workers + s.batch - 1) / s.batch;
    band_ = (s.out_height + wanted - 1) / wanted;
    bands_ = (s.out_height + band_ - 1) / band_;
    workers_ = std::min<std::int64_t>(workers, s.batch * bands_);
  }

  std::size_t scratch_bytes() const override {
    return weight_bytes() + bias_bytes() + float_bytes(padded_.floats(band_)) * static_cast<std::size_t>(workers_);
  }

  void run(const ConvArgs& args) const override {
    auto* weights = static_cast<float*>(args.scratch);
    float* bias = weights + weight_bytes() / sizeof(float);
    float* images = bias + bias_bytes() / sizeof(float);
    pack(static_cast<const float*>(args.second), weights);
    std::fill_n(bias, panels_ * kernels_.panel, 0.f);
    if (args.bias) std::copy_n(args.bias, shape_.out_channels, bias);
    parallel_for(workers_, 1, [&](std::int64_t worker, std::int64_t) {
      float* own = images + static_cast<std::size_t>(worker) * (float_bytes(padded_.floats(band_)) / sizeof(float));
      for (std::int64_t task = worker; task < shape_.batch * bands_; task += workers_)
        run_band(task / bands_, task % bands_ * band_, args, {weights, bias, own});
    });
  }

 private:
  struct Parts {
    const float *weights, *bias;
    float* image;
  };

  std::size_t weight_bytes() const { return float_bytes(panels_ * terms_ * kernels_.panel); }
  std::size_t bias_bytes() const { return float_bytes(panels_ * kernels_.panel); }

  // [O, terms] to [panels, terms, panel]
  void pack(const float* from, float* to) const {
    const std::int64_t panel = kernels_.panel;
    std::fill_n(to, panels_ * terms_ * panel, 0.f);
    for (std::int64_t o = 0; o < shape_.out_channels; ++o)
      for (std::int64_t k = 0; k < terms_; ++k) to[(o / panel * terms_ + k) * panel + o % panel] = from[o * terms_ + k];
  }

  void run_band(std::int64_t image, std::int64_t first, const ConvArgs& args, const Parts& parts) const {
    const ConvShape& s = shape_;
    const std::int64_t count = std::min(band_, s.out_height - first), panel = kernels_.panel;
    padded_.copy(static_cast<const float*>(args.first) + image * s.in_image(), first, count, parts.image);
    auto* y = static_cast<float*>(args.out) + image * s.out_image() + first * s.out_width * s.out_channels;
    for (std::int64_t p = 0; p < panels_; ++p)
      for (std::int64_t row = 0; row < count; ++row)
        kernels_.row({.x = parts.image + row * s.stride_height * padded_.pitch(),
                      .x_pixel = s.stride_width * s.in_channels,
                      .x_row = padded_.pitch(),
                      .rows = s.kernel_height,
                      .run = s.kernel_width * s.in_channels,
                      .weights = parts.weights + p * terms_ * panel,
                      .bias = parts.bias + p * panel,
                      .relu = relu_,
                      .y = y + row * s.out_width * s.out_channels + p * panel,
                      .pixels = s.out_width,
                      .channels = s.out_channels,
                      .count = std::min(panel, s.out_channels - p * panel)});
  }

  ConvShape shape_;
  bool relu_;
  FewChannelsKernels kernels_;
  Padded padded_;
  std::int64_t terms_, panels_, band_ = 1, bands_ = 1, workers_ = 1;
};

// dw: sums over blocks of images, then together in order.
class FewChannelsWeightGradient final : public BiasedConvolution {
 public:
  FewChannelsWeightGradient(const ConvShape& s, int workers)
      : shape_(s),
        kernels_(few_channels_kernels()),
        padded_{s},
        terms_(s.taps() * s.in_channels),
        panels_(align_up(s.out_channels, kernels_.panel) / kernels_.panel),
        blocks_(image_blocks(s)),
        workers_(std::min<std::int64_t>(workers, blocks_)) {}

  std::size_t scratch_bytes() const override {
    return block_bytes() * static_cast<std::size_t>(blocks_) +
           float_bytes(padded_.floats(shape_.out_height)) * static_cast<std::size_t>(workers_);
  }

  void run(const ConvArgs& args) const override {
    auto* sums = static_cast<float*>(args.scratch);
    auto* images = reinterpret_cast<float*>(at(args.scratch, static_cast<std::int64_t>(block_bytes()) * blocks_));
    parallel_for(workers_, 1, [&](std::int64_t worker, std::int64_t) {
      float* image =
          images + static_cast<std::size_t>(worker) * (float_bytes(padded_.floats(shape_.out_height)) / sizeof(float));
      for (std::int64_t block = worker; block < blocks_; block += workers_) {
        float* own = block_sums(sums, block);
        std::fill_n(own, panels_ * terms_ * kernels_.panel, 0.f);
        for (std::int64_t i = block * shape_.batch / blocks_; i < (block + 1) * shape_.batch / blocks_; ++i)
          add_image(i, args, image, own);
      }
    });
    add_blocks(sums, static_cast<float*>(args.out));
  }

 private:
  std::size_t block_bytes() const { return float_bytes(panels_ * terms_ * kernels_.panel); }
  float* block_sums(float* sums, std::int64_t block) const {
    return sums + static_cast<std::size_t>(block) * (block_bytes() / sizeof(float));
  }

  // Of the padded image: what the tap sees for the first result.
  std::int64_t tap_place(std::int64_t term) const {
    const std::int64_t run = shape_.kernel_width * shape_.in_channels;
    return term / run * padded_.pitch() + term % run;
  }

  void add_image(std::int64_t number, const ConvArgs& args, float* image, float* sums) const {
    const ConvShape& s = shape_;
    padded_.copy(static_cast<const float*>(args.first) + number * s.in_image(), 0, s.out_height, image);
    const float* dy = static_cast<const float*>(args.second) + number * s.out_image();
    for (std::int64_t p = 0; p < panels_; ++p)
      for (std::int64_t term = 0; term < terms_; term += kFewChannelsBlock) {
        FewChannelsSums step{.x = {},
                             .taps = std::min<std::int64_t>(kFewChannelsBlock, terms_ - term),
                             .x_pixel = s.stride_width * s.in_channels,
                             .x_row = s.stride_height * padded_.pitch(),
                             .dy = dy + p * kernels_.panel,
                             .dy_pixel = s.out_channels,
                             .rows = s.out_height,
                             .pixels = s.out_width,
                             .count = std::min<std::int64_t>(kernels_.panel, s.out_channels - p * kernels_.panel),
                             .sums = sums + (p * terms_ + term) * kernels_.panel};
        for (std::int64_t i = 0; i < step.taps; ++i) step.x[i] = image + tap_place(term + i);
        kernels_.sums(step);
      }
  }

  void add_blocks(float* sums, float* dw) const {
    const std::int64_t panel = kernels_.panel;
    for (std::int64_t o = 0; o < shape_.out_channels; ++o)
      for (std::int64_t term = 0; term < terms_; ++term) {
        float sum = 0;
        for (std::int64_t block = 0; block < blocks_; ++block)
          sum += block_sums(sums, block)[(o / panel * terms_ + term) * panel + o % panel];
        dw[o * terms_ + term] = sum;
      }
  }

  ConvShape shape_;
  FewChannelsKernels kernels_;
  Padded padded_;
  std::int64_t terms_, panels_, blocks_, workers_;
};

}  // namespace

std::string few_channels_refusal(ConvPass pass, const ConvShape& s, DType dtype) {
  constexpr std::int64_t kMostChannels = 8, kMostSums = 1 << 18;
  if (pass == ConvPass::input_grad) return "no gradient of the input";
  if (dtype != f32) return name(dtype);
  if (s.groups != 1) return "groups";
  if (s.dilation_height != 1 || s.dilation_width != 1) return "dilation";
  if (s.in_channels >= kMostChannels) return "many input channels";
  // Vectors that stay half empty.
  if (10 * s.out_channels < 7 * align_up(s.out_channels, few_channels_kernels().panel)) return "few output channels";
  return s.weights() > kMostSums ? "large filters" : "";
}

std::unique_ptr<BiasedConvolution> few_channels_convolution(ConvPass pass, const ConvShape& shape, bool relu,
                                                            int workers) {
  if (pass == ConvPass::weight_grad) return std::make_unique<FewChannelsWeightGradient>(shape, workers);
  return std::make_unique<Forward>(shape, relu, workers);
}

}  // namespace varve::cpu::plain
