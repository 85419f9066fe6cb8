#include "backends/cpu/conv/fft/fft_convolution.h"

#include <algorithm>

#include "backends/cpu/common/scratch.h"
#include "backends/cpu/fft/fft_plan.h"
#include "backends/cpu/matmul/gemm/gemm.h"
#include "base/threads.h"

namespace varve::cpu::plain {
namespace {

constexpr std::int64_t kTogether = 16;  // channels that are transformed together

std::int64_t smooth(std::int64_t least) {
  const auto is_smooth = [](std::int64_t n) {
    for (const std::int64_t factor : {2, 3, 5})
      while (n % factor == 0) n /= factor;
    return n == 1;
  };
  while (!is_smooth(least)) ++least;
  return least;
}

// Images [count, height, width, channels] on a torus, their corner at (top, left).
struct Images {
  std::int64_t count, height, width, channels, top, left;
  std::int64_t chunks() const { return (channels + kTogether - 1) / kTogether; }
};

// y[i] = Σ x[i + k]·w[k] becomes Y = X·conj(W). On a torus that holds the image and the larger padding of either side,
// what wraps around falls on zeros, or where nobody reads.
class FftConvolution final : public BiasedConvolution {
 public:
  FftConvolution(ConvPass pass, const ConvShape& s, const FftOptions& options)
      : relu_(options.relu),
        workers_(options.workers),
        height_(fft_height(s)),
        width_(fft_width(s)),
        half_(width_ / 2 + 1),
        rows_(width_),
        columns_(height_) {
    const Images x{s.batch, s.in_height, s.in_width, s.in_channels, s.pad_top, s.pad_left};
    const Images y{s.batch, s.out_height, s.out_width, s.out_channels, 0, 0};
    const Images w{s.out_channels, s.kernel_height, s.kernel_width, s.in_channels, 0, 0};
    const bool forward = pass == ConvPass::forward, weights = pass == ConvPass::weight_grad;
    first_ = pass == ConvPass::input_grad ? y : x;
    second_ = weights ? y : w;
    out_ = forward ? y : weights ? w : x;
    conjugate_second_ = pass != ConvPass::input_grad;
    left_is_first_ = !weights;
    Product p;
    p.batch = {height_ * half_};
    p.m = out_.count;
    p.n = out_.channels;
    p.k = weights ? s.batch : first_.channels;
    const std::int64_t first_size = first_.count * first_.channels, second_size = second_.count * second_.channels;
    if (weights) {  // dyᵀ·x
      p.a = {{second_size}, 1, second_.channels};
      p.b = {{first_size}, first_.channels, 1};
    } else {
      p.a = {{first_size}, first_.channels, 1};
      p.b = {{second_size}, forward ? 1 : second_.channels, forward ? second_.channels : 1};
    }
    p.c = {{out_.count * out_.channels}, out_.channels, 1};
    set_ = std::make_unique<Gemm>(p, Gemm::Options{.workers = workers_});
    add_ = std::make_unique<Gemm>(p, Gemm::Options{.accumulate = true, .workers = workers_});
  }

  std::size_t scratch_bytes() const override {
    return 2 * (spectrum_bytes(first_) + spectrum_bytes(second_) + spectrum_bytes(out_)) +
           std::max({set_->scratch_bytes(), add_->scratch_bytes(),
                     static_cast<std::size_t>(workers_) * float_bytes(worker_floats())});
  }

  void run(const ConvArgs& args) const override {
    Carver memory(static_cast<std::byte*>(args.scratch));
    const auto spectrum = [&](const Images& images) {
      return Spectrum{memory.take<float>(spectrum_size(images)), memory.take<float>(spectrum_size(images))};
    };
    const Spectrum first = spectrum(first_), second = spectrum(second_), out = spectrum(out_);
    std::byte* rest = memory.take<std::byte>(0);
    transform(first_, static_cast<const float*>(args.first), first, false, rest);
    transform(second_, static_cast<const float*>(args.second), second, conjugate_second_, rest);
    const Spectrum &a = left_is_first_ ? first : second, &b = left_is_first_ ? second : first;
    const float minus = -1, plus = 1;
    set_->run(a.re, b.re, out.re, rest);
    add_->run_scaled(a.im, b.im, &minus, out.re, rest);
    set_->run(a.re, b.im, out.im, rest);
    add_->run_scaled(a.im, b.re, &plus, out.im, rest);
    transform_back(out, args, rest);
  }

