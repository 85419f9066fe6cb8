// Weights [O, taps, I] transposed to [I, taps, O], the last tap first: with them the gradient of a convolution's input
// is a convolution of dy. Squares go through shared memory, so that both sides are touched along their last axis.
//
// T: bits of the stored type.
#include "kernels/prelude.cuh"

#include "generated.cuh"

const int kSide = 32;

extern "C" __global__ void __launch_bounds__(256)
    conv_transposed(const T* from, T* to, i64 outs, i64 taps, i64 ins, i64 out_squares, i64 in_squares) {
  begin_kernel();
  __shared__ T square[kSide][kSide + (sizeof(T) < 4 ? 4 / sizeof(T) : 1)];
  i64 rest = blockIdx.x / in_squares, tap = rest / out_squares;
  i64 in = (blockIdx.x - rest * in_squares) * kSide, out = (rest - tap * out_squares) * kSide;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int o = warp; o < kSide; o += 8)
    if (out + o < outs && in + lane < ins) square[o][lane] = from[((out + o) * taps + tap) * ins + in + lane];
  __syncthreads();
#pragma unroll
  for (int i = warp; i < kSide; i += 8)
    if (in + i < ins && out + lane < outs) to[((in + i) * taps + taps - 1 - tap) * outs + out + lane] = square[lane][i];
}
