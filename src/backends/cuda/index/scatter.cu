// Writing at positions that are tensors, from positions sorted by where they go (index_sort.cu): the first of those of
// one place takes them all in order, or the last one is assigned. y holds x already. ELEMENT: the type; ASSIGN,
// MAXIMUM, MINIMUM or PRODUCT: how an update joins what is there.
#include "kernels/pack.cuh"

#include "generated.cuh"

typedef ELEMENT T;
typedef Wide<T>::type S;

__device__ __forceinline__ S joined(S now, S update) {
#if defined(MAXIMUM)
  return update > now || update != update ? update : now;  // NaN wins
#elif defined(MINIMUM)
  return update < now || update != update ? update : now;
#else
  return (S)(now * update);
#endif
}

// y[key, :] is joined with updates[place, :] for the `positions` pairs (key, place), columns side by side.
extern "C" __global__ void write_sorted(const u32* keys, const u32* places, const T* updates, T* y, i64 positions,
                                        i64 rows, i64 inner) {
  begin_kernel();
  const i64 step = (i64)gridDim.x * blockDim.x;
  for (i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x; at < positions * inner; at += step) {
    const i64 p = at / inner, column = at - p * inner;
    const u32 key = keys[p];
    if ((i64)key >= rows) continue;  // noted by the sort
    T* to = y + (i64)key * inner + column;
#ifdef ASSIGN
    if (p + 1 < positions && keys[p + 1] == key) continue;
    *to = updates[(i64)places[p] * inner + column];
#else
    if (p > 0 && keys[p - 1] == key) continue;
    S value = widen<S>(*to);
    for (i64 q = p; q < positions && keys[q] == key; ++q)
      value = joined(value, widen<S>(updates[(i64)places[q] * inner + column]));
    *to = narrow<T>(value);
#endif
  }
}
