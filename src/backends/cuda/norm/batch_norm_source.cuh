// What both passes of batch norm's gradient read. What comes back passes a ReLU first, by PASSING: 0 there is none;
// 1 where its output y is above 0; 2 where what the norm gave is, computed again from x; 3 where the bits y say so.
// MORE: 1 when two gradients are added before.
#pragma once

#include "norm/batch_norm.cuh"

// Rows that a thread has in flight: the more bytes, the better memory is used, as far as registers go.
const int kRowsAtOnce = VEC * sizeof(T) < 16 && !MORE && PASSING != 1 ? 4 : 2;

struct Norm {
  S mean[VEC], rstd[VEC], factor[VEC], shift[VEC];
  __device__ Norm(const Place& at, const S* means, const S* vars, const S* scales, const S* shifts, double epsilon) {
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      mean[i] = means[at.channel + i];
      rstd[i] = inverse_root(vars[at.channel + i] + (S)epsilon);
      factor[i] = scales[at.channel + i] * rstd[i];
      shift[i] = PASSING == 2 ? shifts[at.channel + i] : (S)0;
    }
  }
};

// Values at one place, and what of them passes the ReLU.
struct Gradient {
  Values x, dy, more, y;
  u32 signs;
  __device__ __forceinline__ void load_at(i64 at, const T* from_x, const T* from_dy, const T* from_more,
                                          const T* from_y) {
    x = load(from_x + at);
    dy = load(from_dy + at);
    if (MORE) more = load(from_more + at);
    if (PASSING == 1) y = load(from_y + at);
    if (PASSING == 3) signs = load_signs((const unsigned char*)from_y, at);
  }
  __device__ __forceinline__ S normal(int i, const Norm& norm) const {
    return (x.of[i] - norm.mean[i]) * norm.factor[i] + norm.shift[i];
  }
  __device__ __forceinline__ S passed(int i, const Norm& norm) const {
    S g = MORE ? as_stored(dy.of[i] + more.of[i]) : dy.of[i];
    if (PASSING == 1) return y.of[i] > 0 ? g : (S)0;
    if (PASSING == 3) return signs >> i & 1 ? g : (S)0;
    if (PASSING == 2) return normal(i, norm) > 0 ? g : (S)0;
    return g;
  }
};
