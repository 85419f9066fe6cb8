// Jacobi's rotations, in rounds of pairs that touch nothing in common: eigenvalues of symmetric matrices, singular
// values. Before it: T, float or double.
#include "linalg/matrix.cuh"

#include "generated.cuh"

constexpr int kMostSweeps = 60;  // about ten are enough
constexpr double kEpsilon = 2.220446049250313e-16;

// (x, y) = (c·x - s·y, s·x + c·y) by a warp
__device__ __forceinline__ void rotate(double* x, double* y, double c, double s, i64 n) {
  for (i64 i = lane_of(); i < n; i += 32) {
    const double xi = x[i], yi = y[i];
    x[i] = c * xi - s * yi;
    y[i] = s * xi + c * yi;
  }
}

__device__ __forceinline__ double warp_dot(const double* x, const double* y, i64 n) {
  double sum = 0;
  for (i64 i = lane_of(); i < n; i += 32) sum += x[i] * y[i];
  return warp_sum(sum);
}

// How many come before element i; equal ones in their order.
__device__ __forceinline__ i64 rank_of(const double* values, i64 n, i64 i, bool descending) {
  i64 before = 0;
  for (i64 j = 0; j < n; ++j) {
    const bool further = descending ? values[j] > values[i] : values[j] < values[i];
    before += further || (values[j] == values[i] && j < i);
  }
  return before;
}

extern "C" __global__ void __launch_bounds__(256)
    eigh(const T* given, T* values, T* vectors, double* work, i64 n, u64* errors, int text) {
  begin_kernel();
  __shared__ double shared[32];
  __shared__ int rotated;
  const i64 pairs = (n + 1) / 2, rounds = n + n % 2 - 1;
  double *a = work + (i64)blockIdx.x * (2 * n * n + 4 * n + 4), *rows = a + n * n, *cosines = rows + n * n;
  double *sines = cosines + pairs, *diagonal = sines + pairs;
  i64* order = (i64*)(diagonal + n);
  load(given + (i64)blockIdx.x * n * n, a, n * n);
  for (i64 i = warp_of(); i < n; i += warps_of())  // the upper triangle is not read
    for (i64 j = lane_of(); j < i; j += 32) a[j * n + i] = a[i * n + j];
  __syncthreads();
  const double unit = scale_of(a, n * n, shared);
  if (unit == 0) {
    if (threadIdx.x == 0) note(errors, text, (i64)blockIdx.x);
    return;
  }
  double square = 0;
  for (i64 i = threadIdx.x; i < n * n; i += blockDim.x) {
    a[i] /= unit;
    square += a[i] * a[i];
  }
  const double least = kEpsilon * 0.01 * sqrt(whole_sum(square, shared)) / (double)n;
  set_identity(rows, n, n);
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    if (threadIdx.x == 0) rotated = 0;
    __syncthreads();
    for (i64 round = 0; round < rounds; ++round) {
      for (i64 t = threadIdx.x; t < pairs; t += blockDim.x) {
        const Pair pair = pair_of(round, t, n);
        Angle angle = {1, 0};
        if (pair.q < n && fabs(a[pair.p * n + pair.q]) > least) {
          angle = angle_of(a[pair.p * n + pair.p], a[pair.p * n + pair.q], a[pair.q * n + pair.q]);
          rotated = 1;
        }
        cosines[t] = angle.c;
        sines[t] = angle.s;
      }
      __syncthreads();
      for (i64 t = warp_of(); t < pairs; t += warps_of()) {
        const Pair pair = pair_of(round, t, n);
        if (sines[t] == 0) continue;
        rotate(a + pair.p * n, a + pair.q * n, cosines[t], sines[t], n);
        rotate(rows + pair.p * n, rows + pair.q * n, cosines[t], sines[t], n);
      }
      __syncthreads();
      for (i64 i = warp_of(); i < n; i += warps_of())
        for (i64 t = lane_of(); t < pairs; t += 32) {
          if (sines[t] == 0) continue;
          const Pair pair = pair_of(round, t, n);
          double *x = a + i * n + pair.p, *y = a + i * n + pair.q;
          const double xi = *x, yi = *y;
          *x = i == pair.q ? 0 : cosines[t] * xi - sines[t] * yi;
          *y = i == pair.p ? 0 : sines[t] * xi + cosines[t] * yi;
        }
      __syncthreads();
    }
    const bool again = rotated != 0;
    __syncthreads();
    if (!again) break;
  }
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) diagonal[i] = a[i * n + i] * unit;
  __syncthreads();
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
    order[rank_of(diagonal, n, i, false)] = i;
    cosines[i] = sign_of(rows + i * n, n, 1);  // angles are done with, and there are as many as values
  }
  __syncthreads();
  for (i64 j = threadIdx.x; j < n; j += blockDim.x) values[(i64)blockIdx.x * n + j] = (T)diagonal[order[j]];
  for (i64 i = warp_of(); i < n; i += warps_of())
    for (i64 j = lane_of(); j < n; j += 32)
      vectors[((i64)blockIdx.x * n + i) * n + j] = (T)(cosines[order[j]] * rows[order[j] * n + i]);
}

