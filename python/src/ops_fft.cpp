// Fourier transforms: what varve.fft offers. Complex tensors are pairs here.
#include <varve/fft.h>

#include "ops.h"

namespace varve::python {
namespace {

std::pair<Tensor, Tensor> pair(const fft::Complex& x) { return {x.re, x.im}; }

fft::Norm norm_of(const std::string& name) {
  if (name == "backward") return fft::Norm::backward;
  if (name == "ortho") return fft::Norm::ortho;
  if (name == "forward") return fft::Norm::forward;
  throw Error("fft: norm must be 'backward', 'ortho' or 'forward', got '" + name + "'.");
}

template <class F>
void bind_one(nb::module_& m, const char* name, F f) {
  op(
      m, name,
      [f](const Tensor& re, const Tensor& im, const std::optional<std::int64_t>& n, std::int64_t axis,
          const std::string& norm) {
        return f(fft::Complex{re, im}, fft::FftOptions{n, axis, norm_of(norm)});
      },
      "", "re"_a, "im"_a = nb::none(), "n"_a = nb::none(), "axis"_a = -1, "norm"_a = "backward");
}

template <class F>
void bind_many(nb::module_& m, const char* name, F f) {
  op(
      m, name,
      [f](const Tensor& re, const Tensor& im, const std::optional<Axes>& sizes, const std::optional<Axes>& axes,
          const std::string& norm) {
        return f(fft::Complex{re, im}, fft::FftnOptions{sizes.value_or(Axes{}), axes, norm_of(norm)});
      },
      "", "re"_a, "im"_a = nb::none(), "sizes"_a = nb::none(), "axes"_a = nb::none(), "norm"_a = "backward");
}

}  // namespace

void bind_fft(nb::module_& m) {
  using fft::Complex, fft::FftOptions, fft::FftnOptions;
  bind_one(m, "_fft", [](const Complex& x, const FftOptions& o) { return pair(fft::fft(x, o)); });
  bind_one(m, "_ifft", [](const Complex& x, const FftOptions& o) { return pair(fft::ifft(x, o)); });
  bind_one(m, "_rfft", [](const Complex& x, const FftOptions& o) { return pair(fft::rfft(x.re, o)); });
  bind_one(m, "_irfft", [](const Complex& x, const FftOptions& o) { return fft::irfft(x, o); });
  bind_many(m, "_fftn", [](const Complex& x, const FftnOptions& o) { return pair(fft::fftn(x, o)); });
  bind_many(m, "_ifftn", [](const Complex& x, const FftnOptions& o) { return pair(fft::ifftn(x, o)); });
  bind_many(m, "_fft2", [](const Complex& x, const FftnOptions& o) { return pair(fft::fft2(x, o)); });
  bind_many(m, "_ifft2", [](const Complex& x, const FftnOptions& o) { return pair(fft::ifft2(x, o)); });
  bind_many(m, "_rfft2", [](const Complex& x, const FftnOptions& o) { return pair(fft::rfft2(x.re, o)); });
  bind_many(m, "_irfft2", [](const Complex& x, const FftnOptions& o) { return fft::irfft2(x, o); });
  op(m, "_fftshift", fft::fftshift, "", "x"_a, "axes"_a = nb::none());
  op(m, "_ifftshift", fft::ifftshift, "", "x"_a, "axes"_a = nb::none());
  op(m, "_fftfreq", fft::fftfreq, "", "n"_a, "spacing"_a = 1.0, "dtype"_a = "f32");
  op(m, "_rfftfreq", fft::rfftfreq, "", "n"_a, "spacing"_a = 1.0, "dtype"_a = "f32");
}

}  // namespace varve::python
