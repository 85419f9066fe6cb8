// Transforms as they are called: lengths, axes, norms, and real signals, which are half as much work.
#include <cmath>
#include <numbers>

#include "base/text.h"
#include "ops/fft.h"

namespace varve::fft {
namespace {

Tensor as_real(const Tensor& x) { return x.dtype() == f32 || x.dtype() == f64 ? x : x.to(f32); }

Complex as_complex(const Complex& x, const char* op) {
  if (!x.re.defined()) throw Error(cat(op, ": the real part is an undefined Tensor."));
  if (!x.im.defined()) return {as_real(x.re), zeros(x.re.shape(), as_real(x.re).dtype())};
  if (x.re.shape() != x.im.shape())
    throw Error(cat(op, ": real part ", x.re.shape(), " and imaginary part ", x.im.shape(), " differ."));
  const DType dtype = promote(as_real(x.re).dtype(), as_real(x.im).dtype());
  return {x.re.to(dtype), x.im.to(dtype)};
}

double factor(Norm norm, std::int64_t n, bool inverse) {
  const auto size = static_cast<double>(n);
  if (norm == Norm::ortho) return 1 / std::sqrt(size);
  return (norm == Norm::backward) == inverse ? 1 / size : 1;
}

Tensor scaled(const Tensor& x, double by) { return by == 1 ? x : x * by; }
Complex scaled(const Complex& x, double by) { return {scaled(x.re, by), scaled(x.im, by)}; }

Tensor with_axis(const Tensor& x, int from, int to) {
  if (from == to) return x;
  Axes order;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (axis != from) order.push_back(axis);
  order.insert(order.begin() + to, from);
  return transpose(x, order);
}

Tensor last(const Tensor& x, std::int64_t begin, std::int64_t end, std::int64_t step = 1) {
  std::vector<Range> ranges(static_cast<std::size_t>(x.rank()));
  ranges.back() = {begin, end, step};
  return slice(x, ranges);
}

// Cut, or with zeros behind.
Tensor resized(const Tensor& x, std::int64_t n) {
  const std::int64_t size = x.dim(-1);
  if (size == n) return x;
  if (size > n) return last(x, 0, n);
  std::vector<std::pair<std::int64_t, std::int64_t>> widths(static_cast<std::size_t>(x.rank()));
  widths.back() = {0, n - size};
  return pad(x, widths);
}
Complex resized(const Complex& x, std::int64_t n) { return {resized(x.re, n), resized(x.im, n)}; }

void check_length(std::int64_t n, const char* op) {
  if (n < 1) throw Error(cat(op, ": the signal has ", n, " points; expected 1 or more."));
  constexpr std::int64_t kMost = std::int64_t{1} << 26;
  if (n > kMost) throw Error(cat(op, ": the signal has ", n, " points; at most 2^26 can be transformed at once."));
}

// exp(∓2πi·k/n) for k = 0, 1, … < count
Complex roots(std::int64_t count, std::int64_t n, bool inverse, DType dtype) {
  std::vector<double> cos, sin;
  for (std::int64_t k = 0; k < count; ++k) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
    cos.push_back(std::cos(angle));
    sin.push_back(inverse ? std::sin(angle) : -std::sin(angle));
  }
  return {tensor(cos).to(dtype), tensor(sin).to(dtype)};
}

// Of n real points in the last axis. An even number of them is transformed as half as many complex ones.
Complex real_forward(const Tensor& x, std::int64_t n) {
  const std::int64_t half = n / 2;
  if (n % 2 != 0 || n < 4) {
    const Complex y = dft({x, zeros(x.shape(), x.dtype())}, false);
    return {last(y.re, 0, half + 1), last(y.im, 0, half + 1)};
  }
  const Complex z = dft({last(x, 0, n, 2), last(x, 1, n, 2)}, false);
  const Tensor re = concat({z.re, last(z.re, 0, 1)}, -1), im = concat({z.im, last(z.im, 0, 1)}, -1);
  const Tensor back_re = flip(re, {-1}), back_im = flip(im, {-1});
  // even = (z + conj(back)) / 2, odd = (z - conj(back)) / 2i, y = even + w·odd
  const Tensor odd_re = im + back_im, odd_im = back_re - re;
  const auto [c, s] = roots(half + 1, n, false, x.dtype());
  return {0.5 * (re + back_re + c * odd_re - s * odd_im), 0.5 * (im - back_im + c * odd_im + s * odd_re)};
}

// n real points from n/2 + 1 frequencies, without a factor; imaginary parts of the ends that are real anyway go.
Tensor real_backward(const Complex& given, std::int64_t n) {
  const std::int64_t half = n / 2;
  std::vector<double> kept(static_cast<std::size_t>(half + 1), 1.0);
  kept.front() = 0;
  if (n % 2 == 0) kept.back() = 0;
  const Complex x{given.re, given.im * tensor(kept).to(given.im.dtype())};
  if (n % 2 != 0 || n < 4) {
    const std::int64_t rest = n - half - 1;  // mirrored ones
    const Tensor re = concat({x.re, flip(last(x.re, 1, 1 + rest), {-1})}, -1);
    const Tensor im = concat({x.im, -flip(last(x.im, 1, 1 + rest), {-1})}, -1);
    return dft({re, im}, true).re;
  }
  const Tensor re = last(x.re, 0, half), im = last(x.im, 0, half);
  const Tensor back_re = flip(last(x.re, 1, half + 1), {-1}), back_im = flip(last(x.im, 1, half + 1), {-1});
  const Tensor odd_re = re - back_re, odd_im = im + back_im;
  const auto [c, s] = roots(half, n, true, x.re.dtype());
  const Tensor turned_re = c * odd_re - s * odd_im, turned_im = c * odd_im + s * odd_re;
  const Complex z = dft({re + back_re - turned_im, im - back_im + turned_re}, true);
  Shape shape = z.re.shape();
  shape[shape.rank() - 1] = n;
  return stack({z.re, z.im}, -1).reshape(shape);
}

// The call with the axis last, and back.
template <class F>
auto along(const Complex& x, std::int64_t axis, const char* op, F f) {
  const int at = normalize_axis(axis, x.re.rank(), op), end = x.re.rank() - 1;
  const auto y = f(Complex{with_axis(x.re, at, end), x.im.defined() ? with_axis(x.im, at, end) : Tensor{}});
  if constexpr (std::is_same_v<std::decay_t<decltype(y)>, Complex>)
    return Complex{with_axis(y.re, end, at), with_axis(y.im, end, at)};
  else
    return with_axis(y, end, at);
}

Complex complex_transform(const Complex& given, const FftOptions& o, bool inverse, const char* op) {
  return along(as_complex(given, op), o.axis, op, [&](const Complex& x) {
    const std::int64_t n = o.n.value_or(x.re.dim(-1));
    check_length(n, op);
    return scaled(dft(resized(x, n), inverse), factor(o.norm, n, inverse));
  });
}

// The axes of a call in several dimensions, and the length along each: -1 where it is not said.
struct Dimensions {
  Axes axes;
  std::vector<std::int64_t> sizes;

