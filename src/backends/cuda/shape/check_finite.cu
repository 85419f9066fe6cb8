// Copies, and notes the place of the first element whose exponent has every bit set. Before it: T, an unsigned integer
// of the element's size; EXPONENT.
#include "kernels/last_block.cuh"

#include "generated.cuh"

extern "C" __global__ void __launch_bounds__(256)
    check_finite(const T* x, T* out, i64 count, i64 share, u64* firsts, u32* counter, u64* errors, int text) {
  begin_kernel();
  __shared__ u64 least[256];
  i64 begin = (i64)blockIdx.x * share, end = begin + share < count ? begin + share : count;
  u64 first = ~0ull;
  for (i64 i = begin + threadIdx.x; i < end; i += 256) {
    T bits = x[i];
    if ((bits & (T)EXPONENT) == (T)EXPONENT && first == ~0ull) first = (u64)i;
    if (out != x) out[i] = bits;
  }
  auto fold = [&](u64 mine) {
    least[threadIdx.x] = mine;
    for (int half = 128; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.x < half && least[threadIdx.x + half] < least[threadIdx.x])
        least[threadIdx.x] = least[threadIdx.x + half];
    }
    __syncthreads();
    return least[0];
  };
  u64 found = fold(first);
  if (threadIdx.x == 0) firsts[blockIdx.x] = found;
  if (!is_last_block(counter, gridDim.x)) return;
  first = ~0ull;
  for (u32 block = threadIdx.x; block < gridDim.x; block += 256) {
    u64 other = ((const volatile u64*)firsts)[block];
    first = other < first ? other : first;
  }
  found = fold(first);
  if (threadIdx.x == 0 && found != ~0ull) note(errors, text, (i64)found);
}
