// Numbers of a stream. NUMBER: what they are stored as; OF: what is made of 32 bits.
#include "kernels/pack.cuh"
#include "kernels/philox.cuh"

#include "generated.cuh"

extern "C" __global__ void draw(NUMBER* out, i64 count, const i64* seed, const i64* counter, u64 stream, int wide) {
  begin_kernel();
  const RandomKey key = random_key(seed, counter, stream);
  const i64 step = (i64)gridDim.x * blockDim.x;
  for (i64 block = (i64)blockIdx.x * blockDim.x + threadIdx.x; 4 * block < count; block += step) {
    const FourWords words = philox((u64)block, key);
    Pack<NUMBER, 4> numbers;
#pragma unroll
    for (int i = 0; i < 4; ++i) numbers.at[i] = (NUMBER)OF(words.at[i]);
    store_pack<4>(out + 4 * block, numbers, count - 4 * block, wide);
  }
}
