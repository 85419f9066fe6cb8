// rows[number] = from, whose elements of UNIT are copied as they are.
#include "kernels/prelude.cuh"

#include "generated.cuh"

extern "C" __global__ void copy_row(void* rows, const void* from, i64 units, const i64* number) {
  begin_kernel();
  UNIT* to = (UNIT*)rows + *number * units;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < units; i += (i64)gridDim.x * blockDim.x)
    to[i] = ((const UNIT*)from)[i];
}
