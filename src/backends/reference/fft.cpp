// The discrete Fourier transform by its definition.
#include <cmath>
#include <numbers>

#include "backends/reference/kernels.h"

namespace varve::reference {
namespace {

// y[k] = Σ x[i] · exp(∓2πi·k·i/n)
void dft(const ir::Node& node, const std::vector<View>& in, const std::vector<View>& out, backend::ErrorWord&) {
  if (in[0].numel() == 0) return;
  const std::int64_t n = in[0].shape().back(), rows = in[0].numel() / n;
  std::vector<double> cos(static_cast<std::size_t>(n)), sin(cos.size());
  for (std::int64_t i = 0; i < n; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n);
    cos[static_cast<std::size_t>(i)] = std::cos(angle);
    sin[static_cast<std::size_t>(i)] = node.attrs.flag("inverse") ? std::sin(angle) : -std::sin(angle);
  }
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t k = 0; k < n; ++k) {
      double re = 0, im = 0;
      for (std::int64_t i = 0, step = 0; i < n; ++i, step = (step + k) % n) {
        const double a = in[0].get(row * n + i), b = in[1].get(row * n + i);
        const double c = cos[static_cast<std::size_t>(step)], s = sin[static_cast<std::size_t>(step)];
        re += a * c - b * s;
        im += a * s + b * c;
      }
      out[0].set(row * n + k, re);
      out[1].set(row * n + k, im);
    }
}

}  // namespace

void add_fft_kernels(KernelMap& map) { map["dft"] = dft; }

}  // namespace varve::reference
