// The first pass of batch norm in training: mean and squared distances from it, for each part of the rows.
#include "norm/batch_norm.cuh"

// Count, mean and sum of squared distances from it.
struct Moments {
  S count;
  S mean[VEC], squares[VEC];
};

// A thread's own rows: distances from its first value are small where values are far from zero.
__device__ __forceinline__ Moments own_moments(const T* x, const Place& at, const Bands& bands, i64 channels) {
  const int kAtOnce = VEC * sizeof(T) < 16 ? 8 : 4;
  Moments m;
  m.count = 0;
  S sum[VEC], squares[VEC], centre[VEC];
#pragma unroll
  for (int i = 0; i < VEC; ++i) sum[i] = squares[i] = centre[i] = 0;
  i64 first = at.part * bands.band + at.row;
  if (at.in && first < bands.rows) {
    Values v = load(x + first * channels + at.channel);
#pragma unroll
    for (int i = 0; i < VEC; ++i) centre[i] = v.of[i];
    i64 count = 0;
    each_row<kAtOnce, true>(at, bands, [&](i64 r, auto rows_at_once) {
      const int kCount = decltype(rows_at_once)::value;
      Values next[kCount];
#pragma unroll
      for (int u = 0; u < kCount; ++u) next[u] = load(x + (r + u * kRows) * channels + at.channel);
#pragma unroll
      for (int u = 0; u < kCount; ++u)
#pragma unroll
        for (int i = 0; i < VEC; ++i) {
          S d = next[u].of[i] - centre[i];
          sum[i] += d;
          squares[i] += d * d;
        }
      count += kCount;
    });
    m.count = (S)count;
  }
#pragma unroll
  for (int i = 0; i < VEC; ++i) {
    S shifted = m.count > 0 ? sum[i] / m.count : (S)0;
    m.mean[i] = centre[i] + shifted;
    m.squares[i] = squares[i] - shifted * sum[i];
    if (m.squares[i] < 0) m.squares[i] = 0;
  }
  return m;
}

// Sum over the lanes of a warp that have the same channels.
__device__ __forceinline__ S over_warp(S v) {
#pragma unroll
  for (int d = X; d < 32; d <<= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}

// Mean and squares of a part, [part][2][channels]; how many rows it has follows from its number.
extern "C" __global__ void __launch_bounds__(1024) bn_moments(const T* x, S* parts, Bands bands, i64 channels) {
  begin_kernel();
  const int kGroups = X < 32 ? 32 : kRows;  // of threads that shuffles have brought together
  __shared__ S means[kGroups][kWidth], squares[kGroups][kWidth], counts[kGroups];
  Place at(channels);
  Moments m = own_moments(x, at, bands, channels);
  S count = over_warp(m.count);
#pragma unroll
  for (int i = 0; i < VEC; ++i) {
    S sum = over_warp(m.count * m.mean[i]), mean = count > 0 ? sum / count : (S)0, apart = m.mean[i] - mean;
    m.squares[i] = over_warp(m.squares[i] + m.count * (apart * apart));
    m.mean[i] = mean;
  }
  m.count = count;
  int group = X < 32 ? (int)threadIdx.x / 32 : at.row, lane = (int)threadIdx.x % X;
  if (X >= 32 || threadIdx.x % 32 < X) {
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      means[group][lane * VEC + i] = m.mean[i];
      squares[group][lane * VEC + i] = m.squares[i];
    }
    if (lane == 0) counts[group] = m.count;
  }
  __syncthreads();
  int channel = at.slice * kWidth + (int)threadIdx.x;
  if (threadIdx.x >= kWidth || channel >= channels) return;
  S mean = 0, square = 0;
#pragma unroll 8
  for (int g = 0; g < kGroups; ++g) mean += counts[g] * means[g][threadIdx.x];
  mean /= (S)bands.rows_of(at.part);
#pragma unroll 8
  for (int g = 0; g < kGroups; ++g) {
    S apart = means[g][threadIdx.x] - mean;
    square += squares[g][threadIdx.x] + counts[g] * (apart * apart);
  }
  parts[at.part * 2 * channels + channel] = mean;
  parts[(at.part * 2 + 1) * channels + channel] = square;
}
