// Attention and its gradient on tensor cores: bf16, or float rounded to TF32. A
// block has kRows queries (or keys), a warp 16·TILES of them; the keys (or queries) pass by, INNER at a time, while the
// next are in flight. Scores stay in registers: what one product leaves there, the next takes from there.
//   DEPTH == WIDTH, a multiple of 16
//   WARPS      of a block
//   TILES      of 16 rows, for each warp: what it reads of the other operand serves all of them
#pragma once

#include "kernels/async_copy.cuh"

#include "attention/attention.cuh"

constexpr int kThreads = 32 * WARPS, kWarpRows = 16 * TILES, kRows = kWarpRows * WARPS;
constexpr int kStep = 32 / sizeof(T);   // columns of a left operand's fragment
constexpr int kPiece = 16 / sizeof(T);  // elements in 16 bytes
constexpr int kRow = DEPTH + kPiece;    // elements from row to row of a tile: eight rows lie in different banks
constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
constexpr int kOuterTile = kRows * kRow, kInnerTile = INNER * kRow;

__device__ __forceinline__ int warp_row() { return (int)threadIdx.x / 32 * kWarpRows; }
__device__ __forceinline__ int lane() { return threadIdx.x % 32; }
__device__ __forceinline__ int lane_row() { return lane() / 4; }         // of a result: this and 8 further
__device__ __forceinline__ int lane_column() { return lane() % 4 * 2; }  // and the next

// ---- machine instructions

#ifdef VARVE_EMULATED
__device__ __forceinline__ float power_of_2(float x) { return exp2f(x); }
__device__ __forceinline__ u32 tf32_bits(float x) { return __float_as_uint(emu_tf32(x)); }
// Lane 8 m + r gives the address of row r of matrix m; a row has 16 bytes.
__device__ __forceinline__ void load_matrices(u32 (&to)[4], const T* row) {
  for (int m = 0; m < 4; ++m) to[m] = ((const u32*)__shfl_sync(0xffffffffu, (u64)row, 8 * m + lane() / 4))[lane() % 4];
}
__device__ __forceinline__ void load_transposed(u32 (&to)[4], const T* row) {
  for (int m = 0; m < 4; ++m) {
    const u16* low = (const u16*)__shfl_sync(0xffffffffu, (u64)row, 8 * m + lane() % 4 * 2);
    const u16* high = (const u16*)__shfl_sync(0xffffffffu, (u64)row, 8 * m + lane() % 4 * 2 + 1);
    to[m] = (u32)low[lane() / 4] | (u32)high[lane() / 4] << 16;
  }
}
#else
__device__ __forceinline__ float power_of_2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ u32 tf32_bits(float x) {
  u32 bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}
