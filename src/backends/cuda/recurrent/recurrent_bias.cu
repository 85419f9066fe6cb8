// The gradient of a bias: parts [rows, columns] that recurrent_backward.cu left, added up in a fixed order.
#include "kernels/prelude.cuh"

#include "generated.cuh"

extern "C" __global__ void __launch_bounds__(1024)
    recurrent_bias(const REAL* parts, int rows, int columns, STORE* bias) {
  begin_kernel();
  __shared__ REAL sums[32][33];
  const int column = (int)blockIdx.x * 32 + (int)threadIdx.x;
  REAL sum = 0;
  if (column < columns)
    for (int row = threadIdx.y; row < rows; row += 32) sum += parts[row * columns + column];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  sum = warp_sum(sums[threadIdx.x][threadIdx.y]);
  const int own = (int)blockIdx.x * 32 + (int)threadIdx.y;
  if (threadIdx.x == 0 && own < columns) bias[own] = narrow<STORE>(sum);
}
