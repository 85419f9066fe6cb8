// y[j, :] = table[indices[j], :] with what follows. FROM, TO: the types of table and y; INDEX: of indices; VEC columns
// at a time where rows lie well, else one. ADD: plus rows that repeat, then, DROPOUT. Every step is rounded as if it
// were stored. Blocks of threads: along a row, by rows. An index out of range is noted and gives 0 in place of its row.
#include "kernels/pack.cuh"
#include "kernels/philox.cuh"

#include "generated.cuh"

typedef Wide<FROM>::type S;
typedef Wide<TO>::type W;

struct Embedding {
  const FROM* table;
  const INDEX* indices;
  const TO* added;
  TO* y;
  i64 count, size, width, added_rows;
  u64* errors;
  int text;
  Drop drop;
};

template <int N>
__device__ __forceinline__ void embed_rows(const Embedding& e) {
#ifdef DROPOUT
  const RandomKey key = random_key(e.drop.seed, e.drop.counter, e.drop.stream);
  const Dropout<W> dropout(e.drop.rate, e.drop.kept);
#endif
  const i64 step = (i64)gridDim.x * blockDim.y;
  for (i64 row = (i64)blockIdx.x * blockDim.y + threadIdx.y; row < e.count; row += step) {
    const i64 index = (i64)e.indices[row];
    const bool inside = index >= 0 && index < e.size;
    if (!inside && threadIdx.x == 0) note(e.errors, e.text, index);
    for (i64 column = (i64)threadIdx.x * N; column < e.width; column += (i64)blockDim.x * N) {
      Pack<FROM, N> from = {};
      if (inside) from = *(const Pack<FROM, N>*)(e.table + index * e.width + column);
      W values[N];
#pragma unroll
      for (int i = 0; i < N; ++i) values[i] = widen<W>(narrow<TO>(widen<S>(from.at[i])));
#ifdef ADD
      const Pack<TO, N> added = *(const Pack<TO, N>*)(e.added + row % e.added_rows * e.width + column);
#pragma unroll
      for (int i = 0; i < N; ++i) values[i] = widen<W>(narrow<TO>(values[i] + widen<W>(added.at[i])));
#endif
#ifdef DROPOUT
      drop_some<N>(values, row * e.width + column, dropout, key);
#endif
      Pack<TO, N> result;
#pragma unroll
      for (int i = 0; i < N; ++i) result.at[i] = narrow<TO>(values[i]);
      *(Pack<TO, N>*)(e.y + row * e.width + column) = result;
    }
  }
}

extern "C" __global__ void embed(Embedding e) {
  begin_kernel();
  embed_rows<VEC>(e);
}
extern "C" __global__ void embed_singly(Embedding e) {
  begin_kernel();
  embed_rows<1>(e);
}
