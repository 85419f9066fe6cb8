// Where a thread stands in its grid, barriers, and the calls that reach the driver.
#pragma once

#include "types.h"

static thread_local EmuBlock* emu_block;

#define threadIdx (emu_block->thread)
#define blockIdx (emu_block->block)
#define blockDim (emu_block->block_size)
#define gridDim (emu_block->grid_size)
constexpr int warpSize = 32;

inline void* emu_dynamic_shared() { return emu_block->dynamic_shared; }

// The order in which fibers resume is the driver's: memory seen before a barrier must be read again after it.
inline EmuBarrierResult emu_barrier(int predicate) { return emu_block->runtime->barrier(emu_block, predicate); }
inline void __syncthreads() { emu_barrier(0); }
inline int __syncthreads_count(int predicate) { return emu_barrier(predicate).nonzero; }
inline int __syncthreads_or(int predicate) { return emu_barrier(predicate).nonzero != 0; }
inline int __syncthreads_and(int predicate) {
  EmuBarrierResult result = emu_barrier(predicate);
  return result.nonzero == result.arrived;
}

// Kernels run one after another here; that it waits is what counts.
inline void emu_wait_for_earlier() { emu_block->waited_for_earlier = 1; }

inline void emu_pause() { emu_block->runtime->pause(emu_block); }
// Called by every access that a waiting loop may be made of; only now and then does it cost a switch.
inline void emu_poll() {
  if (++emu_block->polls >= emu_block->polls_per_pause) {
    emu_block->polls = 0;
    emu_pause();
  }
}
inline void __nanosleep(unsigned) { emu_pause(); }
inline long long clock64() { return static_cast<long long>(__builtin_ia32_rdtsc()); }
inline unsigned long long __globaltimer() { return __builtin_ia32_rdtsc(); }

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

// The handle is where the value lies.
extern "C" inline void cudaGraphSetConditional(unsigned long long handle, unsigned value) {
  *reinterpret_cast<unsigned*>(handle) = value;
}

#define __trap() emu_block->runtime->assertion_failed(emu_block, "__trap()", __FILE__, __LINE__)
#ifdef NDEBUG
#define assert(...) static_cast<void>(0)
#else
#define assert(...) \
  ((__VA_ARGS__) ? (void)0 : emu_block->runtime->assertion_failed(emu_block, #__VA_ARGS__, __FILE__, __LINE__))
#endif

extern "C" int printf(const char*, ...);
extern "C" void* memcpy(void*, const void*, size_t) noexcept;
extern "C" void* memset(void*, int, size_t) noexcept;
