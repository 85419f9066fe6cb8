// The second pass of batch norm in training. RELU and ADD: 1 when a ReLU, or an addition before it, follows within the
// kernel.

// y = (x - mean) · scale / √(var + ε) + shift (+ added), ReLU of that. y may be the memory of x or of what is added.
extern "C" __global__ void __launch_bounds__(1024)
    bn_apply(const T* x, const T* added, const S* scale, const S* shift, const S* parts, T* y, S* mean_out, S* var_out,
             Bands bands, i64 channels, double epsilon) {
  begin_kernel();
  const int kAtOnce = ADD || VEC * sizeof(T) >= 16 ? 2 : 4;
  __shared__ Two shared[kThreads];
  __shared__ S centres[kWidth], factors[kWidth], shifts[kWidth];
  Place at(channels);
  auto count = [&](i64 p) { return (S)bands.rows_of(p); };
  S centre = add_parts(parts, bands.parts, channels, at.slice, shared,
                       [&](i64 p, S mean, S, Two& sums) { sums.first += count(p) * mean; })
                 .first /
             (S)bands.rows;
  S var = add_parts(parts, bands.parts, channels, at.slice, shared,
                    [&](i64 p, S mean, S square, Two& sums) {
                      sums.first += square + count(p) * ((mean - centre) * (mean - centre));
                    })
              .first /
          (S)bands.rows;
  int channel = at.slice * kWidth + (int)threadIdx.x;
  if (threadIdx.x < kWidth && channel < channels) {
    centres[threadIdx.x] = centre;
    factors[threadIdx.x] = scale[channel] * inverse_root(var + (S)epsilon);
    shifts[threadIdx.x] = shift[channel];
    if (at.part == 0) {
      mean_out[channel] = centre;
      var_out[channel] = var;
    }
  }
  __syncthreads();
  if (!at.in) return;
  S mean[VEC], factor[VEC], offset[VEC];
#pragma unroll
  for (int i = 0; i < VEC; ++i) {
    int c = (int)threadIdx.x % X * VEC + i;
    mean[i] = centres[c];
    factor[i] = factors[c];
    offset[i] = shifts[c];
  }
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
#pragma unroll
      for (int i = 0; i < VEC; ++i) {
        S normal = (v[u].of[i] - mean[i]) * factor[i] + offset[i];
        if (ADD) normal += more[u].of[i];
        result.of[i] = RELU && normal < 0 ? (S)0 : normal;
      }
      store(y + (r + u * kRows) * channels + at.channel, result);
    }
  };
  each_row<kAtOnce, false>(at, bands, some);
}
