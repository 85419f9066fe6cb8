// Axes of a copy, outermost first. Before it: RANK of them; Index, Offset and Extent.
#pragma once

#include "shape/pieces.cuh"

struct Axes {
  Extent n[RANK];
  i64 from[RANK], to[RANK];
};
// Adds where piece number `i` of the first `rank` axes lies on either side.
template <int rank>
__device__ __forceinline__ void locate(const Axes& axes, Index i, Offset& from, Offset& to) {
#pragma unroll
  for (int a = rank - 1; a >= 0; --a) {
    Index q = a > 0 ? axes.n[a].quotient(i) : 0, c = a > 0 ? i - q * axes.n[a].size : i;
    from += (Offset)c * (Offset)axes.from[a];
    to += (Offset)c * (Offset)axes.to[a];
    i = q;
  }
}
