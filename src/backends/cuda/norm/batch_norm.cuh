// What the kernels of batch norm share. Values are [rows, channels]; a block takes a slice of WIDTH channels and a part
// of the rows: every parts-th band of them, so that blocks walk side by side through memory. Sums go over the rows of a
// part in its block, over parts in the kernel that follows; always in one order, so that results have the same bits at
// every run.
//
// T: the stored type; VEC: channels that a thread takes at a time, 1 or 4 (2 of double); X: threads side by side along
// the channels.
#pragma once

#include "kernels/prelude.cuh"

#include "generated.cuh"

typedef Wide<T>::type S;  // of statistics and parameters

const int kThreads = 1024, kRows = kThreads / X, kWidth = X * VEC;

// As much as a thread moves at a time. Built-in vectors: the compiler stores structures of ours word by word.
template <int BYTES>
struct Raw;
template <>
struct Raw<8> {
  typedef uint2 type;
};
template <>
struct Raw<16> {
  typedef uint4 type;
};

struct Values {
  S of[VEC];
};
__device__ __forceinline__ Values load(const T* from) {
  Values v;
#if VEC == 1
  v.of[0] = widen<S>(*from);
#else
  Raw<VEC * sizeof(T)>::type raw = *(const Raw<VEC * sizeof(T)>::type*)from;
  T stored[VEC];
  memcpy(stored, &raw, sizeof raw);
#pragma unroll
  for (int i = 0; i < VEC; ++i) v.of[i] = widen<S>(stored[i]);
#endif
  return v;
}
__device__ __forceinline__ uint2 packed(const float* v, bf16) {
  return make_uint2(bf16_pair(v[0], v[1]), bf16_pair(v[2], v[3]));
}
__device__ __forceinline__ uint2 packed(const float* v, f16) {
  return make_uint2(f16_pair(v[0], v[1]), f16_pair(v[2], v[3]));
}
__device__ __forceinline__ float4 packed(const float* v, float) { return make_float4(v[0], v[1], v[2], v[3]); }
__device__ __forceinline__ double2 packed(const double* v, double) { return make_double2(v[0], v[1]); }
__device__ __forceinline__ void store(T* to, const Values& v) {
#if VEC == 1
  *to = narrow<T>(v.of[0]);
#else
  auto words = packed(v.of, T());
  *(decltype(words)*)to = words;
#endif
}
// As it comes back from memory.
__device__ __forceinline__ S as_stored(S v) { return widen<S>(narrow<T>(v)); }

// Which of eight neighbouring channels are above 0, as bits of a byte: VEC of them from each of a few neighbouring
// threads.
__device__ __forceinline__ void store_signs(unsigned char* signs, i64 place, u32 above) {
  const int kShare = 8 / VEC, lane = (int)threadIdx.x % 32, member = lane % kShare;
  const u32 team = ((1u << kShare) - 1) << (lane - member);
  above <<= member * VEC;
#pragma unroll
  for (int d = 1; d < kShare; d *= 2) above |= __shfl_xor_sync(team, above, d);
  if (member == 0) signs[place / 8] = (unsigned char)above;
}
__device__ __forceinline__ u32 load_signs(const unsigned char* signs, i64 place) {
  return (u32)signs[place / 8] >> (place % 8);
}

__device__ __forceinline__ S inverse_root(S v) { return (S)1 / sqrt(v); }

// A number that is known when the kernel is compiled: of rows whose values are all loaded before the first is used.
template <int N>
struct Count {
  static const int value = N;
};

// How rows are divided.
struct Bands {
  i64 rows, band, parts;
  __device__ __forceinline__ i64 count() const { return (rows + band - 1) / band; }
  // Rows of a part.
  __device__ __forceinline__ i64 rows_of(i64 part) const {
    i64 last = count() - 1, mine = (last - part) / parts + 1;
    return mine * band - ((last - part) % parts == 0 ? (last + 1) * band - rows : 0);
  }
};

// Which slice and part a block has, and which of it a thread. Neighbouring blocks have neighbouring slices: together
// they read whole rows. Channels are counted in 32 bits: with 64 the compiler does not join the stores of a vector.
struct Place {
  i64 part;
  int slice, channel, row;
  bool in;  // whether the thread has channels at all
  __device__ Place(i64 channels) {
    int slices = (int)((channels + kWidth - 1) / kWidth);
    slice = (int)blockIdx.x % slices;
    part = (int)blockIdx.x / slices;
    channel = slice * kWidth + (int)threadIdx.x % X * VEC;
    row = (int)threadIdx.x / X;
    in = channel < channels;
  }
};

// Rows of a thread, `some(row, Count)` of them at a time, kRows apart from that row on.
template <int kAtOnce, class Some>
__device__ __forceinline__ void some_forwards(i64 first, i64 end, Some some) {
  i64 r = first;
  for (; r + (kAtOnce - 1) * kRows < end; r += kAtOnce * kRows) some(r, Count<kAtOnce>());
  for (; r < end; r += kRows) some(r, Count<1>());
}
template <int kAtOnce, class Some>
__device__ __forceinline__ void some_backwards(i64 first, i64 end, Some some) {
  i64 mine = end > first ? (end - first + kRows - 1) / kRows : 0, whole = mine / kAtOnce * kAtOnce;
  for (i64 r = mine - 1; r >= whole; --r) some(first + r * kRows, Count<1>());
  for (i64 r = whole - kAtOnce; r >= 0; r -= kAtOnce) some(first + r * kRows, Count<kAtOnce>());
}

// All rows of a part. The first pass goes backwards, for the end of what it reads was written last; and the second
// forwards, for what the first has read last is still near.
template <int kAtOnce, bool kBackwards, class Some>
__device__ __forceinline__ void each_row(const Place& at, const Bands& bands, Some some) {
  i64 count = bands.count();
  auto band = [&](i64 b) {
    i64 first = b * bands.band, end = first + bands.band < bands.rows ? first + bands.band : bands.rows;
    if (kBackwards)
      some_backwards<kAtOnce>(first + at.row, end, some);
    else
      some_forwards<kAtOnce>(first + at.row, end, some);
  };
  if (kBackwards)
    for (i64 b = at.part + (count - 1 - at.part) / bands.parts * bands.parts; b >= 0; b -= bands.parts) band(b);
  else
    for (i64 b = at.part; b < count; b += bands.parts) band(b);
}

// Two sums for each channel of a slice over all parts, which lie in memory as [part][2][channels]. Each thread gets
// those of channel threadIdx.x % kWidth of the slice. `add(part, first, second, sums)` takes in what one part has.
const int kSubs = kThreads / kWidth;
struct Two {
  S first, second;
};
template <class Add>
__device__ __forceinline__ Two add_parts(const S* parts, i64 part_count, i64 channels, int slice, Two* shared,
                                         Add add) {
  int c = (int)threadIdx.x % kWidth, sub = (int)threadIdx.x / kWidth;
  int channel = slice * kWidth + c;
  Two sums = {(S)0, (S)0};
  if (channel < channels)
    for (i64 p = sub; p < part_count; p += kSubs)
      add(p, parts[p * 2 * channels + channel], parts[(p * 2 + 1) * channels + channel], sums);
  shared[threadIdx.x] = sums;
  __syncthreads();
  sums.first = sums.second = 0;
#pragma unroll
  for (int s = 0; s < kSubs; ++s) {
    sums.first += shared[s * kWidth + c].first;
    sums.second += shared[s * kWidth + c].second;
  }
  __syncthreads();
  return sums;
}
