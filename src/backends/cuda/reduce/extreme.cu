// argmax and argmin along an axis: NaN beats every number, the first of equals wins. Before it: T, the stored type; W,
// what it is compared as; LARGEST (1 or 0); LANES threads side by side; COLUMNS (1 or 0): those lie along the inner
// axis and the others of a block along the reduced one; otherwise they share a row, and the others take other rows.
#include "kernels/convert.cuh"
#include "kernels/last_block.cuh"

#include "generated.cuh"

struct Best {
  W value;
  i64 place;  // -1: nothing yet
};
__device__ __forceinline__ bool beats(const Best& a, const Best& b) {
  if (a.place < 0 || b.place < 0) return a.place >= 0;
  bool nan_a = a.value != a.value, nan_b = b.value != b.value;
  if (nan_a != nan_b) return nan_a;
  if (nan_a || a.value == b.value) return a.place < b.place;
  return LARGEST ? a.value > b.value : a.value < b.value;
}

struct Arguments {
  const T* x;
  i64* out;
  Best* scratch;  // [slices][outer · inner]
  u32* counters;
  i64 outer, size, inner;
  i64 slices, share;  // blocks along the reduced axis, and what each of them takes
};
extern "C" __global__ void __launch_bounds__(256) extreme(const __grid_constant__ Arguments g) {
  begin_kernel();
  constexpr int kFolded = COLUMNS ? 256 / LANES : LANES;  // threads that share an output …
  constexpr int kStride = COLUMNS ? LANES : 1;            // … and how far apart they are
  constexpr int kOutputs = 256 / kFolded;
  __shared__ Best all[256];
  i64 tile = (i64)blockIdx.x / g.slices, slice = (i64)blockIdx.x - tile * g.slices;
  int mine = COLUMNS ? threadIdx.x % LANES : threadIdx.x / LANES,
      part = COLUMNS ? threadIdx.x / LANES : threadIdx.x % LANES;
  i64 output = tile * kOutputs + mine, outputs = g.outer * g.inner;
  Best best = {(W)0, -1};
  if (output < outputs) {
    i64 o = output / g.inner, i = output - o * g.inner;
    const T* x = g.x + o * g.size * g.inner + i;
    i64 end = (slice + 1) * g.share < g.size ? (slice + 1) * g.share : g.size;
#pragma unroll 4
    for (i64 k = slice * g.share + part; k < end; k += kFolded) {
      Best other = {read<W>(x[k * g.inner]), k};
      if (beats(other, best)) best = other;
    }
  }
  auto fold = [&] {
    all[threadIdx.x] = best;
    for (int half = kFolded / 2; half > 0; half /= 2) {
      __syncthreads();
      if (part < half && beats(all[threadIdx.x + half * kStride], all[threadIdx.x]))
        all[threadIdx.x] = all[threadIdx.x + half * kStride];
    }
    best = all[threadIdx.x];
  };
  fold();
  if (g.slices > 1) {
    if (part == 0 && output < outputs) g.scratch[slice * outputs + output] = best;
    if (!is_last_block(g.counters + tile, (u32)g.slices)) return;
    best.place = -1;
    for (i64 s = part; s < g.slices && output < outputs; s += kFolded) {
      const volatile Best* other = g.scratch + s * outputs + output;
      Best copied = {other->value, other->place};
      if (beats(copied, best)) best = copied;
    }
    fold();
  }
  if (part == 0 && output < outputs) g.out[output] = best.place;
}
