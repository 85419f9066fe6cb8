// Gives a truth value to a conditional node of the graph that this runs in. The driver supplies the function.
#include "kernels/prelude.cuh"

#include "generated.cuh"

#ifndef VARVE_EMULATED
extern "C" __device__ void cudaGraphSetConditional(u64 handle, unsigned int value);
#endif

extern "C" __global__ void set_condition(u64 handle, const unsigned char* predicate) {
  begin_kernel();
  cudaGraphSetConditional(handle, *predicate != 0 ? 1u : 0u);
}
