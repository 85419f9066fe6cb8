// Convolutions whose groups have one input channel each, and `multiplier` output channels.
#include <algorithm>

#include "backends/cpu/common/loops.h"
#include "backends/cpu/common/scratch.h"
#include "backends/cpu/conv/direct/convolution.h"
#include "backends/cpu/matmul/gemm/partial_sums.h"

namespace varve::cpu::plain {
namespace {

// f(tap, place of the pixel of x) for the taps of an output pixel that meet the image.
template <class F>
void each_tap(const ConvShape& s, std::int64_t row, std::int64_t column, F f) {
  for (std::int64_t i = 0; i < s.kernel_height; ++i) {
    const std::int64_t y = row * s.stride_height - s.pad_top + i * s.dilation_height;
    if (y < 0 || y >= s.in_height) continue;
    for (std::int64_t j = 0; j < s.kernel_width; ++j) {
      const std::int64_t x = column * s.stride_width - s.pad_left + j * s.dilation_width;
      if (x >= 0 && x < s.in_width) f(i * s.kernel_width + j, y * s.in_width + x);
    }
  }
}

// The same for an input pixel and the pixels of y that it had a part in.
template <class F>
void each_use(const ConvShape& s, std::int64_t row, std::int64_t column, F f) {
  for (std::int64_t i = 0; i < s.kernel_height; ++i) {
    const std::int64_t y = row + s.pad_top - i * s.dilation_height;
    if (y < 0 || y % s.stride_height != 0 || y / s.stride_height >= s.out_height) continue;
    for (std::int64_t j = 0; j < s.kernel_width; ++j) {
      const std::int64_t x = column + s.pad_left - j * s.dilation_width;
      if (x < 0 || x % s.stride_width != 0 || x / s.stride_width >= s.out_width) continue;
      f(i * s.kernel_width + j, y / s.stride_height * s.out_width + x / s.stride_width);
    }
  }
}

template <class T>
class Depthwise final : public Convolution {
  using S = Sum<T>;

 public:
  Depthwise(ConvPass pass, const ConvShape& s, DType dtype, int workers)
      : pass_(pass), shape_(s), multiplier_(s.out_group()), sums_(s.weights(), image_blocks(s), dtype) {
    const bool gradient = pass == ConvPass::weight_grad;
    const std::int64_t tasks = gradient ? sums_.blocks() : s.batch * rows();
    workers_ = std::min<std::int64_t>(workers, tasks);
    row_bytes_ = cache_aligned(static_cast<std::size_t>(s.out_channels) * sizeof(S));
    weights_bytes_ = cache_aligned(static_cast<std::size_t>(s.weights()) * sizeof(S));
  }

  // Weights as [tap][channel], or their partial sums; then a line of sums for each worker.
  std::size_t scratch_bytes() const override {
    if (pass_ == ConvPass::weight_grad) return sums_.bytes();
    return weights_bytes_ + row_bytes_ * static_cast<std::size_t>(workers_);
  }

  void run(const void* first, const void* second, void* out, void* scratch) const override {
    auto* memory = static_cast<std::byte*>(scratch);
    if (pass_ == ConvPass::weight_grad)
      return weight_gradient(static_cast<const T*>(first), static_cast<const T*>(second), static_cast<T*>(out), memory);
    S* weights = reinterpret_cast<S*>(memory);
    transpose_weights(static_cast<const T*>(second), weights);
    parallel_for(workers_, 1, [&](std::int64_t worker, std::int64_t) {
      S* sums = reinterpret_cast<S*>(memory + weights_bytes_ + static_cast<std::size_t>(worker) * row_bytes_);
      for (std::int64_t task = worker; task < shape_.batch * rows(); task += workers_) {
        const std::int64_t image = task / rows(), row = task % rows();
        if (pass_ == ConvPass::forward)
          forward_row(static_cast<const T*>(first), weights, static_cast<T*>(out), image, row, sums);
        else
          backward_row(static_cast<const T*>(first), weights, static_cast<T*>(out), image, row, sums);
      }
    });
  }

 private:
  std::int64_t rows() const { return pass_ == ConvPass::forward ? shape_.out_height : shape_.in_height; }

  void transpose_weights(const T* from, S* to) const {
    for (std::int64_t o = 0; o < shape_.out_channels; ++o)
      for (std::int64_t tap = 0; tap < shape_.taps(); ++tap)
        to[tap * shape_.out_channels + o] = cast_to<S>(from[o * shape_.taps() + tap]);
  }

