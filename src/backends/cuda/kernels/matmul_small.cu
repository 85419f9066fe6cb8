// c[M,N] = a[M,K]·b[K,N] of few numbers and any strides, with a bias for each column where there is one, and without
// what is negative where `relu` says so. Such a product is mostly waiting for memory: blocks of 32 x 32 read much of k
// at a time, and the next of it while they multiply. Sums are taken in the order of k: the same bits at every run.
//   T: of everything

constexpr int kSide = 32, kDeep = 128, kThreads = 256, kLoads = kSide * kDeep / kThreads;
constexpr int kPitch = kDeep + 4;  // four numbers at a time, of eight rows, fall to different banks

struct SmallProduct {
  i64 m, n, k;
  i64 a_row, a_col, b_row, b_col, c_row, c_col;
};

// Part of a matrix: `side` rows from `first` on, numbers from k0 on of each, zeros outside. Neighbouring threads read
// along the axis that is nearer in memory.
struct Side {
  const T* x;
  i64 row, deep, rows, depth, first;
  bool along;  // k is the nearer axis
  __device__ __forceinline__ int row_of(int load) const {
    const int at = load * kThreads + (int)threadIdx.x;
    return along ? at / kDeep : at % kSide;
  }
  __device__ __forceinline__ int k_of(int load) const {
    const int at = load * kThreads + (int)threadIdx.x;
    return along ? at % kDeep : at / kSide;
  }
  __device__ __forceinline__ void load(i64 k0, float (&to)[kLoads]) const {
#pragma unroll
    for (int l = 0; l < kLoads; ++l) {
      const i64 i = first + row_of(l), k = k0 + k_of(l);
      to[l] = i < rows && k < depth ? widen<float>(x[i * row + k * deep]) : 0.0f;
    }
  }
  __device__ __forceinline__ void store(const float (&from)[kLoads], float (*to)[kPitch]) const {
#pragma unroll
    for (int l = 0; l < kLoads; ++l) to[row_of(l)][k_of(l)] = from[l];
  }
};

extern "C" __global__ void __launch_bounds__(kThreads)
    matmul_small(const T* a, const T* b, const T* bias, T* c, SmallProduct p, int relu) {
  begin_kernel();
  __shared__ __align__(16) float left[kSide][kPitch], right[kSide][kPitch];
  const i64 across = (p.n + kSide - 1) / kSide;
  const Side rows{a, p.a_row, p.a_col, p.m, p.k, (i64)blockIdx.x / across * kSide, p.a_col <= p.a_row};
  const Side columns{b, p.b_col, p.b_row, p.n, p.k, (i64)blockIdx.x % across * kSide, p.b_row <= p.b_col};
  float some[kLoads], others[kLoads];
  rows.load(0, some);
  columns.load(0, others);
  const int tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16;
  float sums[2][2] = {};
  for (i64 k0 = 0; k0 < p.k; k0 += kDeep) {
    rows.store(some, left);
    columns.store(others, right);
    __syncthreads();
    if (k0 + kDeep < p.k) {
      rows.load(k0 + kDeep, some);
      columns.load(k0 + kDeep, others);
    }
    const int depth = p.k - k0 < kDeep ? (int)(p.k - k0) : kDeep;
#pragma unroll 4
    for (int k = 0; k < depth; k += 4) {
      float4 x[2], y[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        x[i] = *(const float4*)&left[ty + 16 * i][k];
        y[i] = *(const float4*)&right[tx + 16 * i][k];
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          sums[i][j] += x[i].x * y[j].x;
          sums[i][j] += x[i].y * y[j].y;
          sums[i][j] += x[i].z * y[j].z;
          sums[i][j] += x[i].w * y[j].w;
        }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const i64 row = rows.first + ty + 16 * i, column = columns.first + tx + 16 * j;
      if (row >= p.m || column >= p.n) continue;
      float sum = sums[i][j] + (bias ? widen<float>(bias[column]) : 0.0f);
      if (relu && sum <= 0.0f) sum = 0.0f;  // NaN stays
      c[row * p.c_row + column * p.c_col] = narrow<T>(sum);
    }
}
