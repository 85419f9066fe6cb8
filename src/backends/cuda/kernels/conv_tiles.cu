// y[N,OH,OW,O] = x[N,H,W,I] by w[O,KH,KW,I], stride 1, all of type T: f32, with products in TF32, or bf16 or f16
// (kernels/stream.cuh).
//
// Think of all rows of all images as one line of places: each row has PITCH, of which those behind W are zeros, and
// each image has IMAGE rows, of which those behind H are. Neighbours share this padding. Then tap (i, j) of place q
// reads place q + (i - TOP) · PITCH + (j - LEFT), and a tile of neighbours reads neighbours, whatever the tap. What is
// computed for places that are padding is not stored.
//
// A block has two teams of four warps, of 64 · BLOCKS places each, and COLUMNS outputs. For every slab of 128 bytes of
// inputs the STRIPS of ROWS rows that hold the tile's places, and those its taps reach, come to shared memory once,
// and the weights tap by tap. Where several blocks share the inputs (gridDim.z), y is parts[…][N,OH,OW,O] of f32 that
// stream_sum adds; its type is Y.
//   what follows (kernels/stream_after.cuh): where a block has whole sums

#define PLACES (2 * 64 * BLOCKS)
#define STRIP (ROWS * PITCH)                                  // places
#define REGION ((STRIPS * STRIP * 128 + 1023) / 1024 * 1024)  // bytes
#define WEIGHTS (COLUMNS * 128)
#define TAPS (KH * KW)
#define AHEAD (STAGES < TAPS ? STAGES : TAPS - 1)  // the tap at which the next inputs are asked for

__device__ __forceinline__ int floor_div(int a, int b) { return (a >= 0 ? a : a - b + 1) / b; }

// d[64,COLUMNS] += a[64,·] · b[COLUMNS,·]ᵀ of 32 bytes of each row of two slabs, as kernels/stream.cuh has it; = where
// it is the first: sums that other instructions set to 0 would hold the tensor cores up.
typedef float Sums[COLUMNS / 2];
#ifdef VARVE_EMULATED
__device__ __forceinline__ void add_product(Sums& d, Matrix a, Matrix b, float) { emu_wgmma_tf32(d, a, b); }
__device__ __forceinline__ void add_product(Sums& d, Matrix a, Matrix b, bf16) { emu_wgmma_bf16(d, a, b); }
__device__ __forceinline__ void add_product(Sums& d, Matrix a, Matrix b, f16) { emu_wgmma_f16(d, a, b); }
template <class E>
__device__ __forceinline__ void multiply_slabs(Sums& d, Matrix a, Matrix b, bool first, E kind) {
  if (first)
    for (float& sum : d) sum = 0;
  add_product(d, a, b, kind);
}
#else
#define FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)
#define NAMES_32                                                                                                   \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_64                                                                                                \
  NAMES_32                                                                                                      \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, " \
  "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#ifndef __CUDA_ARCH_FEAT_SM90_ALL
#define MULTIPLY(kind, signs)
#elif COLUMNS == 64
#define MULTIPLY(kind, signs)                                                               \
  asm volatile(                                                                             \
      "{\n.reg .pred more;\nsetp.eq.s32 more, %34, 0;\n"                                    \
      "wgmma.mma_async.sync.aligned.m64n64" kind " {" NAMES_32 "}, %32, %33, " signs ";\n}" \
      : SIXTEEN(0), SIXTEEN(16)                                                             \
      : "l"(a), "l"(b), "r"((int)first))
#else
#define MULTIPLY(kind, signs)                                                                \
  asm volatile(                                                                              \
      "{\n.reg .pred more;\nsetp.eq.s32 more, %66, 0;\n"                                     \
      "wgmma.mma_async.sync.aligned.m64n128" kind " {" NAMES_64 "}, %64, %65, " signs ";\n}" \
      : SIXTEEN(0), SIXTEEN(16), SIXTEEN(32), SIXTEEN(48)                                    \
      : "l"(a), "l"(b), "r"((int)first))
#endif
__device__ __forceinline__ void multiply_slabs(Sums& d, Matrix a, Matrix b, bool first, float) {
  MULTIPLY("k8.f32.tf32.tf32", "more, 1, 1");
}
__device__ __forceinline__ void multiply_slabs(Sums& d, Matrix a, Matrix b, bool first, bf16) {
  MULTIPLY("k16.f32.bf16.bf16", "more, 1, 1, 0, 0");
}
__device__ __forceinline__ void multiply_slabs(Sums& d, Matrix a, Matrix b, bool first, f16) {
  MULTIPLY("k16.f32.f16.f16", "more, 1, 1, 0, 0");
}
#endif

