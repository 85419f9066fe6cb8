// pad and unslice: x in a window of a larger tensor, a value elsewhere. Before it: T, the piece that is moved at once;
// Index and Extent; RANK axes, outermost first; UNROLL pieces a thread.
#include "shape/pieces.cuh"

struct Window {
  Extent out;           // size of the axis in the output
  Extent step;          // from element to element of x, at least 1
  i64 begin, backward;  // where the first element goes; the others lie before it
  i64 in, stride;       // elements of x, and from each to the next
  i64 first;            // where they begin
};
struct Arguments {
  const T* from;
  T* to;
  u64 count;
  T value;
  Window axes[RANK];
};
// The piece of x that lands at position i of the output, or -1.
__device__ __forceinline__ i64 source(const Arguments& g, Index i) {
  i64 from = 0;
  bool inside = true;
#pragma unroll
  for (int a = RANK - 1; a >= 0; --a) {
    const Window& axis = g.axes[a];
    Index q = a > 0 ? axis.out.quotient(i) : 0, c = a > 0 ? i - q * axis.out.size : i;
    i = q;
    i64 d = axis.backward ? axis.begin - (i64)c : (i64)c - axis.begin;
    Index k = axis.step.quotient((Index)(d < 0 ? 0 : d));
    inside = inside && d >= 0 && (i64)k * (i64)axis.step.size == d && (i64)k < axis.in;
    from += axis.first + (i64)k * axis.stride;
  }
  return inside ? from : -1;
}
extern "C" __global__ void __launch_bounds__(256) place(const __grid_constant__ Arguments g) {
  begin_kernel();
  Index first = (Index)blockIdx.x * (256 * UNROLL) + threadIdx.x;
  T pieces[UNROLL];
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    Index i = first + u * 256;
    if (i >= (Index)g.count) break;
    i64 from = source(g, i);
    pieces[u] = from < 0 ? g.value : g.from[from];
  }
#pragma unroll
  for (int u = 0; u < UNROLL; ++u)
    if (first + u * 256 < (Index)g.count) g.to[first + u * 256] = pieces[u];
}
