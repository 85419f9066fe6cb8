// y[M,N] = the sum of parts[splits][M,N], with what follows it (kernels/epilogue.cuh). N is a multiple of 4; with
// one part of type PART, y may lie where it lies. Many parts are shared by the block's rows of 32 threads, at most
// kRows.
#include "kernels/epilogue.cuh"
#include "matmul/split_k.cuh"

extern "C" __global__ void split_k_sum(const PART* parts, const T* bias, T* y, i64 numbers, i64 n, int splits) {
  begin_kernel();
  constexpr int kRows = 8;
  __shared__ Four<float> others[kRows][32];
  const i64 at = ((i64)blockIdx.x * blockDim.x + threadIdx.x) * 4;
  const int rows = (int)blockDim.y, row = (int)threadIdx.y;
  float sum[4] = {};
  if (at < numbers) {
    const int end = (row + 1) * splits / rows;
    for (int lane = row * splits / rows; lane < end; lane += kAtOnce)
      add_some(sum, end - lane, [&](int next) { return *(const Four<PART>*)(parts + (lane + next) * numbers + at); });
  }
  if (rows > 1) {
    others[row][threadIdx.x] = {{sum[0], sum[1], sum[2], sum[3]}};
    __syncthreads();
    for (int r = 1; r < rows; ++r)
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i] += others[r][threadIdx.x].of[i];
  }
  if (row > 0 || at >= numbers) return;
  Four<T> four;
#pragma unroll
  for (int i = 0; i < 4; ++i) four.of[i] = narrow<T>(finished(sum[i], bias, at % n + i));
  *(Four<T>*)(y + at) = four;
}
