// Positions sorted by the row they go to, those of one row in their own order: keys[p] is the row, places[p] where the
// position's update lies, in ascending order of (row, position). What lies outside is noted and comes last, with the
// key `outside`. INDEX: the type of indices. FLAT: each index stands for one element, see below. COMPOSITE: u32 or u64,
// holds a key above a position.
#include "kernels/pack.cuh"

#include "generated.cuh"

// y[o, indices[j], :]: the key is the number of the row. FLAT: y[o, indices[o, j, i], i]: the key is the element's
// place.
struct Source {
  const INDEX* indices;
  i64 size, count, inner;  // of y along the axis; of indices along the axis; of y behind it
  u64* errors;
  int text;
  u32 outside;
};

// Where the update of a position lies, in rows: updates need not lie in the order of positions.
struct Moved {
  u32 period, far, near;  // period 0: they do
};
__device__ __forceinline__ u32 place_of(const Moved& m, u32 position) {
  return m.period == 0 ? position : position / m.period * m.far + position % m.period * m.near;
}

__device__ __forceinline__ u32 key_of(const Source& s, i64 position) {
#ifdef FLAT
  const i64 outer = position / (s.count * s.inner), index = (i64)s.indices[position];
#else
  const i64 outer = position < s.count ? 0 : position / s.count, index = (i64)s.indices[position - outer * s.count];
#endif
  if (index < 0 || index >= s.size) {
    note(s.errors, s.text, index);
    return s.outside;
  }
#ifdef FLAT
  return (u32)((outer * s.size + index) * s.inner + position % s.inner);
#else
  return (u32)(outer * s.size + index);
#endif
}

// Rows that get nothing must be zero: all blocks together see to it while some sort.
__device__ __forceinline__ void clear(unsigned char* to, i64 bytes) {
  const i64 thread = (i64)blockIdx.x * blockDim.x + threadIdx.x, threads = (i64)gridDim.x * blockDim.x;
  const i64 before = (i64)((16 - ((u64)to & 15)) & 15), head = before < bytes ? before : bytes;
  uint4* whole = (uint4*)(to + head);
  const i64 packs = (bytes - head) / 16;
  const uint4 zero = {0, 0, 0, 0};
  for (i64 i = thread; i < packs; i += threads) whole[i] = zero;
  if (thread < head) to[thread] = 0;
  const i64 tail = head + packs * 16;
  if (thread < bytes - tail) to[tail + thread] = 0;
}

// ---- few positions: each is compared with all others; blocks of 32 positions, eight warps with an eighth of the
// others

extern "C" __global__ void __launch_bounds__(256) rank_keys(Source s, Moved moved, int count, int shift, u32* keys,
                                                            u32* places, unsigned char* cleared, i64 cleared_bytes) {
  begin_kernel();
  extern __shared__ uint4 shared[];
  COMPOSITE* all = (COMPOSITE*)shared;
  __shared__ int ranks[8][32];
  const int first = blockIdx.x * 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (first < count) {
    const int padded = (count + 63) / 64 * 64;  // an eighth is whole packs
    for (int i = threadIdx.x; i < padded; i += 256)
      all[i] = i < count ? ((COMPOSITE)key_of(s, i) << shift) | (COMPOSITE)i : (COMPOSITE)-1;
    __syncthreads();
    const int mine = first + lane < count ? first + lane : count - 1;
    const COMPOSITE me = all[mine];
    int rank = 0;
    const int eighth = padded / 8;
    const Pack<COMPOSITE, 4>* packs = (const Pack<COMPOSITE, 4>*)(all + warp * eighth);
    for (int p = 0; p < eighth / 4; ++p) {
      const Pack<COMPOSITE, 4> others = packs[p];
#pragma unroll
      for (int i = 0; i < 4; ++i) rank += others.at[i] < me ? 1 : 0;
    }
    ranks[warp][lane] = rank;
    __syncthreads();
    if (warp == 0 && first + lane < count) {
      for (int w = 1; w < 8; ++w) rank += ranks[w][lane];
      keys[rank] = (u32)(me >> shift);
      places[rank] = place_of(moved, (u32)mine);
    }
  }
  clear(cleared, cleared_bytes);
}

// ---- many: counting by a digit of the key, tile by tile, once for each digit, the lowest first

// counts[tile][digit]. The first pass makes the keys.
__device__ __forceinline__ void count_tile(const u32* keys, i64 count, int tile, int bins, int shift, u32 mask,
                                           u32* counts, u32* mine) {
  const i64 begin = (i64)blockIdx.x * tile, end = begin + tile < count ? begin + tile : count;
  for (i64 i = begin + threadIdx.x; i < end; i += blockDim.x) atomicAdd(mine + ((keys[i] >> shift) & mask), 1u);
  __syncthreads();
  for (int b = threadIdx.x; b < bins; b += blockDim.x) counts[(i64)blockIdx.x * bins + b] = mine[b];
}

