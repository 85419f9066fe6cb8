// Cholesky, LU with partial pivoting and what it solves, triangular systems. Before it: T, float or double. `work` has
// the memory of each block.
#include "linalg/matrix.cuh"

#include "generated.cuh"

extern "C" __global__ void __launch_bounds__(256)
    cholesky(const T* a, T* l, double* work, i64 n, u64* errors, int text) {
  begin_kernel();
  double* w = work + (i64)blockIdx.x * n * n;
  load(a + (i64)blockIdx.x * n * n, w, n * n);
  for (i64 j = 0; j < n; ++j) {
    const double square = w[j * n + j];
    if (!(square > 0) || !is_finite_value(square)) {  // the same for all threads
      if (threadIdx.x == 0) note(errors, text, (i64)blockIdx.x);
      return;
    }
    const double root = sqrt(square);
    __syncthreads();
    if (threadIdx.x == 0) w[j * n + j] = root;
    // The column, and once more as a row: the upper triangle is free.
    for (i64 i = j + 1 + threadIdx.x; i < n; i += blockDim.x) w[j * n + i] = w[i * n + j] /= root;
    __syncthreads();
    for (i64 i = j + 1 + warp_of(); i < n; i += warps_of()) {
      const double factor = w[i * n + j];
      for (i64 c = j + 1 + lane_of(); c <= i; c += 32) w[i * n + c] -= factor * w[j * n + c];
    }
    __syncthreads();
  }
  T* out = l + (i64)blockIdx.x * n * n;
  for (i64 i = warp_of(); i < n; i += warps_of())
    for (i64 c = lane_of(); c < n; c += 32) out[i * n + c] = (T)(c <= i ? w[i * n + c] : 0.0);
}

// Row j was swapped with row swaps[j]. False: singular.
__device__ __forceinline__ bool factor(double* w, i64* swaps, i64 n) {
  __shared__ double sizes[8];
  __shared__ i64 rows[8];
  bool regular = true;
  for (i64 j = 0; j < n; ++j) {
    double size = -1;
    i64 row = j;
    for (i64 i = j + threadIdx.x; i < n; i += blockDim.x)
      if (fabs(w[i * n + j]) > size) size = fabs(w[i * n + j]), row = i;
    for (int d = 16; d > 0; d /= 2) {
      const double other = __shfl_xor_sync(0xffffffffu, size, d);
      const i64 place = __shfl_xor_sync(0xffffffffu, row, d);
      if (other > size || (other == size && place < row)) size = other, row = place;
    }
    if (lane_of() == 0) sizes[warp_of()] = size, rows[warp_of()] = row;
    __syncthreads();
    for (int warp = 0; warp < warps_of(); ++warp)
      if (sizes[warp] > size || (sizes[warp] == size && rows[warp] < row)) size = sizes[warp], row = rows[warp];
    if (threadIdx.x == 0) swaps[j] = row;
    if (row != j)
      for (i64 c = threadIdx.x; c < n; c += blockDim.x) {
        const double kept = w[j * n + c];
        w[j * n + c] = w[row * n + c];
        w[row * n + c] = kept;
      }
    __syncthreads();
    const double pivot = w[j * n + j];
    if (!(fabs(pivot) > 0) || !is_finite_value(pivot)) {
      regular = false;
      continue;
    }
    for (i64 i = j + 1 + threadIdx.x; i < n; i += blockDim.x) w[i * n + j] /= pivot;
    __syncthreads();
    for (i64 i = j + 1 + warp_of(); i < n; i += warps_of()) {
      const double times = w[i * n + j];
      for (i64 c = j + 1 + lane_of(); c < n; c += 32) w[i * n + c] -= times * w[j * n + c];
    }
    __syncthreads();
  }
  return regular;
}

extern "C" __global__ void __launch_bounds__(256)
    solve(const T* a, const T* b, T* x, double* work, i64 n, i64 k, u64* errors, int text) {
  begin_kernel();
  double *w = work + (i64)blockIdx.x * (n * n + n * k + n), *y = w + n * n;
  i64* swaps = (i64*)(y + n * k);
  load(a + (i64)blockIdx.x * n * n, w, n * n);
  load(b + (i64)blockIdx.x * n * k, y, n * k);
  if (!factor(w, swaps, n)) {
    if (threadIdx.x == 0) note(errors, text, (i64)blockIdx.x);
    return;
  }
  for (i64 c = threadIdx.x; c < k; c += blockDim.x)
    for (i64 j = 0; j < n; ++j) {
      const i64 row = swaps[j];
      const double kept = y[j * k + c];
      y[j * k + c] = y[row * k + c];
      y[row * k + c] = kept;
    }
  __syncthreads();
  solve_triangle(w, y, n, k, true, false, true);
  solve_triangle(w, y, n, k, false, false, false);
  store(y, x + (i64)blockIdx.x * n * k, n * k);
}

extern "C" __global__ void __launch_bounds__(256)
    triangular_solve(const T* a, const T* b, T* x, double* work, i64 n, i64 k, int lower, int transpose, int unit,
                     u64* errors, int text) {
  begin_kernel();
  double *w = work + (i64)blockIdx.x * (n * n + n * k), *y = w + n * n;
  load(a + (i64)blockIdx.x * n * n, w, n * n);
  load(b + (i64)blockIdx.x * n * k, y, n * k);
  if (!solve_triangle(w, y, n, k, lower != 0, transpose != 0, unit != 0)) {
    if (threadIdx.x == 0) note(errors, text, (i64)blockIdx.x);
    return;
  }
  store(y, x + (i64)blockIdx.x * n * k, n * k);
}

// det, or with `log`: the sign in its place, and the logarithm of the absolute value.
extern "C" __global__ void __launch_bounds__(256) det(const T* a, T* det, T* log_det, double* work, i64 n) {
  begin_kernel();
  double* w = work + (i64)blockIdx.x * (n * n + n);
  i64* swaps = (i64*)(w + n * n);
  load(a + (i64)blockIdx.x * n * n, w, n * n);
  factor(w, swaps, n);
  __syncthreads();
  if (threadIdx.x != 0) return;
  double sign = 1, product = 1, sum = 0;
  for (i64 j = 0; j < n; ++j) {
    const double pivot = w[j * n + j], parity = swaps[j] != j ? -1 : 1;
    product *= parity * pivot;
    sum += log(fabs(pivot));
    sign *= parity * (pivot < 0 ? -1.0 : pivot > 0 ? 1.0 : pivot);
  }
  det[blockIdx.x] = (T)((log_det ? sign : product) + 0.0);
  if (log_det) log_det[blockIdx.x] = (T)sum;
}
