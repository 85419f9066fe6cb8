// The first pass of batch norm's gradient. PASSED: 1 when what has passed the ReLU is written, for others who read it
// and for the second pass.
#include "norm/batch_norm_source.cuh"

// Sums of g and of g · (x - mean) over a part, [part][2][channels].
extern "C" __global__ void __launch_bounds__(1024)
    bn_grad_sums(const T* x, const T* dy, const T* more, const T* y, const S* means, const S* vars, const S* scales,
                 const S* shifts, T* passed, S* parts, Bands bands, i64 channels, double epsilon) {
  begin_kernel();
  const int kAtOnce = kRowsAtOnce, kGroups = X < 32 ? 32 : kRows;
  __shared__ Two shared[kGroups][kWidth];
  Place at(channels);
  S first[VEC], second[VEC];
#pragma unroll
  for (int i = 0; i < VEC; ++i) first[i] = second[i] = 0;
  if (at.in) {
    Norm norm(at, means, vars, scales, shifts, epsilon);
    auto some = [&](i64 r, auto rows_at_once) {
      const int kCount = decltype(rows_at_once)::value;
      Gradient g[kCount];
#pragma unroll
      for (int u = 0; u < kCount; ++u) g[u].load_at((r + u * kRows) * channels + at.channel, x, dy, more, y);
#pragma unroll
      for (int u = 0; u < kCount; ++u) {
        Values through;
#pragma unroll
        for (int i = 0; i < VEC; ++i) {
          through.of[i] = g[u].passed(i, norm);
          first[i] += through.of[i];
          second[i] += through.of[i] * (g[u].x.of[i] - norm.mean[i]);
        }
        if (PASSED) store(passed + (r + u * kRows) * channels + at.channel, through);
      }
    };
    each_row<kAtOnce, true>(at, bands, some);
  }
  for (int d = X; d < 32; d <<= 1)
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      first[i] += __shfl_xor_sync(0xffffffffu, first[i], d);
      second[i] += __shfl_xor_sync(0xffffffffu, second[i], d);
    }
  int group = X < 32 ? (int)threadIdx.x / 32 : at.row, lane = (int)threadIdx.x % X;
  if (X >= 32 || threadIdx.x % 32 < X)
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      shared[group][lane * VEC + i].first = first[i];
      shared[group][lane * VEC + i].second = second[i];
    }
  __syncthreads();
  int channel = at.slice * kWidth + (int)threadIdx.x;
  if (threadIdx.x >= kWidth || channel >= channels) return;
  Two sums = {(S)0, (S)0};
#pragma unroll 8
  for (int g = 0; g < kGroups; ++g) {
    sums.first += shared[g][threadIdx.x].first;
    sums.second += shared[g][threadIdx.x].second;
  }
  parts[at.part * 2 * channels + channel] = sums.first;
  parts[(at.part * 2 + 1) * channels + channel] = sums.second;
}
