// Copies of 16 bytes to shared memory that are in flight while the thread goes on, in groups.
#pragma once

#include "kernels/prelude.cuh"

#ifdef VARVE_EMULATED
__device__ __forceinline__ void copy_piece(void* shared, const void* global) { emu_cp_async16(shared, global); }
__device__ __forceinline__ void copy_piece(void* shared, const void* global, bool inside) {
  if (inside)
    emu_cp_async16(shared, global);
  else
    *(uint4*)shared = make_uint4(0, 0, 0, 0);
}
__device__ __forceinline__ void end_copies() {}
template <int left = 0>
__device__ __forceinline__ void wait_for_copies() {}
#else
__device__ __forceinline__ u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }
__device__ __forceinline__ void copy_piece(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global) : "memory");
}
// Or zeros.
__device__ __forceinline__ void copy_piece(void* shared, const void* global, bool inside) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global),
               "r"(inside ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// All but the last `left` groups of them.
template <int left = 0>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}
#endif
