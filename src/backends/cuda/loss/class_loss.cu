// Cross entropy of many classes in one pass over the logits: a row is read once, into registers; its loss is written,
// its gradient goes over the logits, and what it adds to the bias's gradient stays in registers until a block has seen
// all its rows.
//   T          type of the logits and of all gradients but that of the losses
//   LOSS       type of the losses and of their gradient
//   LABEL      type of the labels; everything is computed in float
//   COLUMNS    classes
//   THREADS    of a block
//   VEC        elements that are read at once, as one WORDS: 4, or 1
//   KEPT       1: a row waits in shared memory, each thread's part for itself; 0: in registers
//   EACH       1: the gradient is multiplied with one element for each row, 0: with a number
#include "kernels/prelude.cuh"

#include "generated.cuh"

typedef float W;
#define PACKS ((COLUMNS + THREADS * VEC - 1) / (THREADS * VEC))

#if KEPT
extern __shared__ __align__(16) float kept[];
#define VALUE(p, v) kept[((p)*THREADS + (int)threadIdx.x) * VEC + (v)]
#else
#define VALUE(p, v) values[p][v]
#endif

union Pack {
#if VEC > 1
  WORDS words;
#endif
  T items[VEC];
};

__device__ __forceinline__ void load(const T* from, W* to) {
  Pack pack;
#if VEC > 1
  pack.words = *(const WORDS*)from;
#else
  pack.items[0] = *from;
#endif
#pragma unroll
  for (int v = 0; v < VEC; ++v) to[v] = widen<W>(pack.items[v]);
}

__device__ __forceinline__ void store(T* to, const W* from) {
  Pack pack;
#pragma unroll
  for (int v = 0; v < VEC; ++v) pack.items[v] = narrow<T>(from[v]);
#if VEC > 1
  *(WORDS*)to = pack.words;
#else
  *to = pack.items[0];
#endif
}

// Blocks take rows in turn: which rows meet in which sum is fixed by the number of blocks.
extern "C" __global__ void __launch_bounds__(THREADS, 1024 / THREADS)
    class_loss(const T* logits, const LABEL* labels, const LOSS* dloss, W given, LOSS* losses, T* dlogits, W* parts,
               u64* errors, int text, i64 rows) {
  begin_kernel();
  __shared__ W shared[2][32];
  const W nan = __uint_as_float(0x7fc00000u);
  W sums[PACKS][VEC] = {};
  for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
    const i64 at = row * COLUMNS, label = (i64)labels[row];
    const bool known = label >= 0 && label < COLUMNS;
    const W target = known ? widen<W>(logits[at + label]) : nan;
    const W scale = EACH ? widen<W>(dloss[row]) : given;
#if !KEPT
    W values[PACKS][VEC];
#endif
    W most = __uint_as_float(0xff800000u);
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      const int column = (p * THREADS + (int)threadIdx.x) * VEC;
      if (column >= COLUMNS) continue;
      load(logits + at + column, &VALUE(p, 0));
#pragma unroll
      for (int v = 0; v < VEC; ++v) most = VALUE(p, v) > most || VALUE(p, v) != VALUE(p, v) ? VALUE(p, v) : most;
    }
    most = block_max(most, shared[0]);  // and everybody has read the target
    W sum = 0;
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      if ((p * THREADS + (int)threadIdx.x) * VEC >= COLUMNS) continue;
#pragma unroll
      for (int v = 0; v < VEC; ++v) {
        VALUE(p, v) = exp(VALUE(p, v) - most);
        sum += VALUE(p, v);
      }
    }
    sum = block_sum(sum, shared[1]);
    const W log_p = target - most - log(sum);  // NaN for an unknown label
    if (threadIdx.x == 0) {
      if (!known) note(errors, text, label);
      losses[row] = narrow<LOSS>(-log_p);
    }
    const W weight = known ? scale / sum : nan;
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      const int column = (p * THREADS + (int)threadIdx.x) * VEC;
      if (column >= COLUMNS) continue;
#pragma unroll
      for (int v = 0; v < VEC; ++v) {
        VALUE(p, v) *= weight;
        // p - 1 without cancellation for a class that is almost certain
        if (column + v == label) VALUE(p, v) = expm1(log_p) * scale;
        sums[p][v] += VALUE(p, v);
      }
      store(dlogits + at + column, &VALUE(p, 0));
    }
  }
#pragma unroll
  for (int p = 0; p < PACKS; ++p) {
    const int column = (p * THREADS + (int)threadIdx.x) * VEC;
    if (column >= COLUMNS) continue;
#pragma unroll
    for (int v = 0; v < VEC; ++v) parts[(i64)blockIdx.x * COLUMNS + column + v] = sums[p][v];
  }
}

// The sums of all blocks, for 32 columns by 32 × 8 threads.
extern "C" __global__ void __launch_bounds__(256) class_loss_sums(const W* parts, T* sums, int blocks) {
  begin_kernel();
  __shared__ W shared[8][33];
  const int column = (int)blockIdx.x * 32 + (int)threadIdx.x;
  W sum = 0;
  if (column < COLUMNS)
    for (int b = threadIdx.y; b < blocks; b += 8) sum += parts[(i64)b * COLUMNS + column];
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= COLUMNS) return;
  for (int y = 1; y < 8; ++y) sum += shared[y][threadIdx.x];
  sums[column] = narrow<T>(sum);
}
