// TMA of compute capability 9.0, its barriers, and products of whole tiles by four warps. A tile comes as
// late as it may: when a thread waits for its barrier.
#pragma once

#include "bits.h"
#include "runtime.h"
#include "tensor_core.h"
#include "warp.h"

// ---- barriers: from the lowest bits on how many arrivals are missing, how many it takes, the bytes on their way, and
// the round

inline void emu_mbarrier_init(unsigned long long* barrier, int arrivals) {
  *barrier = static_cast<unsigned long long>(arrivals) << 16 | static_cast<unsigned long long>(arrivals);
}
inline void emu_mbarrier_add(unsigned long long* barrier, long long arrivals, long long bytes) {
  *barrier += static_cast<unsigned long long>((bytes << 32) - arrivals);
  unsigned long long missing = *barrier & 0xFFFF, all = *barrier >> 16 & 0xFFFF, coming = *barrier >> 32 & 0xFFFFFF;
  if (missing == 0 && coming == 0) *barrier = ((*barrier >> 56) + 1) << 56 | all << 16 | all;
}
inline void emu_mbarrier_arrive(unsigned long long* barrier, int bytes = 0) { emu_mbarrier_add(barrier, 1, bytes); }

// ---- tiles

// One piece of 16 bytes for another, by the address: 128-byte rows exchange eight, 64-byte rows four.
inline char* emu_swizzled(const void* at, unsigned bytes) {
  auto address = reinterpret_cast<unsigned long long>(at);
  return reinterpret_cast<char*>(bytes == 0 ? address : address ^ ((address >> 7 & (bytes / 16 - 1)) << 4));
}
// As it is now: a parameter of a kernel ends with its thread.
inline EmuTensorMap emu_tensor_map(const void* bytes) {
  EmuTensorMap map;
  __builtin_memcpy(&map, bytes, sizeof(map));
  return map;
}
template <class Move>
inline void emu_for_tile(const EmuTensorMap& map, int x, int y, int z, int w, Move move) {
  unsigned offset = 0;
  for (unsigned l = 0; l < map.box[3]; ++l)
    for (unsigned k = 0; k < map.box[2]; ++k)
      for (unsigned j = 0; j < map.box[1]; ++j)
        for (unsigned i = 0; i < map.box[0]; ++i, offset += map.element_bytes) {
          unsigned long long at[4] = {static_cast<unsigned long long>(x) + i, static_cast<unsigned long long>(y) + j,
                                      static_cast<unsigned long long>(z) + k, static_cast<unsigned long long>(w) + l};
          bool inside = true;
          for (int axis = 0; axis < 4; ++axis) inside = inside && at[axis] < map.sizes[axis];
          char* element = map.address + at[0] * map.element_bytes;
          for (int axis = 0; axis < 3; ++axis) element += at[axis + 1] * map.strides[axis];
          move(inside ? element : nullptr, offset, map);
        }
}
inline void emu_tensor_load(void* to, const void* map, int x, int y, int z, int w, unsigned long long* barrier) {
  emu_block->runtime->begin_copy(emu_block, {to, emu_tensor_map(map), {x, y, z, w}, barrier});
}
inline void emu_copy_now(const EmuCopy& copy) {
  unsigned bytes = 0;
  emu_for_tile(copy.map, copy.at[0], copy.at[1], copy.at[2], copy.at[3],
               [&](char* element, unsigned offset, const EmuTensorMap& of) {
                 char* place = emu_swizzled(static_cast<char*>(copy.to) + offset, of.swizzle_bytes);
                 element ? __builtin_memcpy(place, element, of.element_bytes)
                         : __builtin_memset(place, 0, of.element_bytes);
                 bytes = offset + of.element_bytes;
               });
  emu_mbarrier_add(copy.barrier, 0, -static_cast<long long>(bytes));
}
// Until a round of this parity has ended.
inline void emu_mbarrier_wait(unsigned long long* barrier, int round) {
  while ((*static_cast<volatile unsigned long long*>(barrier) >> 56 & 1) == (static_cast<unsigned>(round) & 1)) {
    EmuCopy copy;
    if (emu_block->runtime->take_copy(emu_block, barrier, &copy))
      emu_copy_now(copy);
    else
      __nanosleep(20);
  }
}
inline void emu_tensor_store(const void* map, const void* from, int x, int y, int z) {
  emu_for_tile(emu_tensor_map(map), x, y, z, 0, [&](char* element, unsigned offset, const EmuTensorMap& of) {
    const char* place = emu_swizzled(static_cast<const char*>(from) + offset, of.swizzle_bytes);
    if (element) __builtin_memcpy(element, place, of.element_bytes);
  });
}

