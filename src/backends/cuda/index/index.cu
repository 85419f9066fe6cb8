// Reading at positions that are themselves tensors. An index out of range is noted, gives 0 and touches no memory.
// INDEX: the type of indices. Elements are only moved, so their size is all that matters.
#include "kernels/prelude.cuh"

#include "generated.cuh"

struct alignas(16) Sixteen {
  u64 low, high;
  __device__ __forceinline__ explicit Sixteen(u64 x) : low(x), high(0) {}
};

// Calls f with the zero of a type of so many bytes.
template <class F>
__device__ __forceinline__ void with_bytes(int bytes, F f) {
  if (bytes == 16)
    f(Sixteen(0));
  else if (bytes == 8)
    f((u64)0);
  else if (bytes == 4)
    f((u32)0);
  else if (bytes == 2)
    f((u16)0);
  else
    f((unsigned char)0);
}

// 64-bit divisions are slow, and most numbers small.
__device__ __forceinline__ i64 quotient(i64 a, i64 b) {
  return (((u64)a | (u64)b) >> 32) == 0 ? (i64)((u32)a / (u32)b) : a / b;
}

__device__ __forceinline__ bool holds(i64 index, i64 size, u64* errors, int text) {
  const bool inside = index >= 0 && index < size;
  if (!inside) note(errors, text, index);
  return inside;
}

// y[o, j, :] = x[o, indices[j], :], rows of `units` units of so many bytes. Blocks of threads: along a row, by rows.
extern "C" __global__ void gather_rows(const void* x, const INDEX* indices, void* y, i64 outer, i64 count, i64 size,
                                       i64 units, int bytes, u64* errors, int text) {
  begin_kernel();
  with_bytes(bytes, [&](auto zero) {
    typedef decltype(zero) U;
    const i64 step = (i64)gridDim.x * blockDim.y;
    for (i64 row = (i64)blockIdx.x * blockDim.y + threadIdx.y; row < outer * count; row += step) {
      const i64 o = outer == 1 ? 0 : quotient(row, count);
      const i64 index = (i64)indices[row - o * count];
      const bool inside = index >= 0 && index < size;
      if (!inside && threadIdx.x == 0) note(errors, text, index);
      const U* from = (const U*)x + (o * size + index) * units;
      U* to = (U*)y + row * units;
      for (i64 i = threadIdx.x; i < units; i += blockDim.x) to[i] = inside ? from[i] : zero;
    }
  });
}

// y[o, j, i] = x[o, indices[o, j, i], i]
extern "C" __global__ void take(const void* x, const INDEX* indices, void* y, i64 total, i64 count, i64 size, i64 inner,
                                int bytes, u64* errors, int text) {
  begin_kernel();
  with_bytes(bytes, [&](auto zero) {
    typedef decltype(zero) U;
    const i64 step = (i64)gridDim.x * blockDim.x;
    for (i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x; at < total; at += step) {
      const i64 row = inner == 1 ? at : quotient(at, inner), o = quotient(row, count), i = at - row * inner;
      const i64 index = (i64)indices[at];
      const bool inside = holds(index, size, errors, text);
      ((U*)y)[at] = inside ? ((const U*)x)[(o * size + index) * inner + i] : zero;
    }
  });
}

// y[j, c] = 1 where c is index j; `one` has the bits of 1 in y's type. Indices are checked even without classes.
extern "C" __global__ void one_hot(const INDEX* indices, void* y, i64 count, i64 classes, u64 one, int bytes,
                                   u64* errors, int text) {
  begin_kernel();
  with_bytes(bytes, [&](auto zero) {
    typedef decltype(zero) U;
    const i64 step = (i64)gridDim.x * blockDim.x, width = classes > 0 ? classes : 1;
    for (i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x; at < count * width; at += step) {
      const i64 j = quotient(at, width), c = at - j * width;
      const i64 index = (i64)indices[j];
      if (c == 0) holds(index, classes, errors, text);
      if (classes > 0) ((U*)y)[at] = c == index ? (U)one : zero;
    }
  });
}
