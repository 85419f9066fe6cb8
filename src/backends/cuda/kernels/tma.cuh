// Tiles of matrices that TMA brings to shared memory and takes back, many of them in flight at once, and
// products of whole tiles by four warps. For compute capability 9.0 alone.
//
// A tile is slabs of rows of 128 bytes (a TensorMap says of what). In shared memory a slab begins on 1024 bytes, and of
// row r the 16 bytes number c lie at place c ^ (r % 8): lanes that read along a column meet different banks. Numbers of
// 16 bits come in rows of 64 bytes, two of which share 128: there it is c ^ (r / 2 % 4).
#pragma once

#include "kernels/prelude.cuh"

struct __align__(64) TensorMap {  // CUtensorMap
  u64 words[16];
};

// The 4 bytes of column `column` in a row.
__device__ __forceinline__ int place(int row, int column) {
  return row * 128 + ((column / 4) ^ (row % 8)) * 16 + column % 4 * 4;
}

// The two bytes of column `column` in a row of 64.
__device__ __forceinline__ int half_place(int row, int column) {
  return row * 64 + ((column / 8) ^ (row / 2 % 4)) * 16 + column % 8 * 2;
}

#ifdef VARVE_EMULATED
__device__ __forceinline__ void barrier_init(u64* barrier, int arrivals) { emu_mbarrier_init(barrier, arrivals); }
__device__ __forceinline__ void barriers_ready() {}
__device__ __forceinline__ void barrier_expect(u64* barrier, int bytes) { emu_mbarrier_arrive(barrier, bytes); }
__device__ __forceinline__ void barrier_arrive(u64* barrier) { emu_mbarrier_arrive(barrier); }
__device__ __forceinline__ void barrier_wait(u64* barrier, int round) { emu_mbarrier_wait(barrier, round); }
template <bool kOnce>
__device__ __forceinline__ void load_tile(void* to, const TensorMap* map, int column, int row, int slab, u64* barrier) {
  emu_tensor_load(to, map, column, row, slab, 0, barrier);
}
__device__ __forceinline__ void load_rows(void* to, const TensorMap* map, int channel, int row, int image,
                                          u64* barrier) {
  emu_tensor_load(to, map, channel, 0, row, image, barrier);
}
__device__ __forceinline__ void store_tile(const TensorMap* map, const void* from, int column, int row, int slab) {
  emu_tensor_store(map, from, column, row, slab);
}
__device__ __forceinline__ void stores_end() {}
__device__ __forceinline__ void stores_but_one_are_read() {}
__device__ __forceinline__ void stores_are_done() {}
__device__ __forceinline__ void tile_is_written() {}

template <int kRegisters>
__device__ __forceinline__ void more_registers() {}
template <int kRegisters>
__device__ __forceinline__ void fewer_registers() {}

typedef const unsigned char* Matrix;
__device__ __forceinline__ Matrix matrix(const void* slab, int k) { return (const unsigned char*)slab + 32 * k; }
__device__ __forceinline__ void products_begin() {}
__device__ __forceinline__ void products_go() {}
__device__ __forceinline__ void products_wait() {}
__device__ __forceinline__ void products_wait_but_last() {}
__device__ __forceinline__ void multiply(float (&d)[32], const u32 (&a)[4], Matrix b) {
  emu_wgmma_m64n64k8_tf32(d, a, b);
}
__device__ __forceinline__ void multiply(float (&d)[32], Matrix a, Matrix b) { emu_wgmma_tf32(d, a, b); }
__device__ __forceinline__ Matrix half_matrix(const void* slab, int k) { return (const unsigned char*)slab + 32 * k; }
__device__ __forceinline__ void multiply_halves(float (&d)[32], const u32 (&a)[4], Matrix b, bf16) {
  emu_wgmma_m64n64k16_bf16(d, a, b);
}
__device__ __forceinline__ void multiply_halves(float (&d)[32], const u32 (&a)[4], Matrix b, f16) {
  emu_wgmma_m64n64k16_f16(d, a, b);
}
#else
// A barrier is an 8-byte word of shared memory. It counts arrivals, and the bytes that are in flight to the tile it
// stands for; when all are there its round ends, and the next begins.
__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void barrier_init(u64* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals));
}
// After they were set up, before others see them.
__device__ __forceinline__ void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void barrier_expect(u64* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void barrier_arrive(u64* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
__device__ __forceinline__ void barrier_wait(u64* barrier, int round) {
  asm volatile(
      "{\n.reg .pred over;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
      "@!over bra again;\n}"
      :
      : "r"(shared_address(barrier)), "r"(round & 1)
      : "memory");
}

// kOnce: nobody reads it again soon, so it need not stay in the cache.
template <bool kOnce>
__device__ __forceinline__ void load_tile(void* to, const TensorMap* map, int column, int row, int slab, u64* barrier) {
#define LOAD "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
  if (kOnce) {
    u64 policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile(LOAD ".L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6;"
                 :
                 : "r"(shared_address(to)), "l"(map), "r"(column), "r"(row), "r"(slab), "r"(shared_address(barrier)),
                   "l"(policy)
                 : "memory");
  } else {
    asm volatile(LOAD " [%0], [%1, {%2, %3, %4}], [%5];"
                 :
                 : "r"(shared_address(to)), "l"(map), "r"(column), "r"(row), "r"(slab), "r"(shared_address(barrier))
                 : "memory");
  }
#undef LOAD
}
// Whole rows of an image, from their first pixel on.
__device__ __forceinline__ void load_rows(void* to, const TensorMap* map, int channel, int row, int image,
                                          u64* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];"
      :
      : "r"(shared_address(to)), "l"(map), "r"(channel), "r"(0), "r"(row), "r"(image), "r"(shared_address(barrier))
      : "memory");
}

