// Dropout in one pass: the mask is drawn where it is used and never stored. ELEMENT: the type of all tensors; PER:
// elements at a time, a multiple of 4. OTHER, where defined: what becomes of a dropped number d beside an element o of
// `other`.
#include "kernels/pack.cuh"
#include "kernels/philox.cuh"

#include "generated.cuh"

typedef ELEMENT T;
typedef Wide<T>::type S;

extern "C" __global__ void drop(const T* x, const T* other, T* out, i64 count, const i64* seed, const i64* counter,
                                u64 stream, float rate, double kept, int wide) {
  begin_kernel();
  const RandomKey key = random_key(seed, counter, stream);
  const Dropout<S> dropout(rate, kept);
  const i64 step = (i64)gridDim.x * blockDim.x * PER;
  for (i64 first = ((i64)blockIdx.x * blockDim.x + threadIdx.x) * PER; first < count; first += step) {
    Pack<T, PER> numbers = load_pack<PER>(x + first, count - first, wide);
#ifdef OTHER
    const Pack<T, PER> beside = load_pack<PER>(other + first, count - first, wide);
#endif
#pragma unroll
    for (int four = 0; four < PER; four += 4) {
      const FourWords words = philox((u64)(first + four) / 4, key);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const S d = dropout(widen<S>(numbers.at[four + i]), words.at[i]);
#ifdef OTHER
        const S o = widen<S>(beside.at[four + i]);
        numbers.at[four + i] = narrow<T>(OTHER);
#else
        numbers.at[four + i] = narrow<T>(d);
#endif
      }
    }
    store_pack<PER>(out + first, numbers, count - first, wide);
  }
}
