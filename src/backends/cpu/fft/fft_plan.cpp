// Stockham's form of the fast transform: each stage reads one buffer and writes the other, in order, so that nothing is
// ever permuted by itself and the inner loops go along memory.
#include "backends/cpu/fft/fft_plan.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace varve::cpu {
namespace {

constexpr std::int64_t kLargestRadix = 13;

// What a stage reads and writes: `stride` numbers side by side belong to one point.
template <class T>
struct Buffers {
  const T *re, *im;
  T *to_re, *to_im;
  std::int64_t stride;
};

template <class T>
void radix_2(const Buffers<T>& b, std::int64_t rest, const T* cos, const T* sin) {
  const std::int64_t s = b.stride;
  for (std::int64_t p = 0; p < rest; ++p) {
    const T c = cos[p], d = sin[p];
    const T *ar = b.re + p * s, *ai = b.im + p * s, *br = ar + rest * s, *bi = ai + rest * s;
    T *yr = b.to_re + 2 * p * s, *yi = b.to_im + 2 * p * s;
#pragma omp simd
    for (std::int64_t q = 0; q < s; ++q) {
      const T re = ar[q] - br[q], im = ai[q] - bi[q];
      yr[q] = ar[q] + br[q];
      yi[q] = ai[q] + bi[q];
      yr[q + s] = re * c - im * d;
      yi[q + s] = re * d + im * c;
    }
  }
}

template <class T>
void radix_4(const Buffers<T>& b, std::int64_t rest, const T* cos, const T* sin) {
  const std::int64_t s = b.stride, leg = rest * s;
  for (std::int64_t p = 0; p < rest; ++p, cos += 3, sin += 3) {
    const T *r = b.re + p * s, *i = b.im + p * s;
    T *yr = b.to_re + 4 * p * s, *yi = b.to_im + 4 * p * s;
    const T c1 = cos[0], c2 = cos[1], c3 = cos[2], s1 = sin[0], s2 = sin[1], s3 = sin[2];
#pragma omp simd
    for (std::int64_t q = 0; q < s; ++q) {
      const T ac_r = r[q] + r[q + 2 * leg], ac_i = i[q] + i[q + 2 * leg];
      const T amc_r = r[q] - r[q + 2 * leg], amc_i = i[q] - i[q + 2 * leg];
      const T bd_r = r[q + leg] + r[q + 3 * leg], bd_i = i[q + leg] + i[q + 3 * leg];
      const T bmd_r = r[q + leg] - r[q + 3 * leg], bmd_i = i[q + leg] - i[q + 3 * leg];
      const T y1_r = amc_r + bmd_i, y1_i = amc_i - bmd_r;  // a - c - i·(b - d)
      const T y2_r = ac_r - bd_r, y2_i = ac_i - bd_i;
      const T y3_r = amc_r - bmd_i, y3_i = amc_i + bmd_r;
      yr[q] = ac_r + bd_r;
      yi[q] = ac_i + bd_i;
      yr[q + s] = y1_r * c1 - y1_i * s1;
      yi[q + s] = y1_r * s1 + y1_i * c1;
      yr[q + 2 * s] = y2_r * c2 - y2_i * s2;
      yi[q + 2 * s] = y2_r * s2 + y2_i * c2;
      yr[q + 3 * s] = y3_r * c3 - y3_i * s3;
      yi[q + 3 * s] = y3_r * s3 + y3_i * c3;
    }
  }
}

// Any radix, by its definition.
template <class T>
void radix_any(const Buffers<T>& b, std::int64_t radix, std::int64_t rest, const T* cos, const T* sin, const T* leg_cos,
               const T* leg_sin) {
  const std::int64_t s = b.stride;
  for (std::int64_t p = 0; p < rest; ++p)
    for (std::int64_t k = 0; k < radix; ++k) {
      T *yr = b.to_re + (radix * p + k) * s, *yi = b.to_im + (radix * p + k) * s;
      std::copy(b.re + p * s, b.re + (p + 1) * s, yr);
      std::copy(b.im + p * s, b.im + (p + 1) * s, yi);
      for (std::int64_t j = 1; j < radix; ++j) {
        const T c = leg_cos[j * k % radix], d = leg_sin[j * k % radix];
        const T *xr = b.re + (p + j * rest) * s, *xi = b.im + (p + j * rest) * s;
#pragma omp simd
        for (std::int64_t q = 0; q < s; ++q) {
          yr[q] += xr[q] * c - xi[q] * d;
          yi[q] += xr[q] * d + xi[q] * c;
        }
      }
      if (k == 0) continue;
      const T c = cos[p * (radix - 1) + k - 1], d = sin[p * (radix - 1) + k - 1];
#pragma omp simd
      for (std::int64_t q = 0; q < s; ++q) {
        const T re = yr[q];
        yr[q] = re * c - yi[q] * d;
        yi[q] = re * d + yi[q] * c;
      }
    }
}

// exp(-2πi·step/n)
template <class T>
void add_root(std::vector<T>& cos, std::vector<T>& sin, std::int64_t step, std::int64_t n) {
  const double angle = 2 * std::numbers::pi * static_cast<double>(step % n) / static_cast<double>(n);
  cos.push_back(static_cast<T>(std::cos(angle)));
  sin.push_back(static_cast<T>(-std::sin(angle)));
}

std::int64_t next_radix(std::int64_t n) {
  for (const std::int64_t radix : {4, 2, 3, 5, 7, 11, 13})
    if (n % radix == 0) return radix;
  return n;
}

template <class T>
void multiply(T* re, T* im, const T* cos, const T* sin, std::int64_t points, std::int64_t lanes) {
  for (std::int64_t i = 0; i < points; ++i)
#pragma omp simd
    for (std::int64_t q = i * lanes; q < (i + 1) * lanes; ++q) {
      const T x = re[q];
      re[q] = x * cos[i] - im[q] * sin[i];
      im[q] = x * sin[i] + im[q] * cos[i];
    }
}

}  // namespace

