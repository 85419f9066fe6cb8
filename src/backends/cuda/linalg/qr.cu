// Householder's QR: reflections 1 - tau·v·vᵀ with v = (1, …) kept below the diagonal. Before it: T, float or double.
#include "linalg/matrix.cuh"

#include "generated.cuh"

// Rows j.. of x less tau·v·(vᵀ·x), with v from column j of a; a thread for each column of x.
__device__ __forceinline__ void reflect(const double* a, i64 m, i64 n, i64 j, double tau, double* x, i64 stride,
                                        i64 columns) {
  for (i64 c = threadIdx.x; c < columns; c += blockDim.x) {
    double sum = x[j * stride + c];
    for (i64 i = j + 1; i < m; ++i) sum += a[i * n + j] * x[i * stride + c];
    sum *= tau;
    x[j * stride + c] -= sum;
    for (i64 i = j + 1; i < m; ++i) x[i * stride + c] -= sum * a[i * n + j];
  }
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(256) qr(const T* given, T* q_out, T* r_out, double* work, i64 m, i64 n) {
  begin_kernel();
  __shared__ double shared[32];
  const i64 k = m < n ? m : n;
  double *a = work + (i64)blockIdx.x * (m * n + m * k + k), *q = a + m * n, *taus = q + m * k;
  load(given + (i64)blockIdx.x * m * n, a, m * n);
  for (i64 j = 0; j < k; ++j) {
    const double alpha = a[j * n + j];
    double below = 0;
    for (i64 i = j + 1 + threadIdx.x; i < m; i += blockDim.x) {
      const double size = fabs(a[i * n + j]);
      below = size > below || size != size ? size : below;
    }
    below = whole_max(below, shared);
    if (below == 0) {
      if (threadIdx.x == 0) taus[j] = 0;
      __syncthreads();
      continue;
    }
    const double largest = fabs(alpha) > below ? fabs(alpha) : below;
    double square = 0;
    for (i64 i = j + threadIdx.x; i < m; i += blockDim.x) square += (a[i * n + j] / largest) * (a[i * n + j] / largest);
    const double length = largest * sqrt(whole_sum(square, shared)), beta = alpha < 0 ? length : -length;
    const double tau = (beta - alpha) / beta;
    for (i64 i = j + 1 + threadIdx.x; i < m; i += blockDim.x) a[i * n + j] /= alpha - beta;
    if (threadIdx.x == 0) a[j * n + j] = beta, taus[j] = tau;
    __syncthreads();
    reflect(a, m, n, j, tau, a + j + 1, n, n - j - 1);
  }
  set_identity(q, m, k);
  for (i64 j = k - 1; j >= 0; --j) reflect(a, m, n, j, taus[j], q + j, k, k - j);
  // A diagonal of r that is not negative.
  T *to_q = q_out + (i64)blockIdx.x * m * k, *to_r = r_out + (i64)blockIdx.x * k * n;
  for (i64 i = warp_of(); i < m; i += warps_of())
    for (i64 j = lane_of(); j < k; j += 32) to_q[i * k + j] = (T)(a[j * n + j] < 0 ? -q[i * k + j] : q[i * k + j]);
  for (i64 i = warp_of(); i < k; i += warps_of())
    for (i64 j = lane_of(); j < n; j += 32)
      to_r[i * n + j] = (T)(j < i ? 0.0 : a[i * n + i] < 0 ? -a[i * n + j] : a[i * n + j]);
}