__device__ __forceinline__ void load_matrices(u32 (&to)[4], const T* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
__device__ __forceinline__ void load_transposed(u32 (&to)[4], const T* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
#endif

// What depends on the type: c += a·b for a: [16, kStep], b: [kStep, 8]; operands from floats and from memory.
template <class E>
struct Tensor;
template <>
struct Tensor<bf16> {
  static __device__ __forceinline__ void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
#ifdef VARVE_EMULATED
    const u32 b[2] = {b0, b1};
    emu_mma_m16n8k16_bf16(c, a, b, c);
#else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
  }
  static __device__ __forceinline__ void round(u32 (&)[4]) {}
  // Columns [k, k + 16) of results as a left operand.
  template <int n>
  static __device__ __forceinline__ void operand(u32 (&a)[4], const float (&results)[n][4], int k) {
    const float(&low)[4] = results[k / 8];
    const float(&high)[4] = results[k / 8 + 1];
    a[0] = bf16_pair(low[0], low[1]);
    a[1] = bf16_pair(low[2], low[3]);
    a[2] = bf16_pair(high[0], high[1]);
    a[3] = bf16_pair(high[2], high[3]);
  }
  static __device__ __forceinline__ void load_columns(u32 (&b)[4], const bf16* tile, int k, int n) {
    load_transposed(b, (const T*)tile + (k + lane() % 16) * kRow + n + lane() / 16 * 8);
  }
  static __device__ __forceinline__ void store(bf16* to, float x, float y) { *(u32*)to = bf16_pair(x, y); }
};
template <>
struct Tensor<float> {
  static __device__ __forceinline__ void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
#ifdef VARVE_EMULATED
    const u32 b[2] = {b0, b1};
    emu_mma_m16n8k8_tf32(c, a, b, c);
#else
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
  }
  static __device__ __forceinline__ void round(u32 (&bits)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) bits[i] = tf32_bits(__uint_as_float(bits[i]));
  }
  // A lane has two neighbouring columns of the results where a left operand has t and t + 4: the sum runs over them in
  // another order, even ones first, and load_columns takes the rows in that order too.
  template <int n>
  static __device__ __forceinline__ void operand(u32 (&a)[4], const float (&results)[n][4], int k) {
    const float(&r)[4] = results[k / 8];
    a[0] = tf32_bits(r[0]);
    a[1] = tf32_bits(r[2]);
    a[2] = tf32_bits(r[1]);
    a[3] = tf32_bits(r[3]);
  }
  static __device__ __forceinline__ void load_columns(u32 (&b)[4], const float* tile, int k, int n) {
    const float* at = tile + (k + lane_column()) * kRow + n + lane_row();
    b[0] = tf32_bits(at[0]);
    b[1] = tf32_bits(at[kRow]);
    b[2] = tf32_bits(at[8]);
    b[3] = tf32_bits(at[kRow + 8]);
  }
  static __device__ __forceinline__ void store(float* to, float x, float y) {
    to[0] = x;
    to[1] = y;
  }
};

// ---- products of tiles

// 16 rows of a left operand, or of a right one that is transposed, and kStep columns of them.
__device__ __forceinline__ void load_left(u32 (&a)[4], const T* rows, int k) {
  load_matrices(a, rows + lane() % 16 * kRow + k + lane() / 16 * kPiece);
  Tensor<T>::round(a);
}
__device__ __forceinline__ void load_right(u32 (&b)[4], const T* rows, int k) {
  load_matrices(b, rows + (lane() % 8 + lane() / 16 * 8) * kRow + k + lane() / 8 % 2 * kPiece);
  Tensor<T>::round(b);
}

// results += the rows of this warp of left · the rows of right, of which those from `begin` to `end` matter
template <int n>
__device__ __forceinline__ void multiply_rows(float (&results)[TILES][n / 8][4], const T* left, const T* right,
                                              int begin, int end) {
#pragma unroll
  for (int k = 0; k < DEPTH; k += kStep) {
    u32 a[TILES][4];
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) load_left(a[tile], left + (warp_row() + 16 * tile) * kRow, k);
#pragma unroll
    for (int j = 0; j < n; j += 16) {
      if (j + 16 <= begin || j >= end) continue;
      u32 b[4];
      load_right(b, right + j * kRow, k);
#pragma unroll
      for (int tile = 0; tile < TILES; ++tile) {
        Tensor<T>::multiply(results[tile][j / 8], a[tile], b[0], b[1]);
        Tensor<T>::multiply(results[tile][j / 8 + 1], a[tile], b[2], b[3]);
      }
    }
  }
}
// sums += weights · right, over its rows from `begin` to `end`: the weights of others are 0; for the first `tiles`
// tiles
template <int n, int tiles = TILES>
__device__ __forceinline__ void add_rows(float (&sums)[TILES][DEPTH / 8][4], const float (&weights)[TILES][n / 8][4],
                                         const T* right, int begin, int end) {
#pragma unroll
  for (int k = 0; k < n; k += kStep) {
    if (k + kStep <= begin || k >= end) continue;
    u32 a[tiles][4];
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) Tensor<T>::operand(a[tile], weights[tile], k);
#pragma unroll
    for (int j = 0; j < DEPTH; j += 16) {
      u32 b[4];
      Tensor<T>::load_columns(b, right, k, j);
#pragma unroll
      for (int tile = 0; tile < tiles; ++tile) {
        Tensor<T>::multiply(sums[tile][j / 8], a[tile], b[0], b[1]);
        Tensor<T>::multiply(sums[tile][j / 8 + 1], a[tile], b[2], b[3]);
      }
    }
  }
}
template <int n>
__device__ __forceinline__ void clear(float (&results)[TILES][n][4]) {
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
    for (int j = 0; j < n; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) results[tile][j][i] = 0;
}

