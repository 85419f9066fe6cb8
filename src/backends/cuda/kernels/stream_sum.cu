// y[M,N] = the sum of parts[lanes][M,N], first to last, with what follows it (kernels/stream_after.cuh). N is a
// multiple of 4; with one part, y may lie where it lies.

extern "C" __global__ void stream_sum(const float* parts, const float* bias, float* y, i64 numbers, i64 n, int lanes) {
  const i64 at = ((i64)blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (at >= numbers) return;
  float sum[4] = {};
#pragma unroll 8
  for (int lane = 0; lane < lanes; ++lane) {
    const float4 part = *(const float4*)(parts + lane * numbers + at);
    sum[0] += part.x;
    sum[1] += part.y;
    sum[2] += part.z;
    sum[3] += part.w;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) sum[i] = finished(sum[i], bias, at % n + i);
  *(float4*)(y + at) = make_float4(sum[0], sum[1], sum[2], sum[3]);
}
