#include "backends/cpu/conv/conv_costs.h"

#include <cmath>

#include "backends/cpu/common/rates.h"
#include "backends/cpu/conv/fft/fft_convolution.h"
#include "backends/cpu/conv/winograd/tiles.h"

namespace varve::cpu {
namespace {

// Multiply-adds of direct convolution in the time of one at the processor's f32 peak.
double direct_rate(const ConvShape& s, DType dtype) {
#ifdef VARVE_HAS_ONEDNN
  if (dtype == bf16 && dnn::has_bf16()) return rates(bf16_products()).direct_bf16;
  return s.in_channels < 8 ? 0.85 : 0.95;
#else
  static_cast<void>(s);
  return dtype == bf16 ? 0.5 : 0.7;
#endif
}

}  // namespace

double direct_cost(const ConvShape& s, DType dtype) {
  const double products = static_cast<double>(s.batch * s.out_height * s.out_width) * static_cast<double>(s.weights());
  return products / direct_rate(s, dtype);
}

// Measured on Zen 4, in multiply-adds at its peak; within a fifth for the shapes of the networks in the zoo.
double winograd_cost(ConvPass pass, const ConvShape& s, plain::WinogradSize size) {
  constexpr double kRate = 0.85, kStart = 16;      // of a product; what each of its sums costs beside the terms
  constexpr double kFromImage = 4, kToImage = 6;   // for each value of a transformed tile
  constexpr double kFilter = 16, kFarFilter = 50;  // for each value of a transformed filter
  constexpr double kNear = 2 << 20;                // filters that stay in the cache
  constexpr std::int64_t kRows = 6, kPanel = 32, kVector = 16;
  const bool backward = pass == ConvPass::input_grad, weights = pass == ConvPass::weight_grad;
  const plain::TileGrid grid =
      backward && !plain::transposes(s, size) ? plain::result_grid(s, true, size) : plain::gradient_grid(s, size);
  const std::int64_t terms = weights ? grid.count() : backward ? s.out_channels : s.in_channels;
  const std::int64_t rows = align_up(weights ? s.out_channels : grid.count(), kRows);
  const std::int64_t columns = align_up(pass == ConvPass::forward ? s.out_channels : s.in_channels, kPanel);
  const std::int64_t from = weights ? s.in_channels : terms, to = weights ? s.out_channels : columns;
  const double positions = size.positions(), filters = static_cast<double>(s.in_channels * s.out_channels) * positions;
  const double products =
      static_cast<double>(rows) * static_cast<double>(columns) * (static_cast<double>(terms) + kStart);
  const double images = static_cast<double>(grid.count()) *
                        (kFromImage * static_cast<double>(align_up(from, kVector)) +
                         (weights ? kFromImage : kToImage) * static_cast<double>(align_up(to, kVector)));
  return positions * (products / kRate + images) + filters * (filters < kNear ? kFilter : kFarFilter);
}

// Measured beside the plain direct and Winograd kernels, one thread of Zen (docs/decisions/0045-fourier-transforms.md).
double fft_cost(const ConvShape& s) {
  constexpr double kProducts = 4 * 6;  // real products of a complex one: small matrices, far from the peak
  constexpr double kPoint = 19;        // of a transform, for each of its stages and points
  const auto points = static_cast<double>(plain::fft_height(s) * plain::fft_width(s));
  const auto n = static_cast<double>(s.batch), i = static_cast<double>(s.in_channels),
             o = static_cast<double>(s.out_channels);
  return points / 2 * n * i * o * kProducts + (n * i + n * o + i * o) * points * std::log2(points) * kPoint;
}

}  // namespace varve::cpu