  Dimensions(const FftnOptions& o, int rank, int taken, const char* op) {
    if (o.axes) {
      axes = *o.axes;
    } else {
      const int count = taken > 0 ? taken : o.sizes.empty() ? rank : static_cast<int>(o.sizes.size());
      for (int axis = -count; axis < 0; ++axis) axes.push_back(axis);
    }
    if (taken > 0 && static_cast<int>(axes.size()) != taken)
      throw Error(cat(op, ": takes ", taken, " axes, got ", axes.size(), "."));
    std::vector<bool> seen(static_cast<std::size_t>(rank), false);
    for (std::int64_t& axis : axes) {
      axis = normalize_axis(axis, rank, op);
      if (seen[static_cast<std::size_t>(axis)]) throw Error(cat(op, ": axis ", axis, " is given twice."));
      seen[static_cast<std::size_t>(axis)] = true;
    }
    sizes = o.sizes.empty() ? std::vector<std::int64_t>(axes.size(), -1) : o.sizes;
    if (sizes.size() != axes.size()) throw Error(cat(op, ": ", sizes.size(), " sizes for ", axes.size(), " axes."));
    for (const std::int64_t size : o.sizes) check_length(size, op);
  }

  FftOptions option(std::size_t i, Norm norm) const {
    return {.n = sizes[i] < 0 ? std::nullopt : std::optional(sizes[i]), .axis = axes[i], .norm = norm};
  }
};

Complex over_axes(const Complex& x, const FftnOptions& o, int taken, bool inverse, const char* op) {
  const Dimensions d(o, x.re.defined() ? x.re.rank() : 0, taken, op);
  Complex y = as_complex(x, op);
  for (std::size_t i = d.axes.size(); i-- > 0;) y = complex_transform(y, d.option(i, o.norm), inverse, op);
  return y;
}

Tensor rolled(const Tensor& x, const std::optional<Axes>& axes, bool back, const char* op) {
  Axes all;
  for (int axis = 0; !axes && axis < x.rank(); ++axis) all.push_back(axis);
  Tensor y = x;
  for (const std::int64_t given : axes ? *axes : all) {
    const int axis = normalize_axis(given, x.rank(), op);
    const std::int64_t n = x.dim(axis), first = back ? n / 2 : n - n / 2;  // where the result begins
    if (n < 2) continue;
    std::vector<Range> head(static_cast<std::size_t>(axis) + 1), tail = head;
    head.back() = {first, n};
    tail.back() = {0, first};
    y = concat({slice(y, head), slice(y, tail)}, axis);
  }
  return y;
}

}  // namespace