extern "C" __global__ void __launch_bounds__(256)
    count_first(Source s, u32* keys, i64 count, int tile, int bins, int shift, u32 mask, u32* counts,
                unsigned char* cleared, i64 cleared_bytes) {
  begin_kernel();
  extern __shared__ uint4 shared[];
  u32* mine = (u32*)shared;
  for (int b = threadIdx.x; b < bins; b += blockDim.x) mine[b] = 0;
  const i64 begin = (i64)blockIdx.x * tile, end = begin + tile < count ? begin + tile : count;
  for (i64 i = begin + threadIdx.x; i < end; i += blockDim.x) keys[i] = key_of(s, i);
  __syncthreads();
  if (begin < count) count_tile(keys, count, tile, bins, shift, mask, counts, mine);
  clear(cleared, cleared_bytes);
}

extern "C" __global__ void __launch_bounds__(256)
    count_next(const u32* keys, i64 count, int tile, int bins, int shift, u32 mask, u32* counts) {
  begin_kernel();
  extern __shared__ uint4 shared[];
  u32* mine = (u32*)shared;
  for (int b = threadIdx.x; b < bins; b += blockDim.x) mine[b] = 0;
  __syncthreads();
  count_tile(keys, count, tile, bins, shift, mask, counts, mine);
}

// counts[tile][digit] becomes the sum over the tiles before; totals[digit] over all. Blocks of 32 digits × 8 groups of
// tiles.
extern "C" __global__ void __launch_bounds__(256) add_tiles(u32* counts, u32* totals, int tiles, int bins) {
  begin_kernel();
  __shared__ u32 sums[8][32];
  const int lane = threadIdx.x % 32, group = threadIdx.x / 32, digit = blockIdx.x * 32 + lane;
  const int share = (tiles + 7) / 8, begin = group * share, end = begin + share < tiles ? begin + share : tiles;
  u32 sum = 0;
  if (digit < bins) {
#pragma unroll 8
    for (int t = begin; t < end; ++t) sum += counts[(i64)t * bins + digit];
  }
  sums[group][lane] = sum;
  __syncthreads();
  if (digit >= bins) return;
  u32 before = 0, all = 0;
  for (int g = 0; g < 8; ++g) {
    if (g < group) before += sums[g][lane];
    all += sums[g][lane];
  }
  if (group == 0) totals[digit] = all;
#pragma unroll 8
  for (int t = begin; t < end; ++t) {
    const u32 here = counts[(i64)t * bins + digit];
    counts[(i64)t * bins + digit] = before;
    before += here;
  }
}

// The lanes whose digit is this lane's.
__device__ __forceinline__ u32 lanes_like(u32 digit) {
#ifdef VARVE_EMULATED
  u32 like = 0;
  for (int lane = 0; lane < 32; ++lane)
    if (__shfl_sync(0xffffffffu, digit, lane) == digit) like |= 1u << lane;
  return like;
#else
  return __match_any_sync(0xffffffffu, digit);
#endif
}

// Where each digit's elements of this tile begin: those of smaller digits, and those of equal ones in tiles before.
__device__ __forceinline__ void find_starts(const u32* counts, const u32* totals, int bins, u32* starts) {
  __shared__ u32 sums[8];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u32 carried = 0;
  for (int first = 0; first < bins; first += 256) {
    const int digit = first + threadIdx.x;
    const u32 total = digit < bins ? totals[digit] : 0;
    u32 sum = total;
    for (int d = 1; d < 32; d *= 2) {
      const u32 other = __shfl_up_sync(0xffffffffu, sum, d);
      if (lane >= d) sum += other;
    }
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    u32 before = carried;
    for (int w = 0; w < 8; ++w) {
      if (w < warp) before += sums[w];
      carried += sums[w];
    }
    if (digit < bins) starts[digit] = before + sum - total + counts[(i64)blockIdx.x * bins + digit];
    __syncthreads();
  }
}

// One warp puts a tile's elements where they belong, 32 at a time, so that equals keep their order. No `places`: the
// first pass, where positions are in order.
extern "C" __global__ void __launch_bounds__(256)
    place_digits(const u32* keys, const u32* places, i64 count, int tile, int bins, int shift, u32 mask,
                 const u32* counts, const u32* totals, Moved moved, u32* keys_out, u32* places_out) {
  begin_kernel();
  extern __shared__ uint4 shared[];
  u32* starts = (u32*)shared;
  find_starts(counts, totals, bins, starts);
  if (threadIdx.x >= 32) return;
  const int lane = threadIdx.x;
  const i64 begin = (i64)blockIdx.x * tile, end = begin + tile < count ? begin + tile : count;
  u32 next = begin + lane < end ? keys[begin + lane] : 0;
  for (i64 from = begin + lane; from - lane < end; from += 32) {
    const bool live = from < end;
    const u32 key = next, digit = live ? (key >> shift) & mask : 0xffffffffu;
    if (from + 32 < end) next = keys[from + 32];
    const u32 like = lanes_like(digit), before = (u32)__popc(like & ((1u << lane) - 1));
    const u32 start = live ? starts[digit] : 0;
    __syncwarp();
    if (live && before == 0) starts[digit] = start + (u32)__popc(like);
    __syncwarp();
    if (!live) continue;
    keys_out[start + before] = key;
    places_out[start + before] = places ? places[from] : place_of(moved, (u32)from);
  }
}
