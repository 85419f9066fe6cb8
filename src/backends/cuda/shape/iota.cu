// start + i · step. Before it: T, the stored type; NUMBER: i64, which wraps, or double.
#include "kernels/convert.cuh"

#include "generated.cuh"

extern "C" __global__ void __launch_bounds__(256) iota(T* out, i64 count, NUMBER start, NUMBER step) {
  begin_kernel();
  i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
  if (i >= count) return;
    // Rounded twice, as on the processor: a fused sum would give other last digits.
#ifdef WHOLE
  out[i] = write<T>((i64)((u64)start + (u64)i * (u64)step));
#else
  out[i] = write<T>(__dadd_rn(start, __dmul_rn((double)i, step)));
#endif
}
