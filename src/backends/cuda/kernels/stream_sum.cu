// y[M,N] = the sum of parts[lanes][M,N], first to last, with what follows it (kernels/stream_after.cuh). N is a
// multiple of 4; with one part of type PART, y may lie where it lies.

template <class P>
struct __align__(4 * sizeof(P)) Four {
  P of[4];
};

extern "C" __global__ void stream_sum(const PART* parts, const T* bias, T* y, i64 numbers, i64 n, int lanes) {
  begin_kernel();
  const i64 at = ((i64)blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (at >= numbers) return;
  float sum[4] = {};
#pragma unroll 8
  for (int lane = 0; lane < lanes; ++lane) {
    const Four<PART> part = *(const Four<PART>*)(parts + lane * numbers + at);
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i] += widen<float>(part.of[i]);
  }
  Four<T> four;
#pragma unroll
  for (int i = 0; i < 4; ++i) four.of[i] = narrow<T>(finished(sum[i], bias, at % n + i));
  *(Four<T>*)(y + at) = four;
}
