// Fourier transforms of several signals at a time, whose points lie side by side: SIMD lanes are signals. Prepared for
// one length; real and imaginary parts lie apart.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace varve::cpu {

template <class T>
class FftPlan {
 public:
  explicit FftPlan(std::int64_t n);

  std::int64_t size() const { return n_; }
  // Numbers of T that a call needs beside the signals, of so many signals.
  std::int64_t work(std::int64_t lanes) const;
  // Point i of signal l lies at i · lanes + l and is replaced by frequency i. The inverse transform, without its
  // factor, is the same with re and im exchanged.
  void run(T* re, T* im, T* work, std::int64_t lanes) const;

 private:
  struct Stage {
    std::int64_t radix, rest;         // n = radix · rest at this stage
    std::vector<T> cos, sin;          // of point p and leg j: p · (radix - 1) + j - 1
    std::vector<T> leg_cos, leg_sin;  // the transform of `radix` points, where it has no code of its own
  };
  void run_stages(T* re, T* im, T* work, std::int64_t lanes) const;
  void run_chirp(T* re, T* im, T* work, std::int64_t lanes) const;

  std::int64_t n_;
  std::vector<Stage> stages_;
  // Of a length with a large prime factor: a convolution with a chirp, by transforms of a longer length.
  std::unique_ptr<FftPlan> longer_;
  std::vector<T> chirp_cos_, chirp_sin_, filter_cos_, filter_sin_;
};

extern template class FftPlan<float>;
extern template class FftPlan<double>;

}  // namespace varve::cpu
