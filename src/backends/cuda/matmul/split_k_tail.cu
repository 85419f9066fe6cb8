// y[M,N] = update(the sum of parts[splits][M,N], the same places of OPERANDS matrices), where update stands before; and
// with COLUMNS the sums of y's columns. N is a multiple of 4, and M at most the block's rows, kRows: a block has kWidth
// columns. With one part of type PART, y may lie where it lies.
#include "matmul/split_k.cuh"

constexpr int kRows = 64, kPacks = 4, kWidth = 4 * kPacks;

struct Operands {
  const T* at[2];
};

extern "C" __global__ void __launch_bounds__(kRows* kPacks)
    split_k_tail(const PART* parts, Operands operands, T* y, T* sums, int m, i64 n, int splits) {
  begin_kernel();
  __shared__ Four<float> all[kRows][kPacks];
  const int pack = (int)threadIdx.x % kPacks, row = (int)threadIdx.x / kPacks;
  const i64 column = (i64)blockIdx.x * kWidth + 4 * pack, at = row * n + column;
  const bool mine = row < m && column < n;
  Four<float> result = {};
  if (mine) {
    Four<T> others[OPERANDS + 1];
#pragma unroll
    for (int o = 0; o < OPERANDS; ++o) others[o] = *(const Four<T>*)(operands.at[o] + at);
    float total[4] = {};
    for (int lane = 0; lane < splits; lane += kAtOnce)
      add_some(total, splits - lane,
               [&](int next) { return *(const Four<PART>*)(parts + (lane + next) * m * n + at); });
    Four<T> stored;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float x[OPERANDS + 1];
#pragma unroll
      for (int o = 0; o < OPERANDS; ++o) x[o] = widen<float>(others[o].of[i]);
      update(total[i], x, nullptr, result.of + i);
      stored.of[i] = narrow<T>(result.of[i]);
    }
    *(Four<T>*)(y + at) = stored;
  }
#if COLUMNS
  all[row][pack] = result;
#pragma unroll
  for (int half = kRows / 2; half > 0; half /= 2) {
    __syncthreads();
    if (row < half)
#pragma unroll
      for (int i = 0; i < 4; ++i) all[row][pack].of[i] += all[row + half][pack].of[i];
  }
  if (row == 0 && column < n) {
    Four<T> stored;
#pragma unroll
    for (int i = 0; i < 4; ++i) stored.of[i] = narrow<T>(all[0][pack].of[i]);
    *(Four<T>*)(sums + column) = stored;
  }
#endif
}
