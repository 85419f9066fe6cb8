// mma.sync, with the fragment layouts of the PTX ISA. The hardware's accumulation order is its own secret: here the
// products are summed in double and rounded once.
#pragma once

#include "bits.h"
#include "warp.h"

inline float emu_from_tf32(unsigned word, int) { return __uint_as_float(word & ~0x1FFFu); }
inline float emu_from_bf16(unsigned word, int half) { return __uint_as_float(word >> (16 * half) << 16); }
inline float emu_from_f16(unsigned word, int half) {
  return emu_cvt_f32_f16(static_cast<unsigned short>(word >> (16 * half)));
}

struct EmuFragments {
  const unsigned *a, *b;
  const float* c;
  float d[4];
};

// D[16][8] = A[16][K] · B[K][8] + C. A register holds `packed` neighbours along k; lane = 4 · group + member holds
//   A: rows group, group + 8;  k = packed · member and K/2 above it        B: the same k, column group
//   C, D: rows group, group + 8;  columns 2 · member, 2 · member + 1
template <int packed, float (*decode)(unsigned, int)>
inline void emu_mma(float d[4], const unsigned a[4], const unsigned b[2], const float c[4]) {
  EmuFragments mine{a, b, c, {}};
  emu_collective(
      0xFFFFFFFFu,
      [](unsigned lanes, void* const* payloads) {
        if (lanes != 0xFFFFFFFFu)
          emu_block->runtime->assertion_failed(emu_block, "mma by a whole warp", __FILE__, __LINE__);
        constexpr int k_half = 4 * packed, k_size = 2 * k_half;
        auto lane = [&](int group, int member) { return static_cast<EmuFragments*>(payloads[4 * group + member]); };
        float left[16][k_size], right[k_size][8];
        for (int k = 0; k < k_size; ++k) {
          int upper = k / k_half, member = k % k_half / packed, part = k % packed;
          for (int row = 0; row < 16; ++row) left[row][k] = decode(lane(row % 8, member)->a[row / 8 + 2 * upper], part);
          for (int column = 0; column < 8; ++column) right[k][column] = decode(lane(column, member)->b[upper], part);
        }
        for (int row = 0; row < 16; ++row)
          for (int column = 0; column < 8; ++column) {
            EmuFragments* owner = lane(row % 8, column / 2);
            int element = row / 8 * 2 + column % 2;
            double sum = owner->c[element];
            for (int k = 0; k < k_size; ++k) sum += static_cast<double>(left[row][k]) * right[k][column];
            owner->d[element] = static_cast<float>(sum);
          }
      },
      &mine);
  for (int i = 0; i < 4; ++i) d[i] = mine.d[i];
}
inline void emu_mma_m16n8k8_tf32(float d[4], const unsigned a[4], const unsigned b[2], const float c[4]) {
  emu_mma<1, emu_from_tf32>(d, a, b, c);
}
inline void emu_mma_m16n8k16_bf16(float d[4], const unsigned a[4], const unsigned b[2], const float c[4]) {
  emu_mma<2, emu_from_bf16>(d, a, b, c);
}
inline void emu_mma_m16n8k16_f16(float d[4], const unsigned a[4], const unsigned b[2], const float c[4]) {
  emu_mma<2, emu_from_f16>(d, a, b, c);
}