// By one thread: some stores, the end of that group of them, and the waits.
__device__ __forceinline__ void store_tile(const TensorMap* map, const void* from, int column, int row, int slab) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];"
               :
               : "l"(map), "r"(column), "r"(row), "r"(slab), "r"(shared_address(from))
               : "memory");
}
__device__ __forceinline__ void stores_end() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// All groups but the last have left shared memory.
__device__ __forceinline__ void stores_but_one_are_read() {
  asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
}
__device__ __forceinline__ void stores_are_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
// By each thread that wrote into a tile, before TMA takes it.
__device__ __forceinline__ void tile_is_written() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Four warps that only bring tiles leave registers to those that compute.
template <int kRegisters>
__device__ __forceinline__ void more_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}
template <int kRegisters>
__device__ __forceinline__ void fewer_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

// Eight numbers, from 8 · k on, of each of 64 rows of a slab, or sixteen of 16 bits from 16 · k on: as the tensor cores
// are told where an operand lies.
typedef u64 Matrix;
__device__ __forceinline__ Matrix matrix_in(const void* slab, int k, int row_bytes, u64 transposed) {
  const u64 whole_rows = 1, eight_rows = 8 * row_bytes >> 4;
  return ((u64)shared_address(slab) >> 4 & 0x3fff) + 2 * k | whole_rows << 16 | eight_rows << 32 | transposed << 62;
}
__device__ __forceinline__ Matrix matrix(const void* slab, int k) { return matrix_in(slab, k, 128, 1); }
__device__ __forceinline__ Matrix half_matrix(const void* slab, int k) { return matrix_in(slab, k, 64, 2); }

// d[64,64] += a[64,8] · b[64,8]ᵀ in TF32, or of sixteen columns of 16 bits, by four warps, after products_begin; they
// are computed between products_go and products_wait, and until then nobody may touch d or a's registers. Lane
// 4 · group + member of warp w has of d[4 · j + 2 · u + e] row 16 · w + 8 · u + group, column 8 · j + 2 · member + e,
// and of a[2 · v + u] the same row, column 4 · v + member, or the pair of columns from 8 · v + 2 · member on.
__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void products_go() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void products_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
// For all but those of the last products_go.
__device__ __forceinline__ void products_wait_but_last() {
  asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
}
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define WGMMA(instruction, left, right_and_signs, ...)                                                                 \
  asm volatile("wgmma.mma_async.sync.aligned." instruction                                                             \
               " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                              \
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, " left                \
               ", " right_and_signs ";"                                                                                \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),       \
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), \
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]),            \
                 "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),            \
                 "+f"(d[30]), "+f"(d[31])                                                                              \
               : __VA_ARGS__)
#define WGMMA_WORDS(instruction, signs) \
  WGMMA(instruction, "{%32, %33, %34, %35}", "%36, " signs, "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#else
#define WGMMA(...)
#define WGMMA_WORDS(...)
#endif
__device__ __forceinline__ void multiply(float (&d)[32], const u32 (&a)[4], Matrix b) {
  WGMMA_WORDS("m64n64k8.f32.tf32.tf32", "1, 1, 1");
}
__device__ __forceinline__ void multiply(float (&d)[32], Matrix a, Matrix b) {
  WGMMA("m64n64k8.f32.tf32.tf32", "%32", "%33, 1, 1, 1", "l"(a), "l"(b));
}
__device__ __forceinline__ void multiply_halves(float (&d)[32], const u32 (&a)[4], Matrix b, bf16) {
  WGMMA_WORDS("m64n64k16.f32.bf16.bf16", "1, 1, 1, 0");
}
__device__ __forceinline__ void multiply_halves(float (&d)[32], const u32 (&a)[4], Matrix b, f16) {
  WGMMA_WORDS("m64n64k16.f32.f16.f16", "1, 1, 1, 0");
}
#undef WGMMA_WORDS
#undef WGMMA
#endif

// Which tiles a block has: it is number `stripe` of the stripes that a matrix is cut into, and of the blocks that share
// the stripe number `split` of `splits`: it has every splits-th of the stripe's tiles, or of so many of them
// `together`, from number `split` on: `count` tiles.
struct Share {
  int stripe, split, splits, together, count;
  __device__ __forceinline__ Share(int tiles, int stripes, int together_ = 1)
      : stripe((int)blockIdx.x % stripes),
        split((int)blockIdx.x / stripes),
        splits((int)gridDim.x / stripes),
        together(together_) {
    const int groups = (tiles + together - 1) / together, mine = (groups - split + splits - 1) / splits;
    const bool last = (groups - 1 - split) % splits == 0;  // is mine
    count = mine * together - (last ? groups * together - tiles : 0);
  }
  __device__ __forceinline__ int tile(int number) const {
    return (split + number / together * splits) * together + number % together;
  }
};

// Two barriers for each of so many stages: one ends when its tiles have come, the other when as many warps have arrived
// there.
__device__ __forceinline__ void prepare_barriers(u64* full, u64* free, int stages, int warps) {
  if (threadIdx.x == 0) {
    for (int s = 0; s < stages; ++s) {
      barrier_init(full + s, 1);
      barrier_init(free + s, warps);
    }
    barriers_ready();
  }
}

// To the nearest TF32, of whose word tensor cores read the upper 19 bits. NaN stays what it is.
__device__ __forceinline__ u32 tf32_round(float x) {
  const u32 bits = __float_as_uint(x);
  return x == x ? bits + 0x1000u : bits;
}

// Two numbers as one word of the tensor cores.
__device__ __forceinline__ u32 pair_of(float first, float second, bf16) { return bf16_pair(first, second); }
__device__ __forceinline__ u32 pair_of(float first, float second, f16) { return f16_pair(first, second); }
