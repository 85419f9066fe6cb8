// The gradient of the weights of a convolution by 3×3 with stride 1: dw[O,3,3,C] from x[N,H,W,C] and dy[N,OH,OW,O], all
// f32, products in TF32 (kernels/tma.cuh).
//
// Think of all rows of all images as one line of places: each row has PITCH, of which those behind W are zeros, and
// each image has IMAGE rows, of which those behind H are. Neighbours share this padding. Then tap (i, j) meets place q
// of x with place q - (i - TOP) · PITCH - (j - LEFT) of dy, wherever q lies:
//   parts[z] of dw[i,j] = Σ dy[q - (i - TOP) · PITCH - (j - LEFT)] · x[q], over a share of all places q
//
// A block has 64 · 64 weights of each tap, and 32 places at a time. Of dy and x the last STRIPS and X_STRIPS strips of
// rows lie in shared memory, in two slabs of 32 channels. Tensor cores want TF32 along the sum, and images lie across:
//   x   three warps in turn make a tile of 64 channels of 32 places, once for all taps
//   dy  four warps have a row of taps: for each tap a lane reads the numbers it needs from the place that the tap says
#include "kernels/tma.cuh"

#include "generated.cuh"

#define TILE (64 * 128)  // bytes
#define STRIP (ROWS * PITCH)
#define RING (STRIPS * STRIP)
#define X_RING (X_STRIPS * STRIP)
#define SLAB ((RING * 128 + 1023) / 1024 * 1024)
#define X_SLAB ((X_RING * 128 + 1023) / 1024 * 1024)
#define REACH ((2 - TOP) * PITCH + 2 - LEFT)  // how far before a place of x the first of dy lies that meets it

__device__ __forceinline__ int floor_div(int a, int b) { return (a >= 0 ? a : a - b + 1) / b; }

// The strips of an image's ring: which come next.
struct Strips {
  const TensorMap* map;
  unsigned char* ring;
  int slab, count, channel;  // bytes of a slab, strips of the ring, the first channel
  int first, next;
  __device__ __forceinline__ void load_up_to(int end, u64* barrier) {
#pragma unroll 1
    for (; next < end; ++next) {
      const int row = next * ROWS, image = floor_div(row, IMAGE);
      unsigned char* const to = ring + (next - first) % count * (STRIP * 128);
      load_rows(to, map, channel, row - image * IMAGE, image, barrier);
      load_rows(to + slab, map, channel + 32, row - image * IMAGE, image, barrier);
    }
  }
};

// Piece `number` of the 128 of a tile, four channels of four places: such that the eight lanes that meet at the memory
// meet different banks when they read as when they write. Of each eight places, those of even number come first.
struct Piece {
  int slab, channels, places;  // pieces of 16 bytes along a row of x, and along one of the tile
  __device__ __forceinline__ explicit Piece(int number) {
    const int i = number % 8;
    slab = number / 64;
    channels = i;
    places = (i >> 2 | (i & 3) << 1) ^ number / 8 % 8;
  }
  // `first`: the place in the ring of the tile's first.
  __device__ __forceinline__ void turn(const unsigned char* ring, int first, unsigned char* tile) const {
    float4 from[4];
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      const int at = first + places / 2 * 8 + 2 * p + places % 2, row = at >= X_RING ? at - X_RING : at;
      from[p] = *(const float4*)(ring + slab * X_SLAB + place(row, 4 * channels));
    }
    const auto row_of = [&](int c, float a, float b, float d, float e) {
      *(uint4*)(tile + place(slab * 32 + 4 * channels + c, 4 * places)) =
          make_uint4(tf32_round(a), tf32_round(b), tf32_round(d), tf32_round(e));
    };
    row_of(0, from[0].x, from[1].x, from[2].x, from[3].x);
    row_of(1, from[0].y, from[1].y, from[2].y, from[3].y);
    row_of(2, from[0].z, from[1].z, from[2].z, from[3].z);
    row_of(3, from[0].w, from[1].w, from[2].w, from[3].w);
  }
};

