// The second pass of batch norm in training, with what follows within the kernel. ADD: 1 when something is added, 2
// when another norm of the same shape is; RELU: 1 when a ReLU comes last; SIGNS: 1 when it is written where that lets
// pass.
#include "norm/batch_norm.cuh"

// What a norm reads beside its values, and writes beside its result.
struct Side {
  const S *scale, *shift, *parts;
  S *mean, *var;
  double epsilon;
};

// A thread's channels of a norm: (x - mean) · scale / √(var + ε) + shift.
struct Line {
  S mean[VEC], factor[VEC], shift[VEC];
  __device__ __forceinline__ S operator()(int i, S x) const { return (x - mean[i]) * factor[i] + shift[i]; }
};
__device__ __forceinline__ Line line_of(const Side& side, const Place& at, const Bands& bands, i64 channels) {
  __shared__ Two shared[kThreads];
  __shared__ S centres[kWidth], factors[kWidth], shifts[kWidth];
  auto count = [&](i64 p) { return (S)bands.rows_of(p); };
  S centre = add_parts(side.parts, bands.parts, channels, at.slice, shared,
                       [&](i64 p, S mean, S, Two& sums) { sums.first += count(p) * mean; })
                 .first /
             (S)bands.rows;
  S var = add_parts(side.parts, bands.parts, channels, at.slice, shared,
                    [&](i64 p, S mean, S square, Two& sums) {
                      sums.first += square + count(p) * ((mean - centre) * (mean - centre));
                    })
              .first /
          (S)bands.rows;
  int channel = at.slice * kWidth + (int)threadIdx.x;
  if (threadIdx.x < kWidth && channel < channels) {
    centres[threadIdx.x] = centre;
    factors[threadIdx.x] = side.scale[channel] * inverse_root(var + (S)side.epsilon);
    shifts[threadIdx.x] = side.shift[channel];
    if (at.part == 0) {
      side.mean[channel] = centre;
      side.var[channel] = var;
    }
  }
  __syncthreads();
  Line line;
#pragma unroll
  for (int i = 0; i < VEC; ++i) {
    int c = (int)threadIdx.x % X * VEC + i;
    line.mean[i] = at.in ? centres[c] : (S)0;
    line.factor[i] = at.in ? factors[c] : (S)0;
    line.shift[i] = at.in ? shifts[c] : (S)0;
  }
  __syncthreads();
  return line;
}

// y = the norm of x (+ added, or the norm of that), ReLU of that. y may be the memory of x or of what is added.
extern "C" __global__ void __launch_bounds__(1024)
    bn_apply(const T* x, const T* added, Side norm, Side other, T* y, unsigned char* signs, Bands bands, i64 channels) {
  begin_kernel();
  const int kAtOnce = ADD || VEC * sizeof(T) >= 16 ? 2 : 4;
  Place at(channels);
  const Line line = line_of(norm, at, bands, channels);
#if ADD == 2
  const Line beside = line_of(other, at, bands, channels);
#endif
  if (!at.in) return;
  auto some = [&](i64 r, auto rows_at_once) {
    const int kCount = decltype(rows_at_once)::value;
    Values v[kCount], more[kCount];
#pragma unroll
    for (int u = 0; u < kCount; ++u) {
      v[u] = load(x + (r + u * kRows) * channels + at.channel);
      if (ADD) more[u] = load(added + (r + u * kRows) * channels + at.channel);
    }
#pragma unroll
    for (int u = 0; u < kCount; ++u) {
      Values result;
      u32 above = 0;
#pragma unroll
      for (int i = 0; i < VEC; ++i) {
        S normal = line(i, v[u].of[i]);
#if ADD == 2
        normal += beside(i, more[u].of[i]);
#elif ADD
        normal += more[u].of[i];
#endif
        result.of[i] = RELU && normal < 0 ? (S)0 : normal;
        if (SIGNS) above |= (u32)(as_stored(result.of[i]) > 0) << i;
      }
      i64 place = (r + u * kRows) * channels + at.channel;
      store(y + place, result);
      if (SIGNS) store_signs(signs, place, above);
    }
  };
  each_row<kAtOnce, false>(at, bands, some);
}
