// The second pass of batch norm's gradient. AGAIN: 1 when the output of the ReLU is written once more, as bn_apply has
// written it.
#include "norm/batch_norm_source.cuh"

// dx = scale · rstd · (g - (Σg + x̂ · Σ(g · x̂)) / rows), x̂ = (x - mean) · rstd. dx and again may be the memory of any
// value read.
extern "C" __global__ void __launch_bounds__(1024)
    bn_grad_apply(const T* x, const T* dy, const T* more, const T* y, const S* means, const S* vars, const S* scales,
                  const S* shifts, const S* parts, T* dx, S* dscale, S* dshift, T* again, Bands bands, i64 channels,
                  double epsilon) {
  begin_kernel();
  const int kAtOnce = kRowsAtOnce;
  __shared__ Two shared[kThreads];
  __shared__ S slopes[kWidth], offsets[kWidth];
  Place at(channels);
  Two sums = add_parts(parts, bands.parts, channels, at.slice, shared, [&](i64, S first, S second, Two& both) {
    both.first += first;
    both.second += second;
  });
  int channel = at.slice * kWidth + (int)threadIdx.x;
  if (threadIdx.x < kWidth && channel < channels) {
    S rstd = inverse_root(vars[channel] + (S)epsilon), factor = scales[channel] * rstd;
    S normal = sums.second * rstd;  // Σ(g · x̂)
    slopes[threadIdx.x] = -factor * rstd * normal / (S)bands.rows;
    offsets[threadIdx.x] = -factor * sums.first / (S)bands.rows;
    if (at.part == 0) {
      dscale[channel] = normal;
      dshift[channel] = sums.first;
    }
  }
  __syncthreads();
  if (!at.in) return;
  Norm norm(at, means, vars, scales, shifts, epsilon);
  S slope[VEC], offset[VEC];
#pragma unroll
  for (int i = 0; i < VEC; ++i) {
    slope[i] = slopes[(int)threadIdx.x % X * VEC + i];
    offset[i] = offsets[(int)threadIdx.x % X * VEC + i];
  }
  auto some = [&](i64 r, auto rows_at_once) {
    const int kCount = decltype(rows_at_once)::value;
    Gradient g[kCount];
#pragma unroll
    for (int u = 0; u < kCount; ++u) g[u].load_at((r + u * kRows) * channels + at.channel, x, dy, more, y);
#pragma unroll
    for (int u = 0; u < kCount; ++u) {
      Values result, output;
#pragma unroll
      for (int i = 0; i < VEC; ++i) {
        result.of[i] = norm.factor[i] * g[u].passed(i, norm) + (slope[i] * (g[u].x.of[i] - norm.mean[i]) + offset[i]);
        S normal = g[u].normal(i, norm);
        output.of[i] = normal < 0 ? (S)0 : normal;
      }
      store(dx + (r + u * kRows) * channels + at.channel, result);
      if (AGAIN) store(again + (r + u * kRows) * channels + at.channel, output);
    }
  };
  each_row<kAtOnce, false>(at, bands, some);
}