extern "C" __global__ void __launch_bounds__(512, 1)
    conv_weight_grad_3x3(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap dy, float* parts,
                         int steps, i64 outs, i64 ins) {
  begin_kernel();
  extern __shared__ __align__(1024) unsigned char memory[];
  unsigned char *const ring = memory, *const x_ring = ring + 2 * SLAB, *const tiles = x_ring + 2 * X_SLAB;
  u64 *const full = (u64*)(tiles + TILES * TILE), *const empty = full + STAGES;
  u64 *const transposed = empty + STAGES, *const unused = transposed + TILES;
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  const int first_step = (int)((i64)steps * blockIdx.z / gridDim.z);
  const int count = (int)((i64)steps * (blockIdx.z + 1) / gridDim.z) - first_step;
  const int first_strip = floor_div(first_step * 32 - REACH, STRIP), first_x_strip = first_step * 32 / STRIP;
  prepare_barriers(full, empty, STAGES, 12 + 3);
  prepare_barriers(unused, transposed, TILES, 1);
  __syncthreads();

  if (warp >= 12) {
    fewer_registers<56>();
    if (warp == 12) {
      if (lane != 0) return;
      Strips of_dy{&dy, ring, SLAB, STRIPS, (int)blockIdx.x * 64, first_strip, first_strip};
      Strips of_x{&x, x_ring, X_SLAB, X_STRIPS, (int)blockIdx.y * 64, first_x_strip, first_x_strip};
      for (int t = 0; t < count; ++t) {
        const int s = t % STAGES, last = (first_step + t) * 32 + 31;
        const int end = floor_div(last + TOP * PITCH + LEFT, STRIP) + 1, x_end = last / STRIP + 1;
        if (t >= STAGES) barrier_wait(empty + s, t / STAGES - 1);
        barrier_expect(full + s, (end - of_dy.next + x_end - of_x.next) * 2 * STRIP * 128);
        of_x.load_up_to(x_end, full + s);
        of_dy.load_up_to(end, full + s);
      }
      return;
    }
    for (int t = warp - 13, seen = 0; t < count; t += 3) {
      const int base = ((first_step + t) * 32 - first_x_strip * STRIP) % X_RING;
      // What it needs may have been asked for with earlier steps, which this warp left to the others.
      for (; seen <= t; ++seen) {
        barrier_wait(full + seen % STAGES, seen / STAGES);
        __syncwarp();
        if (lane == 0) barrier_arrive(empty + seen % STAGES);
      }
      if (t >= TILES) barrier_wait(empty + (t - TILES) % STAGES, (t - TILES) / STAGES);
#pragma unroll 2
      for (int number = lane; number < 128; number += 32) Piece(number).turn(x_ring, base, tiles + t % TILES * TILE);
      tile_is_written();
      __syncwarp();
      if (lane == 0) barrier_arrive(transposed + t % TILES);
    }
    return;
  }

  more_registers<152>();
  const int row_of_taps = warp / 4, group = lane / 4, member = lane % 4;
  const unsigned char* const mine = ring + warp % 4 / 2 * SLAB;
  const int column = warp % 2 * 16 + 2 * group;
  float sums[3][32] = {};
  // Where, in the ring, the first number of dy lies that the first tap of this row wants next, a lane's own place
  // apart.
  int base = (first_step * 32 - REACH - first_strip * STRIP + (2 - row_of_taps) * PITCH + 2 * member) % RING;
  for (int t = 0; t < count; ++t) {
    const unsigned char* const tile = tiles + t % TILES * TILE;
    barrier_wait(full + t % STAGES, t / STAGES);
    barrier_wait(transposed + t % TILES, t / TILES);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      // Neighbouring taps want neighbouring places: four are enough for two of each of three taps.
      uint2 places[4];
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        const int at = base + 8 * k + p;
        places[p] = *(const uint2*)(mine + place(at >= RING ? at - RING : at, column));
      }
      u32 left[3][4];
#pragma unroll
      for (int j = 0; j < 3; ++j)
#pragma unroll
        for (int v = 0; v < 2; ++v) {
          left[j][2 * v] = places[v + 2 - j].x;
          left[j][2 * v + 1] = places[v + 2 - j].y;
        }
      products_begin();
#pragma unroll
      for (int j = 0; j < 3; ++j) multiply(sums[j], left[j], matrix(tile, k));
      products_go();
      products_wait_but_last();
      if (k == 0 && t > 0 && lane == 0) barrier_arrive(empty + (t - 1) % STAGES);
    }
    base += 32;
    base = base >= RING ? base - RING : base;
  }
  products_wait();

  parts += (i64)blockIdx.z * outs * 9 * ins;
#pragma unroll
  for (int j = 0; j < 3; ++j)
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      const i64 out = (i64)blockIdx.x * 64 + warp % 4 * 16 + 2 * group + u;
      float* const to = parts + (out * 9 + row_of_taps * 3 + j) * ins + (i64)blockIdx.y * 64 + 2 * member;
#pragma unroll
      for (int n = 0; n < 8; ++n)
        *(float2*)(to + 8 * n) = make_float2(sums[j][4 * n + 2 * u], sums[j][4 * n + 2 * u + 1]);
    }
}
