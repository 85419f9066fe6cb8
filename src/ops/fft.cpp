// The transform itself: dft, along the last axis, of pairs of real tensors. Backends without a kernel of their own
// compute it by matrix products: lengths with divisors in two steps (Cooley and Tukey), long prime ones by a
// convolution (Bluestein).
#include "ops/fft.h"

#include <cmath>
#include <numbers>

#include "base/text.h"
#include "ops/batching.h"
#include "ops/families.h"
#include "ops/shared.h"

namespace varve::fft {
namespace {

constexpr std::int64_t kLongestProduct = 64;  // transforms of no more points are one product with their matrix

std::vector<TensorType> dft_shape(const Call& call) {
  const TensorType &re = call.in[0], &im = call.in[1];
  if (re.dtype != f32 && re.dtype != f64) throw Error(cat("dft: takes f32 or f64, got ", re.str(), "; cast it."));
  if (re != im) throw Error(cat("dft: real and imaginary part differ: ", re.str(), " and ", im.str(), "."));
  if (re.shape.rank() == 0 || re.shape.back() == 0)
    throw Error(cat("dft: takes [.., N] with at least one point along the last axis, got ", re.str(), "."));
  return {re, im};
}

Cost dft_cost(const Call& call, const std::vector<TensorType>& out) {
  Cost cost = moves_only(call, out);
  const auto n = static_cast<double>(out[0].shape.back());
  cost.flops = 5 * static_cast<double>(out[0].shape.numel()) * std::max(std::log2(n), 1.0);
  return cost;
}

// y = f·x with a symmetric complex f      dx = conj(f)·dy: the other direction
std::vector<Tensor> dft_vjp(const Vjp& v) {
  const Complex dx = dft({flowing(v, 0), flowing(v, 1)}, !v.attrs.flag("inverse"));
  return {dx.re, dx.im};
}

// exp(∓2πi·step/n) for each of the steps, exact for large ones. Computed when the program runs: a decomposition brings
// no constants.
Complex roots(const Tensor& steps, std::int64_t n, bool inverse, DType dtype) {
  const Tensor angle = (steps % n).to(f64) * (2 * std::numbers::pi / static_cast<double>(n));
  const Tensor c = cos(angle).to(dtype), s = sin(angle).to(dtype);
  return {c, inverse ? s : -s};
}

Complex times(const Complex& a, const Complex& b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
Complex swapped(const Complex& x) { return {transpose(x.re), transpose(x.im)}; }
Complex shaped(const Complex& x, const Shape& shape) { return {x.re.reshape(shape), x.im.reshape(shape)}; }

Shape with_last(const Shape& shape, std::initializer_list<std::int64_t> sizes) {
  Shape result(Ints(shape.begin(), shape.end() - 1));
  for (const std::int64_t size : sizes) result.push_back(size);
  return result;
}

Tensor part(const Tensor& x, std::int64_t begin, std::int64_t end) {
  std::vector<Range> ranges(static_cast<std::size_t>(x.rank()));
  ranges.back() = {begin, end};
  return slice(x, ranges);
}

// [re im]·[[c s] [-s c]] = [re·c - im·s, re·s + im·c]
Complex by_product(const Complex& x, bool inverse) {
  const std::int64_t n = x.re.dim(-1);
  const auto [c, s] = roots(expand_dims(arange(n), 1) * arange(n), n, inverse, x.re.dtype());
  const Tensor matrix = concat({concat({c, s}, 1), concat({-s, c}, 1)}, 0);
  const Tensor y = matmul(concat({x.re, x.im}, -1), matrix);
  return {part(y, 0, n), part(y, n, 2 * n)};
}

std::int64_t largest_divisor(std::int64_t n) {
  std::int64_t best = 1;
  for (std::int64_t d = 2; d <= kLongestProduct; ++d)
    if (n % d == 0) best = d;
  return best;
}

Complex transformed(const Complex& x, bool inverse);

// n = a·b: point i·b + j and frequency k + a·l. Along i, a twiddle factor for each (j, k), along j.
Complex in_two_steps(const Complex& x, std::int64_t a, bool inverse) {
  const Shape& shape = x.re.shape();
  const std::int64_t n = shape.back(), b = n / a;
  const Complex first = transformed(swapped(shaped(x, with_last(shape, {a, b}))), inverse);  // [.., j, k]
  const Complex twiddles = roots(expand_dims(arange(b), 1) * arange(a), n, inverse, x.re.dtype());
  const Complex turned = times(first, twiddles);
  return shaped(swapped(transformed(swapped(turned), inverse)), shape);  // [.., k, l], swapped
}

// With i·k = (i² + k² - (k - i)²) / 2 a transform is a convolution with a chirp, which any longer transform computes.
Complex by_convolution(const Complex& x, bool inverse) {
  const std::int64_t n = x.re.dim(-1);
  std::int64_t m = 1;
  while (m < 2 * n - 1) m *= 2;
  const DType dtype = x.re.dtype();
  const Tensor near = arange(n), far = minimum(arange(m), m - arange(m));
  const Complex w = roots(near * near, 2 * n, inverse, dtype), a = times(x, w);
  const Complex chirp = roots(far * far, 2 * n, !inverse, dtype);
  const Complex filter{where(far < n, chirp.re, 0.0), where(far < n, chirp.im, 0.0)};
  std::vector<std::pair<std::int64_t, std::int64_t>> widths(static_cast<std::size_t>(x.re.rank()));
  widths.back() = {0, m - n};
  const Complex spectrum = transformed({pad(a.re, widths), pad(a.im, widths)}, false);
  const Complex filtered = times(spectrum, transformed(filter, false));
  const Complex y = transformed(filtered, true);
  return times({part(y.re, 0, n) / static_cast<double>(m), part(y.im, 0, n) / static_cast<double>(m)}, w);
}

Complex transformed(const Complex& x, bool inverse) {
  const std::int64_t n = x.re.dim(-1);
  if (n == 1) return x;
  if (n <= kLongestProduct) return by_product(x, inverse);
  const std::int64_t divisor = largest_divisor(n);
  return divisor > 1 ? in_two_steps(x, divisor, inverse) : by_convolution(x, inverse);
}

std::vector<Tensor> dft_by_products(const std::vector<Tensor>& in, const Attrs& attrs) {
  if (in[0].numel() == 0) return {identity(in[0]), identity(in[1])};
  const Complex y = transformed({in[0], in[1]}, attrs.flag("inverse"));
  return {identity(y.re), identity(y.im)};
}

const OpDef dft_op = define({.name = "dft",
                             .doc = "Discrete Fourier transform along the last axis, of real and imaginary parts",
                             .family = "fft",
                             .arity = 2,
                             .shape = dft_shape,
                             .gradient = dft_vjp,
                             .decompose = dft_by_products,
                             .cost = dft_cost,
                             .batching = batch_leading});

}  // namespace

Complex dft(const Complex& x, bool inverse) {
  const std::vector<Tensor> out = dft_op.call({x.re, x.im}, {{"inverse", inverse}});
  return {out[0], out[1]};
}

}  // namespace varve::fft

namespace varve {
std::vector<const OpRecord*> fft_ops() { return {&fft::dft_op.record()}; }
}  // namespace varve