__device__ __forceinline__ void store_two(float* y, float first, float second) {
  *(float2*)y = make_float2(first, second);
}
template <class Half>
__device__ __forceinline__ void store_two(Half* y, float first, float second) {
  *(u32*)y = pair_of(first, second, Half());
}

extern "C" __global__ void __launch_bounds__(288, 1)
    conv_tiles(const __grid_constant__ TensorMap w, const __grid_constant__ TensorMap x, const T* bias, Y* y,
               int images, i64 outs, int slabs) {
  begin_kernel();
  extern __shared__ __align__(1024) unsigned char memory[];
  unsigned char *const regions = memory, *const weights = memory + 2 * REGION;
  u64 *const full = (u64*)(weights + STAGES * WEIGHTS), *const empty = full + STAGES;
  u64 *const come = empty + STAGES, *const read = come + 2;
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  const int share = slabs / (int)gridDim.z, first_slab = share * (int)blockIdx.z;
  const int first_place = (int)blockIdx.x * PLACES, first_read = first_place - TOP * PITCH - LEFT;
  const int first_strip = floor_div(first_read, STRIP), shift = first_read - first_strip * STRIP;
  prepare_barriers(full, empty, STAGES, 8);
  prepare_barriers(come, read, 2, 8);
  __syncthreads();

  if (warp == 8) {
    if (lane != 0) return;
    const auto load_region = [&](int c) {
      unsigned char* const region = regions + c % 2 * REGION;
      barrier_expect(come + c % 2, STRIPS * STRIP * 128);
      for (int i = 0; i < STRIPS; ++i) {
        const int row = (first_strip + i) * ROWS, image = floor_div(row, IMAGE);
        load_rows(region + i * STRIP * 128, &x, (first_slab + c) * (128 / (int)sizeof(T)), row - image * IMAGE, image,
                  come + c % 2);
      }
    };
    load_region(0);
    int step = 0;
    for (int c = 0; c < share; ++c)
      for (int tap = 0; tap < TAPS; ++tap, ++step) {
        const int s = step % STAGES;
        if (step >= STAGES) barrier_wait(empty + s, step / STAGES - 1);
        barrier_expect(full + s, WEIGHTS);
        load_tile<false>(weights + s * WEIGHTS, &w, 0, (int)blockIdx.y * COLUMNS, tap * slabs + first_slab + c,
                         full + s);
        if (tap != AHEAD || c + 1 == share) continue;
        if (c > 0) barrier_wait(read + (c + 1) % 2, (c + 1) / 2 - 1);
        load_region(c + 1);
      }
    return;
  }

  const int team = warp / 4, group = lane / 4, member = lane % 4;
  Sums sums[BLOCKS];
  int step = 0;
  for (int c = 0; c < share; ++c) {
    const unsigned char* const places = regions + c % 2 * REGION + (shift + team * 64 * BLOCKS) * 128;
    barrier_wait(come + c % 2, c / 2);
    for (int i = 0; i < KH; ++i)
      for (int j = 0; j < KW; ++j, ++step) {
        const int s = step % STAGES;
        const unsigned char* const mine = places + (i * PITCH + j) * 128;
        barrier_wait(full + s, step / STAGES);
        products_begin();
#pragma unroll
        for (int k = 0; k < 4; ++k)
#pragma unroll
          for (int b = 0; b < BLOCKS; ++b)
            multiply_slabs(sums[b], matrix(mine + b * 64 * 128, k), matrix(weights + s * WEIGHTS, k),
                           step == 0 && k == 0, T());
        products_go();
        products_wait_but_last();
        if (lane != 0 || step == 0) continue;
        barrier_arrive(empty + (step - 1) % STAGES);
        if (step % TAPS == 0) barrier_arrive(read + (c - 1) % 2);
      }
  }
  products_wait();

  y += (i64)blockIdx.z * images * (OH * OW) * outs;
  const i64 first_column = (i64)blockIdx.y * COLUMNS + 2 * member;
#pragma unroll
  for (int b = 0; b < BLOCKS; ++b)
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      const int place = first_place + (team * BLOCKS + b) * 64 + warp % 4 * 16 + 8 * u + group;
      const int line = place / PITCH, column = place % PITCH, image = line / IMAGE, row = line % IMAGE;
      if (image >= images || row >= OH || column >= OW) continue;
      Y* const to = y + (((i64)image * OH + row) * OW + column) * outs;
#pragma unroll
      for (int j = 0; j < COLUMNS / 8; ++j) {
        const i64 n = first_column + 8 * j;
        store_two(to + n, finished(sums[b][4 * j + 2 * u], bias, n), finished(sums[b][4 * j + 2 * u + 1], bias, n + 1));
      }
    }
}
