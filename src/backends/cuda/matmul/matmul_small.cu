// c[M,N] = a[M,K]·b[K,N] of few numbers and any strides, with a bias for each column where there is one, and without
// what is negative where `relu` says so. Such a product is mostly waiting for memory: blocks of 32 x 32 read much of k
// at a time, and the next of it while they multiply. Sums are taken in the order of k: the same bits at every run.
//   T: of everything
#include "kernels/prelude.cuh"

#include "generated.cuh"

constexpr int kSide = 32, kDeep = 128, kThreads = 256, kLoads = kSide * kDeep / kThreads;
constexpr int kPitch = kDeep + 4;  // four numbers at a time, of eight rows, fall to different banks

struct SmallProduct {
  int m, n, k;
  int a_row, a_col, b_row, b_col, c_row, c_col;
};

// What a thread reads of a part of a matrix, kSide rows and kDeep numbers of each: neighbouring threads along the axis
// that is nearer in memory, every next number kRows rows or kNumbers numbers further. Zeros outside.
struct Side {
  static constexpr int kRows = kThreads / kDeep, kNumbers = kThreads / kSide;
  const T* from;
  float* to;  // in shared memory
  int row, number, rows, numbers;
  int more_rows, more_numbers, from_step, to_step, deep;

  __device__ __forceinline__ Side(const T* x, int first, int rows_, int numbers_, int along, int deep_, float* tile)
      : rows(rows_), numbers(numbers_), deep(deep_) {
    const bool by_numbers = deep <= along;
    const int thread = (int)threadIdx.x;
    row = by_numbers ? thread / kDeep : thread % kSide;
    number = by_numbers ? thread % kDeep : thread / kSide;
    more_rows = by_numbers ? kRows : 0;
    more_numbers = by_numbers ? 0 : kNumbers;
    from_step = more_rows * along + more_numbers * deep;
    to_step = more_rows * kPitch + more_numbers;
    to = tile + row * kPitch + number;
    row += first;
    from = x + row * along + number * deep;
  }
  __device__ __forceinline__ void load(int first, float (&numbers_of)[kLoads]) const {
#pragma unroll
    for (int l = 0; l < kLoads; ++l) {
      const bool inside = row + l * more_rows < rows && first + number + l * more_numbers < numbers;
      numbers_of[l] = inside ? widen<float>(from[first * deep + l * from_step]) : 0.0f;
    }
  }
  __device__ __forceinline__ void store(const float (&numbers_of)[kLoads]) const {
#pragma unroll
    for (int l = 0; l < kLoads; ++l) to[l * to_step] = numbers_of[l];
  }
};

extern "C" __global__ void __launch_bounds__(kThreads)
    matmul_small(const T* a, const T* b, const T* bias, T* c, SmallProduct p, int relu) {
  begin_kernel();
  __shared__ __align__(16) float left[kSide][kPitch], right[kSide][kPitch];
  const int across = (p.n + kSide - 1) / kSide;
  const int first_row = (int)blockIdx.x / across * kSide, first_column = (int)blockIdx.x % across * kSide;
  const Side rows(a, first_row, p.m, p.k, p.a_row, p.a_col, &left[0][0]);
  const Side columns(b, first_column, p.n, p.k, p.b_col, p.b_row, &right[0][0]);
  const int tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16;
  float sums[2][2] = {};
  // What comes next is in flight while what came before is multiplied.
#pragma unroll 1
  for (int first = 0;; first += kDeep) {
    float some[kLoads], others[kLoads];
    if (first < p.k) {
      rows.load(first, some);
      columns.load(first, others);
    }
    const int depth = first > p.k ? p.k - first + kDeep : kDeep;
    if (first > 0)
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
    if (first >= p.k) break;
    __syncthreads();
    rows.store(some);
    columns.store(others);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int row = first_row + ty + 16 * i, column = first_column + tx + 16 * j;
      if (row >= p.m || column >= p.n) continue;
      float sum = sums[i][j] + (bias ? widen<float>(bias[column]) : 0.0f);
      if (relu && sum <= 0.0f) sum = 0.0f;  // NaN stays
      c[row * p.c_row + column * p.c_col] = narrow<T>(sum);
    }
}