// ---- tiles in memory

// Begins to copy rows [first, first + count) of a head, zeros past its end.
__device__ __forceinline__ void copy_rows(T* to, const T* head, const Operand& operand, i64 first, i64 rows,
                                          int count) {
  constexpr int pieces = DEPTH / kPiece;
  for (int at = threadIdx.x; at < count * pieces; at += kThreads) {
    const int r = at / pieces, c = at % pieces * kPiece;
    T* piece = to + r * kRow + c;
    const T* from = head + (first + r) * operand.row + c * operand.column;
    if (first + r >= rows) {
      *(uint4*)piece = make_uint4(0, 0, 0, 0);
    } else if (operand.aligned) {
      copy_piece(piece, from);
    } else {
#pragma unroll
      for (int v = 0; v < kPiece; ++v) piece[v] = from[v * operand.column];
    }
  }
}
template <int count>
__device__ __forceinline__ void copy_tile(T* to, const T* head, const Operand& operand, i64 first, i64 rows) {
  copy_rows(to, head, operand, first, rows, count);
}

// 16 rows of this warp's results, each times its factor, by way of as many in a tile that nobody else uses now.
template <int columns>
__device__ __forceinline__ void store_rows(const float (&results)[columns / 8][4], float low, float high, T* mine,
                                           T* head, const Operand& operand, i64 first, i64 rows) {
  constexpr int pieces = columns / kPiece, pitch = columns + kPiece;
  __syncwarp();
#pragma unroll
  for (int j = 0; j < columns / 8; ++j) {
    T* to = mine + lane_row() * pitch + 8 * j + lane_column();
    Tensor<T>::store(to, results[j][0] * low, results[j][1] * low);
    Tensor<T>::store(to + 8 * pitch, results[j][2] * high, results[j][3] * high);
  }
  __syncwarp();
  for (int at = lane(); at < 16 * pieces; at += 32) {
    const int r = at / pieces, c = at % pieces * kPiece;
    if (first + r >= rows) break;
    T* to = head + (first + r) * operand.row + c * operand.column;
    if (operand.aligned) {
      *(uint4*)to = *(const uint4*)(mine + r * pitch + c);
    } else {
#pragma unroll
      for (int v = 0; v < kPiece; ++v) to[v * operand.column] = mine[r * pitch + c + v];
    }
  }
}
// All of them, by way of this warp's rows of a tile.
__device__ __forceinline__ void store_results(const float (&results)[TILES][DEPTH / 8][4],
                                              const float (&factors)[TILES][2], T* tile, T* head,
                                              const Operand& operand, i64 first, i64 rows) {
#pragma unroll
  for (int t = 0; t < TILES; ++t) {
    const int row = warp_row() + 16 * t;
    store_rows<DEPTH>(results[t], factors[t][0], factors[t][1], tile + row * kRow, head, operand, first + row, rows);
  }
}

// Over the four lanes that share rows.
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ __forceinline__ int clamp_to(i64 n, int highest) { return n < 0 ? 0 : n > highest ? highest : (int)n; }

// p = 2^(s·scale - lse) where a query looks, 0 elsewhere, and ds = p·(dp - mean): they take the places of s and dp.
__device__ __forceinline__ void gradient_scores(float& s, float& dp, float scale, float lse, float mean, bool seen) {
  s = seen ? power_of_2(s * scale - lse) : 0.f;
  dp = s * (dp - mean);
}
