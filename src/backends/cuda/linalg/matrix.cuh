// What the kernels of linear algebra share. A block has a matrix of the batch and computes in double, in memory of its
// own; warps take rows, lanes go along them.
#pragma once

#include "kernels/prelude.cuh"

__device__ __forceinline__ int warp_of() { return threadIdx.x / 32; }
__device__ __forceinline__ int lane_of() { return threadIdx.x % 32; }
__device__ __forceinline__ int warps_of() { return blockDim.x / 32; }
__device__ __forceinline__ bool is_finite_value(double x) { return x - x == 0; }

// For all threads: a block's sum, or maximum, after which `shared` may be used again.
__device__ __forceinline__ double whole_sum(double x, double* shared) {
  const double sum = block_sum(x, shared);
  __syncthreads();
  return sum;
}
__device__ __forceinline__ double whole_max(double x, double* shared) {
  const double most = block_max(x, shared);
  __syncthreads();
  return most;
}

template <class T>
__device__ __forceinline__ void load(const T* from, double* to, i64 count) {
  for (i64 i = threadIdx.x; i < count; i += blockDim.x) to[i] = (double)from[i];
  __syncthreads();
}
template <class T>
__device__ __forceinline__ void store(const double* from, T* to, i64 count) {
  for (i64 i = threadIdx.x; i < count; i += blockDim.x) to[i] = (T)from[i];
}

__device__ __forceinline__ void set_identity(double* a, i64 rows, i64 columns) {
  for (i64 i = warp_of(); i < rows; i += warps_of())
    for (i64 j = lane_of(); j < columns; j += 32) a[i * columns + j] = i == j ? 1 : 0;
  __syncthreads();
}

// The power of two near the largest magnitude; 0 when a value is not finite.
__device__ __forceinline__ double scale_of(const double* a, i64 count, double* shared) {
  double largest = 0, bad = 0;
  for (i64 i = threadIdx.x; i < count; i += blockDim.x) {
    largest = fabs(a[i]) > largest ? fabs(a[i]) : largest;
    if (!is_finite_value(a[i])) bad = 1;
  }
  largest = whole_max(largest, shared);
  if (whole_max(bad, shared) != 0) return 0;
  if (largest == 0) return 1;
  u64 bits = (u64)__double_as_longlong(largest) & 0x7ff0000000000000ull;
  if (bits < 0x0010000000000000ull) bits = 0x0010000000000000ull;
  return __longlong_as_double((i64)bits);
}

struct Angle {
  double c, s;
};
// The rotation that makes [app, apq; apq, aqq] diagonal.
__device__ __forceinline__ Angle angle_of(double app, double apq, double aqq) {
  const double zeta = (aqq - app) / (2 * apq);
  const double t = (zeta < 0 ? -1.0 : 1.0) / (fabs(zeta) + sqrt(1 + zeta * zeta));
  const double c = 1 / sqrt(1 + t * t);
  return {c, c * t};
}

// Pair `t` of a round in which each of n meets one other: after n - 1 rounds (n when odd) each has met all. q ≥ n:
// rests.
struct Pair {
  i64 p, q;
};
__device__ __forceinline__ Pair pair_of(i64 round, i64 t, i64 n) {
  const i64 even = n + n % 2, ring = even - 1;
  const i64 a = t == 0 ? ring : (round + t) % ring, b = (round + ring - t) % ring;
  return {a < b ? a : b, a < b ? b : a};
}

// The sign that makes the first entry of at least 0.9 times the largest magnitude positive.
__device__ __forceinline__ double sign_of(const double* x, i64 size, i64 stride) {
  double largest = 0;
  for (i64 i = 0; i < size; ++i) largest = fabs(x[i * stride]) > largest ? fabs(x[i * stride]) : largest;
  for (i64 i = 0; i < size; ++i)
    if (fabs(x[i * stride]) >= 0.9 * largest) return x[i * stride] < 0 ? -1.0 : 1.0;
  return 1;
}

// b [n, k] becomes the solution of a triangular system; false: a 0 on the diagonal.
__device__ __forceinline__ bool solve_triangle(const double* a, double* b, i64 n, i64 k, bool lower, bool transpose,
                                               bool unit) {
  const bool downwards = lower != transpose;
  for (i64 step = 0; step < n; ++step) {
    const i64 j = downwards ? step : n - 1 - step;
    if (!unit) {
      const double pivot = a[j * n + j];
      if (pivot == 0) return false;
      for (i64 c = threadIdx.x; c < k; c += blockDim.x) b[j * k + c] /= pivot;
      __syncthreads();
    }
    const i64 first = downwards ? j + 1 : 0, rows = downwards ? n - j - 1 : j;
    for (i64 at = threadIdx.x; at < rows * k; at += blockDim.x) {
      const i64 i = first + at / k, c = at % k;
      b[i * k + c] -= (transpose ? a[j * n + i] : a[i * n + j]) * b[j * k + c];
    }
    __syncthreads();
  }
  return true;
}
