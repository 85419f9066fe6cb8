// Running sums along an axis, in double, or in integers that wrap. Before it: T, the stored type; U, that of the
// results; W: double or i64.
#include "kernels/convert.cuh"
#include "kernels/formula.cuh"

#include "generated.cuh"

// Rows that lie together: a block for each, chunk after chunk.
extern "C" __global__ void __launch_bounds__(256) cumsum_rows(const T* x, U* out, i64 size) {
  begin_kernel();
  constexpr int kEach = 4;
  __shared__ W warps[8];
  x += (i64)blockIdx.x * size;
  out += (i64)blockIdx.x * size;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  W before = 0;
  for (i64 chunk = 0; chunk < size; chunk += 256 * kEach) {
    i64 first = chunk + threadIdx.x * kEach;
    W sums[kEach], total = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      total = p_add(total, first + i < size ? read<W>(x[first + i]) : (W)0);
      sums[i] = total;
    }
    W sum = total;  // of this thread and those before it in the warp
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      W other = __shfl_up_sync(0xffffffffu, sum, d);
      if (lane >= d) sum = p_add(other, sum);
    }
    if (lane == 31) warps[warp] = sum;
    __syncthreads();
    W base = before;
    for (int w = 0; w < 8; ++w) {
      if (w < warp) base = p_add(base, warps[w]);
      before = p_add(before, warps[w]);
    }
    W earlier = __shfl_up_sync(0xffffffffu, sum, 1);
    if (lane > 0) base = p_add(base, earlier);
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (first + i < size) out[first + i] = write<U>(p_add(base, sums[i]));
    __syncthreads();
  }
}

// Across an inner axis: a thread for each column.
extern "C" __global__ void __launch_bounds__(256) cumsum_columns(const T* x, U* out, i64 outer, i64 size, i64 inner) {
  begin_kernel();
  i64 column = (i64)blockIdx.x * 256 + threadIdx.x;
  if (column >= outer * inner) return;
  i64 o = column / inner, at = o * size * inner + (column - o * inner);
  W total = 0;
#pragma unroll 4
  for (i64 k = 0; k < size; ++k, at += inner) {
    total = p_add(total, read<W>(x[at]));
    out[at] = write<U>(total);
  }
}
