// parts[z][O,3,3,C] of dw = Σ dy[q - (i - TOP) · PITCH - (j - LEFT)] · x[q], over a share of all places q: the gradient
// of the weights of kernels/conv_tiles.cu, whose places these are. All f32, products in TF32 (kernels/stream.cuh).
//   x   from kernels/conv_line.cu: [C][places], a tile is 64 channels and 32 places
//   dy  [N,OH,OW,O]: rows of PITCH places, of which the last LINES stay in shared memory, in two slabs of 32 channels
// A block has 64 · 64 weights of each tap. Four warps have a row of taps: for each tap a lane reads the numbers of dy
// it needs from the place that the tap says, and the tensor cores read x as it lies.

#define X_TILE (64 * 128)  // bytes
#define RING (LINES * PITCH)
#define SLAB ((RING * 128 + 1023) / 1024 * 1024)
#define REACH ((2 - TOP) * PITCH + 2 - LEFT)  // how far before a place of x the first of dy lies that meets it

__device__ __forceinline__ int floor_div(int a, int b) { return (a >= 0 ? a : a - b + 1) / b; }

extern "C" __global__ void __launch_bounds__(512, 1)
    conv_weights(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap dy, float* parts, int steps,
                 i64 outs, i64 ins) {
  begin_kernel();
  extern __shared__ __align__(1024) unsigned char memory[];
  unsigned char *const ring = memory, *const tiles = memory + 2 * SLAB;
  u64 *const full = (u64*)(tiles + STAGES * X_TILE), *const empty = full + STAGES;
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  const int first_step = (int)((i64)steps * blockIdx.z / gridDim.z);
  const int count = (int)((i64)steps * (blockIdx.z + 1) / gridDim.z) - first_step;
  const int first_line = floor_div(first_step * 32 - REACH, PITCH);
  prepare_barriers(full, empty, STAGES, 12);
  __syncthreads();

  // Four warps of which one thread brings tiles, so that the others may have their registers.
  if (warp >= 12) {
    fewer_registers<40>();
    if (warp > 12 || lane != 0) return;
    int line = first_line;  // the next to come
    for (int t = 0; t < count; ++t) {
      const int s = t % STAGES, place = (first_step + t) * 32;
      const int end = floor_div(place + 31 + TOP * PITCH + LEFT, PITCH) + 1;
      if (t >= STAGES) barrier_wait(empty + s, t / STAGES - 1);
      barrier_expect(full + s, X_TILE + (end - line) * 2 * PITCH * 128);
      load_tile<false>(tiles + s * X_TILE, &x, 0, (int)blockIdx.y * 64, first_step + t, full + s);
      for (; line < end; ++line) {
        const int image = floor_div(line, IMAGE), row = line - image * IMAGE;
        unsigned char* const to = ring + (line - first_line) % LINES * PITCH * 128;
        for (int slab = 0; slab < 2; ++slab)
          load_tile<false>(to + slab * SLAB, &dy, ((int)blockIdx.x * 2 + slab) * 32, 0,
                           row < OH ? image * OH + row : -1, full + s);
      }
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
  int base = (first_step * 32 - REACH - first_line * PITCH + (2 - row_of_taps) * PITCH + 2 * member) % RING;
  for (int t = 0; t < count; ++t) {
    const int s = t % STAGES;
    barrier_wait(full + s, t / STAGES);
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
      for (int j = 0; j < 3; ++j) multiply(sums[j], left[j], matrix(tiles + s * X_TILE, k));
      products_go();
      products_wait();
    }
    if (lane == 0) barrier_arrive(empty + s);
    base += 32;
    base = base >= RING ? base - RING : base;
  }

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
