// Copies from any strides to any strides. Before it: T, the piece that is moved at once; UNROLL pieces a thread.
#include "shape/copy_axes.cuh"

struct Arguments {
  const T* from;
  T* to;
  u64 count;
  Axes axes;
};
extern "C" __global__ void __launch_bounds__(256) copy(const __grid_constant__ Arguments g) {
  begin_kernel();
  Index first = (Index)blockIdx.x * (256 * UNROLL) + threadIdx.x;
  T pieces[UNROLL];
  Offset from[UNROLL], to[UNROLL];
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    Index i = first + u * 256;
    if (i >= (Index)g.count) break;
    from[u] = to[u] = 0;
    locate<RANK>(g.axes, i, from[u], to[u]);
    pieces[u] = g.from[from[u]];
  }
#pragma unroll
  for (int u = 0; u < UNROLL; ++u)
    if (first + u * 256 < (Index)g.count) g.to[to[u]] = pieces[u];
}