 private:
  // [frequency][image][channel]
  struct Spectrum {
    float *re, *im;
  };
  // One worker's: rows of two images' lines, and the columns of one chunk of channels.
  struct Planes {
    float *line_re, *line_im, *re, *im, *work;
  };

  std::size_t spectrum_size(const Images& images) const {
    return static_cast<std::size_t>(height_ * half_ * images.count * images.channels);
  }
  std::size_t spectrum_bytes(const Images& images) const {
    return cache_aligned(spectrum_size(images) * sizeof(float));
  }
  std::int64_t worker_floats() const {
    return 2 * width_ * kTogether + 2 * height_ * half_ * kTogether +
           std::max(rows_.work(kTogether), columns_.work(half_ * kTogether));
  }

  Planes planes(std::byte* memory, std::int64_t worker) const {
    auto* at = reinterpret_cast<float*>(memory + static_cast<std::size_t>(worker) * float_bytes(worker_floats()));
    const std::int64_t line = width_ * kTogether, plane = height_ * half_ * kTogether;
    return {at, at + line, at + 2 * line, at + 2 * line + plane, at + 2 * line + 2 * plane};
  }

  // f(image, first channel, channels, planes) for all chunks of all images.
  template <class F>
  void each_chunk(const Images& images, std::byte* memory, F f) const {
    const std::int64_t chunks = images.chunks(), all = images.count * chunks;
    const std::int64_t share = (all + workers_ - 1) / workers_;
    parallel_for(workers_, 1, [&](std::int64_t worker, std::int64_t) {
      const Planes own = planes(memory, worker);
      for (std::int64_t i = worker * share; i < std::min((worker + 1) * share, all); ++i) {
        const std::int64_t channel = i % chunks * kTogether;
        f(i / chunks, channel, std::min(kTogether, images.channels - channel), own);
      }
    });
  }

  // Two real lines are the real and the imaginary part of one complex line.
  void transform(const Images& images, const float* data, const Spectrum& to, bool conjugate, std::byte* memory) const {
    each_chunk(images, memory, [&](std::int64_t image, std::int64_t channel, std::int64_t lanes, const Planes& p) {
      const std::int64_t plane = height_ * half_ * lanes, line = width_ * lanes;
      std::fill(p.re, p.re + plane, 0.0f);
      std::fill(p.im, p.im + plane, 0.0f);
      const auto load = [&](std::int64_t y, float* to_line) {
        std::fill(to_line, to_line + line, 0.0f);
        if (y >= images.height) return;
        const float* from = data + ((image * images.height + y) * images.width) * images.channels + channel;
        for (std::int64_t x = 0; x < images.width; ++x, from += images.channels)
          std::copy(from, from + lanes, to_line + (images.left + x) * lanes);
      };
      for (std::int64_t y = 0; y < images.height; y += 2) {
        load(y, p.line_re);
        load(y + 1, p.line_im);
        rows_.run(p.line_re, p.line_im, p.work, lanes);
        separate(p, (images.top + y) * half_ * lanes, y + 1 < images.height, lanes);
      }
      columns_.run(p.re, p.im, p.work, half_ * lanes);
      const float sign = conjugate ? -1 : 1;
      for (std::int64_t f = 0; f < height_ * half_; ++f) {
        const std::int64_t at = (f * images.count + image) * images.channels + channel;
        for (std::int64_t l = 0; l < lanes; ++l) {
          to.re[at + l] = p.re[f * lanes + l];
          to.im[at + l] = sign * p.im[f * lanes + l];
        }
      }
    });
  }

