// The copy engine of compute capability 9.0, its barriers, and products of whole tiles by four warps. Copies are done
// when they are asked for.
#pragma once

#include "bits.h"
#include "runtime.h"
#include "tensor_core.h"
#include "warp.h"

// ---- barriers: the round in the upper half; how many arrivals it takes, and how many are missing, in the lower

inline void emu_mbarrier_init(unsigned long long* barrier, int arrivals) {
  *barrier = static_cast<unsigned long long>(arrivals) << 16 | static_cast<unsigned long long>(arrivals);
}
inline void emu_mbarrier_arrive(unsigned long long* barrier) {
  unsigned long long arrivals = *barrier >> 16 & 0xFFFF, round = *barrier >> 32;
  if ((--*barrier & 0xFFFF) == 0) *barrier = (round + 1) << 32 | arrivals << 16 | arrivals;
}
// Until a round of this parity has ended.
inline void emu_mbarrier_wait(unsigned long long* barrier, int round) {
  while ((*static_cast<volatile unsigned long long*>(barrier) >> 32 & 1) == (static_cast<unsigned>(round) & 1))
    __nanosleep(20);
}

// ---- tiles

// One piece of 16 bytes for another, among as many rows as repeat: 128-byte rows exchange eight, 64-byte rows four.
inline unsigned emu_swizzled(unsigned offset, unsigned bytes) {
  return bytes == 0 ? offset : offset ^ ((offset >> 7 & (bytes / 16 - 1)) << 4);
}
template <class Move>
inline void emu_for_tile(const void* map_bytes, int x, int y, int z, Move move) {
  EmuTensorMap map;
  __builtin_memcpy(&map, map_bytes, sizeof(map));
  unsigned offset = 0;
  for (unsigned k = 0; k < map.box[2]; ++k)
    for (unsigned j = 0; j < map.box[1]; ++j)
      for (unsigned i = 0; i < map.box[0]; ++i, offset += map.element_bytes) {
        unsigned long long at[3] = {static_cast<unsigned long long>(x) + i, static_cast<unsigned long long>(y) + j,
                                    static_cast<unsigned long long>(z) + k};
        bool inside = at[0] < map.sizes[0] && at[1] < map.sizes[1] && at[2] < map.sizes[2];
        char* element = map.address + at[0] * map.element_bytes + at[1] * map.strides[0] + at[2] * map.strides[1];
        move(inside ? element : nullptr, emu_swizzled(offset, map.swizzle_bytes), map.element_bytes);
      }
}
inline void emu_tensor_load(void* to, const void* map, int x, int y, int z) {
  emu_for_tile(map, x, y, z, [&](char* element, unsigned offset, unsigned bytes) {
    char* place = static_cast<char*>(to) + offset;
    element ? __builtin_memcpy(place, element, bytes) : __builtin_memset(place, 0, bytes);
  });
}
inline void emu_tensor_store(const void* map, const void* from, int x, int y, int z) {
  emu_for_tile(map, x, y, z, [&](char* element, unsigned offset, unsigned bytes) {
    if (element) __builtin_memcpy(element, static_cast<const char*>(from) + offset, bytes);
  });
}

// ---- d[64,64] += a[64,8] · b[64,8]ᵀ, an operand being eight of the 32 columns of a slab, or a warp's 16 rows of a in
// registers

inline float emu_slab_element(const unsigned char* columns, int row, int column) {
  auto place = reinterpret_cast<unsigned long long>(columns);
  unsigned long long slab = place & ~1023ull;
  unsigned word;
  __builtin_memcpy(&word,
                   reinterpret_cast<const void*>(slab + emu_swizzled(static_cast<unsigned>(place - slab) +
                                                                         static_cast<unsigned>(row * 128 + column * 4),
                                                                     128)),
                   4);
  return emu_from_tf32(word, 0);
}
template <class Left>
inline void emu_wgmma(float (&d)[32], Left left, const unsigned char* b) {
  int member = static_cast<int>(emu_lane()) % 4;
  for (int i = 0; i < 32; ++i) {
    int column = i / 4 * 8 + 2 * member + i % 2;
    double sum = d[i];
    for (int k = 0; k < 8; ++k) sum += static_cast<double>(left(i / 2 % 2, k)) * emu_slab_element(b, column, k);
    d[i] = static_cast<float>(sum);
  }
}
inline void emu_wgmma_m64n64k8_tf32(float (&d)[32], const unsigned char* a, const unsigned char* b) {
  int row = static_cast<int>(threadIdx.x / 32 % 4 * 16 + emu_lane() / 4);
  emu_wgmma(
      d, [&](int upper, int k) { return emu_slab_element(a, row + 8 * upper, k); }, b);
}
inline void emu_wgmma_m64n64k8_tf32(float (&d)[32], const unsigned (&a)[4], const unsigned char* b) {
  float left[2][8];
  for (int k = 0; k < 8; ++k)
    for (int upper = 0; upper < 2; ++upper)
      left[upper][k] = emu_from_tf32(
          __shfl_sync(0xFFFFFFFFu, a[k / 4 * 2 + upper], static_cast<int>(emu_lane() / 4 * 4) + k % 4), 0);
  emu_wgmma(
      d, [&](int upper, int k) { return left[upper][k]; }, b);
}