// A unit vector orthogonal to the rows before it: the first axis with enough left of it.
__device__ __forceinline__ void complete(double* rows, i64 row, i64 size, double* shared) {
  double* x = rows + row * size;
  const double enough = 0.5 * (double)(size - row) / (double)size;
  for (i64 axis = 0; axis < size; ++axis) {
    for (i64 i = threadIdx.x; i < size; i += blockDim.x) x[i] = i == axis ? 1 : 0;
    for (int again = 0; again < 2; ++again)
      for (i64 other = 0; other < row; ++other) {
        double sum = 0;
        for (i64 i = threadIdx.x; i < size; i += blockDim.x) sum += x[i] * rows[other * size + i];
        sum = whole_sum(sum, shared);
        for (i64 i = threadIdx.x; i < size; i += blockDim.x) x[i] -= sum * rows[other * size + i];
      }
    double square = 0;
    for (i64 i = threadIdx.x; i < size; i += blockDim.x) square += x[i] * x[i];
    square = whole_sum(square, shared);
    if (square < enough && axis + 1 < size) continue;
    for (i64 i = threadIdx.x; i < size; i += blockDim.x) x[i] /= sqrt(square);
    __syncthreads();
    return;
  }
}

// One-sided: rotates the `least` long vectors of the matrix (its rows, or its columns) until they are orthogonal.
extern "C" __global__ void __launch_bounds__(256)
    svd(const T* given, T* u, T* s, T* vt, double* work, i64 m, i64 n, u64* errors, int text) {
  begin_kernel();
  __shared__ double shared[32];
  __shared__ int rotated;
  const bool wide = m < n;
  const i64 least = wide ? m : n, most = wide ? n : m, pairs = (least + 1) / 2, rounds = least + least % 2 - 1;
  double *sorted = work + (i64)blockIdx.x * (2 * m * n + least * least + 3 * least), *longs = sorted + m * n;
  double *shorts = longs + m * n, *lengths = shorts + least * least, *signs = lengths + least;
  i64* order = (i64*)(signs + least);
  load(given + (i64)blockIdx.x * m * n, sorted, m * n);
  const double unit = scale_of(sorted, m * n, shared);
  if (unit == 0) {
    if (threadIdx.x == 0) note(errors, text, (i64)blockIdx.x);
    return;
  }
  double square = 0;
  for (i64 i = warp_of(); i < least; i += warps_of())
    for (i64 j = lane_of(); j < most; j += 32) {
      const double x = (wide ? sorted[i * n + j] : sorted[j * n + i]) / unit;
      longs[i * most + j] = x;
      square += x * x;
    }
  const double noise = kEpsilon * kEpsilon * whole_sum(square, shared), small = kEpsilon * sqrt((double)most);
  set_identity(shorts, least, least);
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    if (threadIdx.x == 0) rotated = 0;
    __syncthreads();
    for (i64 round = 0; round < rounds; ++round) {
      for (i64 t = warp_of(); t < pairs; t += warps_of()) {
        const Pair pair = pair_of(round, t, least);
        if (pair.q >= least) continue;
        double *x = longs + pair.p * most, *y = longs + pair.q * most;
        const double xx = warp_dot(x, x, most), yy = warp_dot(y, y, most), xy = warp_dot(x, y, most);
        if (fabs(xy) <= small * sqrt(xx) * sqrt(yy) || (xx < yy ? xx : yy) <= noise * 1e-4) continue;
        if (lane_of() == 0) rotated = 1;
        const Angle angle = angle_of(xx, xy, yy);
        rotate(x, y, angle.c, angle.s, most);
        rotate(shorts + pair.p * least, shorts + pair.q * least, angle.c, angle.s, least);
      }
      __syncthreads();
    }
    const bool again = rotated != 0;
    __syncthreads();
    if (!again) break;
  }
  for (i64 i = warp_of(); i < least; i += warps_of()) {
    const double length = sqrt(warp_dot(longs + i * most, longs + i * most, most));
    if (lane_of() == 0) lengths[i] = length;
  }
  __syncthreads();
  for (i64 i = threadIdx.x; i < least; i += blockDim.x) order[rank_of(lengths, least, i, true)] = i;
  __syncthreads();
  for (i64 i = warp_of(); i < least; i += warps_of()) {
    const double length = lengths[order[i]];
    if (length * length > noise)
      for (i64 j = lane_of(); j < most; j += 32) sorted[i * most + j] = longs[order[i] * most + j] / length;
  }
  __syncthreads();
  for (i64 i = 0; i < least; ++i)
    if (!(lengths[order[i]] * lengths[order[i]] > noise)) complete(sorted, i, most, shared);
  for (i64 i = threadIdx.x; i < least; i += blockDim.x) {
    signs[i] = wide ? sign_of(shorts + order[i] * least, least, 1) : sign_of(sorted + i * most, most, 1);
    s[(i64)blockIdx.x * least + i] = (T)(lengths[order[i]] * unit);
  }
  __syncthreads();
  for (i64 i = warp_of(); i < least; i += warps_of()) {
    for (i64 j = lane_of(); j < m; j += 32)
      u[((i64)blockIdx.x * m + j) * least + i] =
          (T)(signs[i] * (wide ? shorts[order[i] * least + j] : sorted[i * most + j]));
    for (i64 j = lane_of(); j < n; j += 32)
      vt[((i64)blockIdx.x * least + i) * n + j] =
          (T)(signs[i] * (wide ? sorted[i * most + j] : shorts[order[i] * least + j]));
  }
}
