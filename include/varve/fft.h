// Discrete Fourier transforms of any length, of real tensors and of complex ones, which are pairs of real tensors.
// f32 and f64; other types are taken as f32. Each is differentiable and runs on every device.
#pragma once

#include <optional>

#include "varve/ops.h"

namespace varve::fft {

struct Complex {
  Tensor re;
  Tensor im = {};  // zeros unless given
};

// Where the factor 1 / n goes: to the inverse transform, 1 / √n to both, to the forward one.
enum class Norm : std::uint8_t { backward, ortho, forward };

struct FftOptions {
  std::optional<std::int64_t> n = {};  // the axis is cut, or zeros are appended, to this length of the signal
  std::int64_t axis = -1;
  Norm norm = Norm::backward;
};
// yₖ = Σᵢ xᵢ · exp(-2πi·k·i/n)
Complex fft(const Complex& x, const FftOptions& = {});
Complex ifft(const Complex& x, const FftOptions& = {});
Complex rfft(const Tensor& x, const FftOptions& = {});   // of a real signal: the first n/2 + 1 frequencies
Tensor irfft(const Complex& x, const FftOptions& = {});  // n: the signal's length, 2·(frequencies - 1) unless given

struct FftnOptions {
  std::vector<std::int64_t> sizes = {};  // of the signal along the axes; empty: as they are
  std::optional<Axes> axes = {};         // all, or the last two for the functions named 2
  Norm norm = Norm::backward;
};
Complex fftn(const Complex& x, const FftnOptions& = {});
Complex ifftn(const Complex& x, const FftnOptions& = {});
Complex fft2(const Complex& x, const FftnOptions& = {});
Complex ifft2(const Complex& x, const FftnOptions& = {});
Complex rfft2(const Tensor& x, const FftnOptions& = {});   // the last of the axes has n/2 + 1 frequencies
Tensor irfft2(const Complex& x, const FftnOptions& = {});  // sizes: of the signal

// Frequency 0 in the middle of each axis (all unless given), and back at the beginning.
Tensor fftshift(const Tensor& x, const std::optional<Axes>& axes = {});
Tensor ifftshift(const Tensor& x, const std::optional<Axes>& axes = {});
// The frequencies of fft's and rfft's results, in cycles for each unit of the spacing between samples.
Tensor fftfreq(std::int64_t n, double spacing = 1, DType dtype = f32);
Tensor rfftfreq(std::int64_t n, double spacing = 1, DType dtype = f32);

}  // namespace varve::fft
