// Atomics and the loads and stores that name a cache. Blocks of a cooperative launch run on OS threads of their own, so
// these are real atomic operations.
#pragma once

#include "runtime.h"

template <class T, class F>
inline T emu_update(T* address, F change) {
  emu_poll();
  T old;
  __atomic_load(address, &old, __ATOMIC_SEQ_CST);
  for (;;) {
    T next = change(old);
    if (__atomic_compare_exchange(address, &old, &next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return old;
  }
}
template <class T>
constexpr bool emu_atomic_integer = emu_one_of<T, int, unsigned, unsigned long long>;
template <class T>
constexpr bool emu_atomic_wide = emu_one_of<T, int, unsigned, unsigned long long, long long>;

// The types each function takes are CUDA's, so that what compiles here compiles there.
#define EMU_ATOMIC(name, allowed, change)                                                                 \
  template <class T>                                                                                      \
  requires(allowed) inline T name(T* address, emu_same<T> value) {                                        \
    return emu_update(address, [=](T old) -> T { return change; });                                       \
  }                                                                                                       \
  template <class T>                                                                                      \
  requires(allowed) inline T name##_block(T* address, emu_same<T> value) { return name(address, value); } \
  template <class T>                                                                                      \
  requires(allowed) inline T name##_system(T* address, emu_same<T> value) { return name(address, value); }
EMU_ATOMIC(atomicAdd, (emu_atomic_integer<T> || emu_one_of<T, float, double>), old + value)
EMU_ATOMIC(atomicSub, (emu_one_of<T, int, unsigned>), old - value)
EMU_ATOMIC(atomicExch, (emu_atomic_integer<T> || emu_one_of<T, float>), (static_cast<void>(old), value))
EMU_ATOMIC(atomicMin, (emu_atomic_wide<T>), value < old ? value : old)
EMU_ATOMIC(atomicMax, (emu_atomic_wide<T>), old < value ? value : old)
EMU_ATOMIC(atomicAnd, (emu_atomic_integer<T>), old& value)
EMU_ATOMIC(atomicOr, (emu_atomic_integer<T>), old | value)
EMU_ATOMIC(atomicXor, (emu_atomic_integer<T>), old ^ value)
EMU_ATOMIC(atomicInc, (emu_one_of<T, unsigned>), old >= value ? 0 : old + 1)
EMU_ATOMIC(atomicDec, (emu_one_of<T, unsigned>), old == 0 || old > value ? value : old - 1)

template <class T>
requires(emu_atomic_integer<T> || emu_one_of<T, unsigned short>) inline T
    atomicCAS(T* address, emu_same<T> expected, emu_same<T> value) {
  emu_poll();
  __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return expected;
}
template <class T>
inline T atomicCAS_block(T* address, emu_same<T> expected, emu_same<T> value) {
  return atomicCAS(address, expected, value);
}
template <class T>
inline T atomicCAS_system(T* address, emu_same<T> expected, emu_same<T> value) {
  return atomicCAS(address, expected, value);
}

inline unsigned emu_ld_acquire(const unsigned* address) {
  emu_poll();
  return __atomic_load_n(address, __ATOMIC_ACQUIRE);
}
inline void emu_st_release(unsigned* address, unsigned value) { __atomic_store_n(address, value, __ATOMIC_RELEASE); }
inline void emu_red_release_add(unsigned* address, unsigned value) {
  __atomic_fetch_add(address, value, __ATOMIC_RELEASE);
}

#define EMU_LOAD(name)              \
  template <class T>                \
  inline T name(const T* address) { \
    return *address;                \
  }
#define EMU_STORE(name)                             \
  template <class T>                                \
  inline void name(T* address, emu_same<T> value) { \
    *address = value;                               \
  }
EMU_LOAD(__ldg)
EMU_LOAD(__ldca)
EMU_LOAD(__ldcs)
EMU_LOAD(__ldlu)
EMU_STORE(__stwb)
EMU_STORE(__stcg)
EMU_STORE(__stcs)
EMU_STORE(__stwt)
// These two see what other blocks write, so loops wait with them: the compiler must not keep the value.
template <class T>
inline T __ldcg(const T* address) {
  emu_poll();
  asm volatile("" ::: "memory");
  return *address;
}
template <class T>
inline T __ldcv(const T* address) {
  return __ldcg(address);
}

inline void emu_cp_async16(void* shared, const void* global) { __builtin_memcpy(shared, global, 16); }
