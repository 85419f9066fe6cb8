// Values of several parts on their way to other ranks, or back, in one launch: from one type to another, or to whole
// numbers that compare as the values do (with NaN at the end that wins) and back. Before it: FROM and TO; WIDE, the
// type in between; KEYS (0: none, 1: to such numbers, 2: back), KEY and VALUE, the C++ types of both, NAN_KEY; PARTS.
#include "kernels/convert.cuh"

#include "generated.cuh"

struct Part {
  const FROM* from;
  TO* to;
  i64 count;
};
struct Arguments {
  u32 ends[(PARTS + 1) / 2 * 2];  // blocks of the parts up to this one
  Part parts[PARTS];
};

#if KEYS
union Bits {
  KEY key;
  VALUE value;
};
// The order of the bits of positive numbers is that of the numbers; of negative ones it is the other way round.
__device__ __forceinline__ KEY turned(KEY bits) {
  const KEY sign = bits < 0 ? (KEY)-1 : (KEY)0;
  return bits ^ (sign & (KEY)LARGEST);
}
#endif

__device__ __forceinline__ TO converted(FROM x) {
#if KEYS == 1
  Bits bits;
  bits.value = read<VALUE>(x);
  return bits.value != bits.value ? (KEY)NAN_KEY : turned(bits.key);
#elif KEYS == 2
  Bits bits;
  bits.key = turned(x);
  return write<TO>(bits.value);
#else
  return write<TO>(read<WIDE>(x));
#endif
}

extern "C" __global__ void __launch_bounds__(256) convert_parts(const __grid_constant__ Arguments g) {
  begin_kernel();
  int number = 0;
  for (int many = PARTS; many > 1;) {  // the first part that ends beyond this block
    int half = many / 2;
    if (g.ends[number + half - 1] <= blockIdx.x) {
      number += half;
      many -= half;
    } else {
      many = half;
    }
  }
  const Part& part = g.parts[number];
  const u32 block = blockIdx.x - (number > 0 ? g.ends[number - 1] : 0);
  const i64 first = (i64)block * (256 * 4) + threadIdx.x;
  FROM x[4];
#pragma unroll
  for (int u = 0; u < 4; ++u)
    if (first + u * 256 < part.count) x[u] = part.from[first + u * 256];
#pragma unroll
  for (int u = 0; u < 4; ++u)
    if (first + u * 256 < part.count) part.to[first + u * 256] = converted(x[u]);
}