Complex fft(const Complex& x, const FftOptions& o) { return complex_transform(x, o, false, "fft"); }
Complex ifft(const Complex& x, const FftOptions& o) { return complex_transform(x, o, true, "ifft"); }

Complex rfft(const Tensor& x, const FftOptions& o) {
  return along({as_real(x)}, o.axis, "rfft", [&](const Complex& signal) {
    const std::int64_t n = o.n.value_or(signal.re.dim(-1));
    check_length(n, "rfft");
    return scaled(real_forward(resized(signal.re, n), n), factor(o.norm, n, false));
  });
}

Tensor irfft(const Complex& x, const FftOptions& o) {
  return along(as_complex(x, "irfft"), o.axis, "irfft", [&](const Complex& spectrum) {
    const std::int64_t n = o.n.value_or(2 * (spectrum.re.dim(-1) - 1));
    check_length(n, "irfft");
    return scaled(real_backward(resized(spectrum, n / 2 + 1), n), factor(o.norm, n, true));
  });
}

Complex fftn(const Complex& x, const FftnOptions& o) { return over_axes(x, o, 0, false, "fftn"); }
Complex ifftn(const Complex& x, const FftnOptions& o) { return over_axes(x, o, 0, true, "ifftn"); }
Complex fft2(const Complex& x, const FftnOptions& o) { return over_axes(x, o, 2, false, "fft2"); }
Complex ifft2(const Complex& x, const FftnOptions& o) { return over_axes(x, o, 2, true, "ifft2"); }

Complex rfft2(const Tensor& x, const FftnOptions& o) {
  const Dimensions d(o, x.rank(), 2, "rfft2");
  return fft(rfft(x, d.option(1, o.norm)), d.option(0, o.norm));
}

Tensor irfft2(const Complex& x, const FftnOptions& o) {
  const Dimensions d(o, x.re.defined() ? x.re.rank() : 0, 2, "irfft2");
  return irfft(ifft(x, d.option(0, o.norm)), d.option(1, o.norm));
}

Tensor fftshift(const Tensor& x, const std::optional<Axes>& axes) { return rolled(x, axes, false, "fftshift"); }
Tensor ifftshift(const Tensor& x, const std::optional<Axes>& axes) { return rolled(x, axes, true, "ifftshift"); }

Tensor fftfreq(std::int64_t n, double spacing, DType dtype) {
  check_length(n, "fftfreq");
  std::vector<double> values;
  for (std::int64_t k = 0; k < n; ++k)
    values.push_back(static_cast<double>(k < (n + 1) / 2 ? k : k - n) / (static_cast<double>(n) * spacing));
  return tensor(values).to(dtype);
}

Tensor rfftfreq(std::int64_t n, double spacing, DType dtype) {
  check_length(n, "rfftfreq");
  std::vector<double> values;
  for (std::int64_t k = 0; k <= n / 2; ++k)
    values.push_back(static_cast<double>(k) / (static_cast<double>(n) * spacing));
  return tensor(values).to(dtype);
}

}  // namespace varve::fft