// ---- d[64,64] += a[64,K] · b[64,K]ᵀ, an operand being K = 8 of the 32 columns of a slab, or K = 16 of its columns of
// 16 bits, or a warp's 16 rows of a in registers

// The word that holds this column, of rows that lie `bytes` apart.
inline unsigned emu_slab_word(const unsigned char* columns, unsigned bytes, int row, int word_in_row) {
  unsigned word;
  __builtin_memcpy(&word, emu_swizzled(columns + static_cast<unsigned>(row) * bytes + word_in_row * 4, bytes), 4);
  return word;
}
template <int kColumns, int kSums, class Left, class Right>
inline void emu_wgmma(float (&d)[kSums], Left left, Right right) {
  int member = static_cast<int>(emu_lane()) % 4;
  for (int i = 0; i < kSums; ++i) {
    int column = i / 4 * 8 + 2 * member + i % 2;
    double sum = d[i];
    for (int k = 0; k < kColumns; ++k) sum += static_cast<double>(left(i / 2 % 2, k)) * right(column, k);
    d[i] = static_cast<float>(sum);
  }
}
// Both operands in slabs of rows of 128 bytes.
inline void emu_wgmma_tf32(float (&d)[32], const unsigned char* a, const unsigned char* b) {
  int row = static_cast<int>(threadIdx.x / 32 % 4 * 16 + emu_lane() / 4);
  auto element = [](const unsigned char* slab, int at, int k) {
    return emu_from_tf32(emu_slab_word(slab, 128, at, k), 0);
  };
  emu_wgmma<8>(
      d, [&](int upper, int k) { return element(a, row + 8 * upper, k); },
      [&](int column, int k) { return element(b, column, k); });
}
// A lane's words of a hold `packed` neighbours along k each.
template <int packed, float (*decode)(unsigned, int), class Right>
inline void emu_wgmma_words(float (&d)[32], const unsigned (&a)[4], Right right) {
  float left[2][8 * packed];
  for (int k = 0; k < 8 * packed; ++k)
    for (int upper = 0; upper < 2; ++upper)
      left[upper][k] = decode(__shfl_sync(0xFFFFFFFFu, a[k / (4 * packed) * 2 + upper],
                                          static_cast<int>(emu_lane() / 4 * 4) + k / packed % 4),
                              k % packed);
  emu_wgmma<8 * packed>(
      d, [&](int upper, int k) { return left[upper][k]; }, right);
}
inline void emu_wgmma_m64n64k8_tf32(float (&d)[32], const unsigned (&a)[4], const unsigned char* b) {
  emu_wgmma_words<1, emu_from_tf32>(
      d, a, [&](int column, int k) { return emu_from_tf32(emu_slab_word(b, 128, column, k), 0); });
}
inline void emu_wgmma_m64n64k16_bf16(float (&d)[32], const unsigned (&a)[4], const unsigned char* b) {
  emu_wgmma_words<2, emu_from_bf16>(
      d, a, [&](int column, int k) { return emu_from_bf16(emu_slab_word(b, 64, column, k / 2), k % 2); });
}
inline void emu_wgmma_m64n64k16_f16(float (&d)[32], const unsigned (&a)[4], const unsigned char* b) {
  emu_wgmma_words<2, emu_from_f16>(
      d, a, [&](int column, int k) { return emu_from_f16(emu_slab_word(b, 64, column, k / 2), k % 2); });
}
