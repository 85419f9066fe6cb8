// Convolutions of plain loops in double, to hold kernels against.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "backends/cpu/conv/biased_conv.h"
#include "backends/cpu/conv/conv_shape.h"

namespace varve::cpu::plain {

using Values = std::vector<float>;

inline Values values(std::int64_t count, unsigned seed) {
  Values result(static_cast<std::size_t>(count));
  unsigned state = seed * 2654435761u + 1;
  for (float& x : result) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 8) / 8388608.f - 1.f;
  }
  return result;
}

struct Sizes {
  std::int64_t batch, height, width, in, out;
};

inline ConvShape shape_of(const Sizes& s, std::int64_t kernel, std::int64_t before, std::int64_t after,
                          std::int64_t stride = 1) {
  return {.batch = s.batch,
          .groups = 1,
          .in_height = s.height,
          .in_width = s.width,
          .in_channels = s.in,
          .out_height = (s.height + before + after - kernel) / stride + 1,
          .out_width = (s.width + before + after - kernel) / stride + 1,
          .out_channels = s.out,
          .kernel_height = kernel,
          .kernel_width = kernel,
          .stride_height = stride,
          .stride_width = stride,
          .dilation_height = 1,
          .dilation_width = 1,
          .pad_top = before,
          .pad_bottom = after,
          .pad_left = before,
          .pad_right = after};
}

// visit(element of x, of w, of y) for all products.
template <class Visit>
void each_product(const ConvShape& s, Visit visit) {
  for (std::int64_t n = 0; n < s.batch; ++n)
    for (std::int64_t row = 0; row < s.out_height; ++row)
      for (std::int64_t column = 0; column < s.out_width; ++column)
        for (std::int64_t tap = 0; tap < s.taps(); ++tap) {
          const std::int64_t h = row * s.stride_height + tap / s.kernel_width - s.pad_top,
                             w = column * s.stride_width + tap % s.kernel_width - s.pad_left;
          if (h < 0 || h >= s.in_height || w < 0 || w >= s.in_width) continue;
          for (std::int64_t o = 0; o < s.out_channels; ++o)
            for (std::int64_t i = 0; i < s.in_channels; ++i)
              visit(((n * s.in_height + h) * s.in_width + w) * s.in_channels + i,
                    (o * s.taps() + tap) * s.in_channels + i,
                    ((n * s.out_height + row) * s.out_width + column) * s.out_channels + o);
        }
}

struct Case {
  Values first, second;
  std::vector<double> want;
};

inline Case make_case(ConvPass pass, const ConvShape& s) {
  const Values x = values(s.batch * s.in_image(), 1), w = values(s.weights(), 2),
               y = values(s.batch * s.out_image(), 3);
  Case c{pass == ConvPass::input_grad ? y : x, pass == ConvPass::weight_grad ? y : w, {}};
  c.want.resize(pass == ConvPass::forward ? y.size() : pass == ConvPass::input_grad ? x.size() : w.size());
  each_product(s, [&](std::int64_t i, std::int64_t j, std::int64_t k) {
    const auto xi = static_cast<std::size_t>(i), wi = static_cast<std::size_t>(j), yi = static_cast<std::size_t>(k);
    if (pass == ConvPass::forward) c.want[yi] += static_cast<double>(x[xi]) * w[wi];
    if (pass == ConvPass::input_grad) c.want[xi] += static_cast<double>(y[yi]) * w[wi];
    if (pass == ConvPass::weight_grad) c.want[wi] += static_cast<double>(x[xi]) * y[yi];
  });
  return c;
}

// 64 bytes aligned, and full of NaN: what is read was written before.
struct Scratch {
  explicit Scratch(std::size_t bytes) : floats(bytes / sizeof(float) + 16, NAN) {}
  void* data() { return reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(floats.data()) + 63) / 64 * 64); }
  Values floats;
};

template <class T>
std::vector<T> run(const BiasedConvolution& conv, const std::vector<T>& first, const std::vector<T>& second,
                   std::size_t size, const float* bias = nullptr) {
  Scratch scratch(conv.scratch_bytes());
  std::vector<T> out(size);
  conv.run({first.data(), second.data(), bias, out.data(), scratch.data()});
  return out;
}

inline double error_of(const Values& got, const std::vector<double>& want) {
  double worst = 0, square = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double error = std::abs(static_cast<double>(got[i]) - want[i]);
    if (!(error <= worst)) worst = error;  // NaN counts as wrong
    if (std::isnan(error)) break;
    square += want[i] * want[i];
  }
  return worst / std::sqrt(square / static_cast<double>(want.size()));
}

}  // namespace varve::cpu::plain
