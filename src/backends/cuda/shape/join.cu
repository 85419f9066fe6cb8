// Rows of several parts behind each other (concat), or parts to places of their own (barrier), in one launch. Before
// it: T, the piece that is moved at once; Index and Extent; PARTS; UNROLL pieces a thread.
#include "shape/pieces.cuh"

struct Part {
  const T* from;
  T* to;         // of its first row
  u64 count;     // pieces of all rows
  u64 stride;    // from row to row of `to`
  Extent width;  // pieces of a row
};
struct Arguments {
  u32 ends[(PARTS + 1) / 2 * 2];  // blocks of the parts up to this one
  Part parts[PARTS];
};
extern "C" __global__ void __launch_bounds__(256) join(const __grid_constant__ Arguments g) {
  begin_kernel();
  int number = 0;
  for (int many = PARTS; many > 1;) {  // the first part that ends beyond this block
    int half = many / 2;
    if (g.ends[number + half - 1] <= blockIdx.x) {
      number += half;
      many -= half;
    } else {
      many = half;
    }
  }
  const Part& part = g.parts[number];
  u32 block = blockIdx.x - (number > 0 ? g.ends[number - 1] : 0);
  Index first = (Index)block * (256 * UNROLL) + threadIdx.x;
  T pieces[UNROLL];
#pragma unroll
  for (int u = 0; u < UNROLL; ++u)
    if (first + u * 256 < (Index)part.count) pieces[u] = part.from[first + u * 256];
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    Index i = first + u * 256;
    if (i >= (Index)part.count) break;
    Index row = part.width.quotient(i);
    part.to[(u64)row * part.stride + (i - row * part.width.size)] = pieces[u];
  }
}