  // z = a + i·b: a = (z + conj(z of the mirrored frequency)) / 2, b likewise. To two rows of the planes.
  void separate(const Planes& p, std::int64_t at, bool both, std::int64_t lanes) const {
    for (std::int64_t q = 0; q < half_; ++q) {
      const std::int64_t z = q * lanes, mirrored = (q == 0 ? 0 : width_ - q) * lanes, second = at + half_ * lanes;
      for (std::int64_t l = 0; l < lanes; ++l) {
        const float re = p.line_re[z + l], im = p.line_im[z + l];
        const float back_re = p.line_re[mirrored + l], back_im = p.line_im[mirrored + l];
        p.re[at + z + l] = 0.5f * (re + back_re);
        p.im[at + z + l] = 0.5f * (im - back_im);
        if (!both) continue;
        p.re[second + z + l] = 0.5f * (im + back_im);
        p.im[second + z + l] = 0.5f * (back_re - re);
      }
    }
  }

  void transform_back(const Spectrum& from, const ConvArgs& args, std::byte* memory) const {
    auto* result = static_cast<float*>(args.out);
    const float scale = 1.0f / static_cast<float>(height_ * width_);
    each_chunk(out_, memory, [&](std::int64_t image, std::int64_t channel, std::int64_t lanes, const Planes& p) {
      for (std::int64_t f = 0; f < height_ * half_; ++f) {
        const std::int64_t at = (f * out_.count + image) * out_.channels + channel;
        std::copy(from.re + at, from.re + at + lanes, p.re + f * lanes);
        std::copy(from.im + at, from.im + at + lanes, p.im + f * lanes);
      }
      columns_.run(p.im, p.re, p.work, half_ * lanes);
      const auto store = [&](std::int64_t y, const float* line) {
        if (y >= out_.height) return;
        float* to = result + ((image * out_.height + y) * out_.width) * out_.channels + channel;
        for (std::int64_t x = 0; x < out_.width; ++x, to += out_.channels)
          for (std::int64_t l = 0; l < lanes; ++l) {
            float value = line[(out_.left + x) * lanes + l] * scale;
            if (args.bias) value += args.bias[channel + l];
            to[l] = relu_ && value < 0 ? 0 : value;  // NaN stays
          }
      };
      for (std::int64_t y = 0; y < out_.height; y += 2) {
        join(p, (out_.top + y) * half_ * lanes, y + 1 < out_.height, lanes);
        rows_.run(p.line_im, p.line_re, p.work, lanes);
        store(y, p.line_re);
        store(y + 1, p.line_im);
      }
    });
  }

  // a + i·b of two rows, whose mirrored frequencies are conjugate.
  void join(const Planes& p, std::int64_t at, bool both, std::int64_t lanes) const {
    for (std::int64_t q = 0; q < width_; ++q) {
      const bool mirrored = q >= half_;
      const std::int64_t z = at + (mirrored ? width_ - q : q) * lanes, second = z + half_ * lanes;
      const float sign = mirrored ? -1 : 1;
      for (std::int64_t l = 0; l < lanes; ++l) {
        const float b_re = both ? p.re[second + l] : 0, b_im = both ? sign * p.im[second + l] : 0;
        p.line_re[q * lanes + l] = p.re[z + l] - b_im;
        p.line_im[q * lanes + l] = sign * p.im[z + l] + b_re;
      }
    }
  }

  bool relu_;
  int workers_;
  std::int64_t height_, width_, half_;  // of the torus; frequencies along its width that are not mirrored
  FftPlan<float> rows_, columns_;
  Images first_{}, second_{}, out_{};
  bool conjugate_second_ = false, left_is_first_ = true;
  std::unique_ptr<Gemm> set_, add_;
};

}  // namespace

std::int64_t fft_height(const ConvShape& s) {
  return smooth(std::max(s.in_height + std::max(s.pad_top, s.pad_bottom), s.out_height));
}
std::int64_t fft_width(const ConvShape& s) {
  return smooth(std::max(s.in_width + std::max(s.pad_left, s.pad_right), s.out_width));
}

std::string fft_refusal(const ConvShape& s, DType dtype) {
  if (dtype != f32) return "not f32";
  if (s.groups != 1) return "groups";
  if (s.stride_height != 1 || s.stride_width != 1) return "a stride: most of what a transform computes is not wanted";
  if (s.dilation_height != 1 || s.dilation_width != 1) return "dilation";
  return "";
}

std::unique_ptr<BiasedConvolution> fft_convolution(ConvPass pass, const ConvShape& shape, const FftOptions& options) {
  return std::make_unique<FftConvolution>(pass, shape, options);
}

}  // namespace varve::cpu::plain