template <class T>
FftPlan<T>::FftPlan(std::int64_t n) : n_(n) {
  std::int64_t rest = n;
  while (rest > 1 && next_radix(rest) <= kLargestRadix) {
    Stage stage{next_radix(rest), rest / next_radix(rest), {}, {}, {}, {}};
    for (std::int64_t p = 0; p < stage.rest; ++p)
      for (std::int64_t j = 1; j < stage.radix; ++j) add_root(stage.cos, stage.sin, p * j, rest);
    for (std::int64_t j = 0; j < stage.radix; ++j) add_root(stage.leg_cos, stage.leg_sin, j, stage.radix);
    rest = stage.rest;
    stages_.push_back(std::move(stage));
  }
  if (rest == 1) return;
  stages_.clear();
  std::int64_t m = 1;
  while (m < 2 * n - 1) m *= 2;
  longer_ = std::make_unique<FftPlan>(m);
  for (std::int64_t i = 0; i < n; ++i) add_root(chirp_cos_, chirp_sin_, i * i % (2 * n), 2 * n);
  // The filter's spectrum, with the factor 1 / m of the transform back.
  std::vector<T> re(static_cast<std::size_t>(m)), im(re.size()), scratch(static_cast<std::size_t>(longer_->work(1)));
  for (std::int64_t i = 0; i < n; ++i)
    for (const std::int64_t at : {i, (m - i) % m}) {
      re[static_cast<std::size_t>(at)] = chirp_cos_[static_cast<std::size_t>(i)] / static_cast<T>(m);
      im[static_cast<std::size_t>(at)] = -chirp_sin_[static_cast<std::size_t>(i)] / static_cast<T>(m);
    }
  longer_->run(re.data(), im.data(), scratch.data(), 1);
  filter_cos_ = std::move(re);
  filter_sin_ = std::move(im);
}

template <class T>
std::int64_t FftPlan<T>::work(std::int64_t lanes) const {
  return longer_ ? 2 * longer_->size() * lanes + longer_->work(lanes) : 2 * n_ * lanes;
}

template <class T>
void FftPlan<T>::run(T* re, T* im, T* work, std::int64_t lanes) const {
  longer_ ? run_chirp(re, im, work, lanes) : run_stages(re, im, work, lanes);
}

template <class T>
void FftPlan<T>::run_stages(T* re, T* im, T* work, std::int64_t lanes) const {
  Buffers<T> b{re, im, work, work + n_ * lanes, lanes};
  for (const Stage& stage : stages_) {
    if (stage.radix == 4)
      radix_4(b, stage.rest, stage.cos.data(), stage.sin.data());
    else if (stage.radix == 2)
      radix_2(b, stage.rest, stage.cos.data(), stage.sin.data());
    else
      radix_any(b, stage.radix, stage.rest, stage.cos.data(), stage.sin.data(), stage.leg_cos.data(),
                stage.leg_sin.data());
    const bool first = b.re == re;
    b = {b.to_re, b.to_im, first ? re : work, first ? im : work + n_ * lanes, b.stride * stage.radix};
  }
  if (b.re == re) return;
  std::copy(b.re, b.re + n_ * lanes, re);
  std::copy(b.im, b.im + n_ * lanes, im);
}

template <class T>
void FftPlan<T>::run_chirp(T* re, T* im, T* work, std::int64_t lanes) const {
  const std::int64_t m = longer_->size();
  T *long_re = work, *long_im = work + m * lanes, *rest = work + 2 * m * lanes;
  multiply(re, im, chirp_cos_.data(), chirp_sin_.data(), n_, lanes);
  std::copy(re, re + n_ * lanes, long_re);
  std::copy(im, im + n_ * lanes, long_im);
  std::fill(long_re + n_ * lanes, long_re + m * lanes, T{0});
  std::fill(long_im + n_ * lanes, long_im + m * lanes, T{0});
  longer_->run(long_re, long_im, rest, lanes);
  multiply(long_re, long_im, filter_cos_.data(), filter_sin_.data(), m, lanes);
  longer_->run(long_im, long_re, rest, lanes);  // back
  std::copy(long_re, long_re + n_ * lanes, re);
  std::copy(long_im, long_im + n_ * lanes, im);
  multiply(re, im, chirp_cos_.data(), chirp_sin_.data(), n_, lanes);
}

template class FftPlan<float>;
template class FftPlan<double>;

}  // namespace varve::cpu