  void forward_row(const T* x, const S* weights, T* y, std::int64_t image, std::int64_t row, S* sums) const {
    const std::int64_t outs = shape_.out_channels, ins = shape_.in_channels;
    T* out = y + image * shape_.out_image() + row * shape_.out_width * outs;
    for (std::int64_t column = 0; column < shape_.out_width; ++column, out += outs) {
      std::fill(sums, sums + outs, S{0});
      each_tap(shape_, row, column, [&](std::int64_t tap, std::int64_t pixel) {
        const S* w = weights + tap * outs;
        const T* from = x + image * shape_.in_image() + pixel * ins;
        if (multiplier_ == 1) {
#pragma omp simd
          for (std::int64_t c = 0; c < outs; ++c) sums[c] += cast_to<S>(from[c]) * w[c];
        } else {
          for (std::int64_t o = 0; o < outs; ++o) sums[o] += cast_to<S>(from[o / multiplier_]) * w[o];
        }
      });
      for (std::int64_t o = 0; o < outs; ++o) out[o] = cast_to<T>(sums[o]);
    }
  }

  void backward_row(const T* dy, const S* weights, T* dx, std::int64_t image, std::int64_t row, S* sums) const {
    const std::int64_t outs = shape_.out_channels, ins = shape_.in_channels;
    T* out = dx + image * shape_.in_image() + row * shape_.in_width * ins;
    for (std::int64_t column = 0; column < shape_.in_width; ++column, out += ins) {
      std::fill(sums, sums + ins, S{0});
      each_use(shape_, row, column, [&](std::int64_t tap, std::int64_t pixel) {
        const S* w = weights + tap * outs;
        const T* from = dy + image * shape_.out_image() + pixel * outs;
        if (multiplier_ == 1) {
#pragma omp simd
          for (std::int64_t c = 0; c < outs; ++c) sums[c] += cast_to<S>(from[c]) * w[c];
        } else {
          for (std::int64_t o = 0; o < outs; ++o) sums[o / multiplier_] += cast_to<S>(from[o]) * w[o];
        }
      });
      for (std::int64_t c = 0; c < ins; ++c) out[c] = cast_to<T>(sums[c]);
    }
  }

  // The partial sums are [tap][channel] in their blocks, so that channels are neighbours, and transposed at the end.
  void weight_gradient(const T* x, const T* dy, T* dw, std::byte* memory) const {
    const std::int64_t outs = shape_.out_channels, taps = shape_.taps();
    zero_bytes(memory, static_cast<std::int64_t>(sums_.bytes()));
    parallel_for(sums_.blocks(), 1, [&](std::int64_t block, std::int64_t) {
      S* sums = reinterpret_cast<S*>(sums_.place(memory, block));
      const auto [begin, end] = sums_.range(block, shape_.batch);
      for (std::int64_t image = begin; image < end; ++image) add_image(x, dy, image, sums);
    });
    parallel_for(outs, grain_for(taps * static_cast<std::int64_t>(sizeof(S))),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t o = begin; o < end; ++o)
                     for (std::int64_t tap = 0; tap < taps; ++tap) {
                       S sum = 0;
                       for (std::int64_t block = 0; block < sums_.blocks(); ++block)
                         sum += *reinterpret_cast<const S*>(sums_.place(memory, block, tap * outs + o));
                       dw[o * taps + tap] = cast_to<T>(sum);
                     }
                 });
  }

  void add_image(const T* x, const T* dy, std::int64_t image, S* sums) const {
    const std::int64_t outs = shape_.out_channels, ins = shape_.in_channels;
    const T* grad = dy + image * shape_.out_image();
    for (std::int64_t row = 0; row < shape_.out_height; ++row)
      for (std::int64_t column = 0; column < shape_.out_width; ++column, grad += outs)
        each_tap(shape_, row, column, [&](std::int64_t tap, std::int64_t pixel) {
          S* sum = sums + tap * outs;
          const T* from = x + image * shape_.in_image() + pixel * ins;
          if (multiplier_ == 1) {
#pragma omp simd
            for (std::int64_t c = 0; c < outs; ++c) sum[c] += cast_to<S>(from[c]) * cast_to<S>(grad[c]);
          } else {
            for (std::int64_t o = 0; o < outs; ++o) sum[o] += cast_to<S>(from[o / multiplier_]) * cast_to<S>(grad[o]);
          }
        });
  }

  ConvPass pass_;
  ConvShape shape_;
  std::int64_t multiplier_;
  PartialSums sums_;
  std::int64_t workers_ = 1;
  std::size_t row_bytes_ = 0, weights_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Convolution> depthwise(ConvPass pass, const ConvShape& shape, DType dtype, int workers) {
  return dispatch(dtype, [&]<class T>(std::type_identity<T>) -> std::unique_ptr<Convolution> {
    if constexpr (std::is_integral_v<T>)
      return nullptr;
    else
      return std::make_unique<Depthwise<T>>(pass, shape, dtype, workers);
  });
}

}  // namespace varve::cpu::plain
