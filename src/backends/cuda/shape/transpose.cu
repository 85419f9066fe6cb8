// The fast axis of one side is a slow one of the other: squares of TILE by TILE go through shared memory, so that both
// sides are touched along their fast axis. The last two axes are the source's fast one and the target's.
#include "shape/copy_axes.cuh"

struct Arguments {
  const T* from;
  T* to;
  Extent down, across;  // squares along either
  Axes axes;
};
extern "C" __global__ void __launch_bounds__(256) transpose(const __grid_constant__ Arguments g) {
  begin_kernel();
  __shared__ T square[TILE][TILE + (sizeof(T) < 4 ? 4 / sizeof(T) : 1)];
  constexpr int S = RANK - 2, X = RANK - 1;  // the source's and the target's fast axis
  Index rest = g.across.quotient(blockIdx.x), column = (blockIdx.x - rest * g.across.size) * TILE;
  Index batch = g.down.quotient(rest), row = (rest - batch * g.down.size) * TILE;
  Offset from = 0, to = 0;
  if (RANK > 2) locate<RANK - 2>(g.axes, batch, from, to);
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int x = 0; x < TILE; x += 8)
#pragma unroll
    for (int s = 0; s < TILE; s += 32)
      if (row + s + lane < g.axes.n[S].size && column + x + warp < g.axes.n[X].size)
        square[x + warp][s + lane] = g.from[from + (Offset)(row + s + lane) * (Offset)g.axes.from[S] +
                                            (Offset)(column + x + warp) * (Offset)g.axes.from[X]];
  __syncthreads();
#pragma unroll
  for (int s = 0; s < TILE; s += 8)
#pragma unroll
    for (int x = 0; x < TILE; x += 32)
      if (row + s + warp < g.axes.n[S].size && column + x + lane < g.axes.n[X].size)
        g.to[to + (Offset)(row + s + warp) * (Offset)g.axes.to[S] +
             (Offset)(column + x + lane) * (Offset)g.axes.to[X]] = square[x + lane][s + warp];
}
