// Blocks that share a result leave their parts in memory and count themselves; the last one puts the parts together, in
// an order that does not depend on which that is. The counter is 0 again afterwards. All threads of the block call it.
#pragma once

#include "kernels/prelude.cuh"

__device__ __forceinline__ bool is_last_block(u32* counter, u32 blocks) {
  __shared__ u32 last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(counter, 1u) == blocks - 1;
    if (last) *counter = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last != 0;
}
