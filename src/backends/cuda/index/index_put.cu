// y[o, indices[o, j, i], i] += updates[o, j, i], where there are few j: one thread for each o and i. y holds x already.
// ELEMENT: the type; INDEX: the type of indices.
#include "kernels/pack.cuh"

#include "generated.cuh"

typedef ELEMENT T;
typedef Wide<T>::type S;

extern "C" __global__ void put_few(const INDEX* indices, const T* updates, T* y, i64 columns, i64 inner, i64 size,
                                   int count, u64* errors, int text) {
  begin_kernel();
  const i64 step = (i64)gridDim.x * blockDim.x;
  for (i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x; at < columns; at += step) {
    const i64 o = at / inner, i = at - o * inner, first = o * count * inner + i;
    for (int j = 0; j < count; ++j) {
      const i64 index = (i64)indices[first + j * inner];
      if (index < 0 || index >= size) {
        note(errors, text, index);
        continue;
      }
      // All updates of a place are added at its first, so that the sum is rounded once.
      bool seen = false;
      for (int k = 0; k < j; ++k) seen |= (i64)indices[first + k * inner] == index;
      if (seen) continue;
      T* to = y + (o * size + index) * inner + i;
      S sum = widen<S>(*to);
      for (int k = j; k < count; ++k)
        if ((i64)indices[first + k * inner] == index) sum += widen<S>(updates[first + k * inner]);
      *to = narrow<T>(sum);
    }
  }
}
