// Layer norm, and RMS norm, of rows.
//   CENTRED    layer norm; otherwise RMS norm, which takes no mean
//   ADDED      forward: of x + other, which is written too; gradient: `other` is added to dx
#include "kernels/rows.cuh"

// What the norm is taken of: a sum as it is stored.
__device__ __forceinline__ void load_values(const T* x, const T* other, bool aligned, W (&values)[VEC]) {
  load_pack(x, aligned, values);
  if (!ADDED) return;
  W more[VEC];
  load_pack(other, aligned, more);
#pragma unroll
  for (int v = 0; v < VEC; ++v) values[v] = widen<W>(narrow<T>(values[v] + more[v]));
}

// y = (x - mean)·rstd·gain + bias, rstd = 1 / √(variance + ε)
extern "C" __global__ void __launch_bounds__(BLOCK)
    norm_rows(const T* x, const T* other, const W* gain, const W* bias, T* sums, T* y, W* means, W* rstds,
              double epsilon, i64 rows, i64 columns, int aligned) {
  begin_kernel();
  __shared__ W shared[2][32];
  const i64 row = (i64)blockIdx.x * kTeams + team_number(), at = row * columns, n = row < rows ? columns : 0;
  W values[kItems][VEC];
  W mean = 0;
  auto load_both = [&](int i, i64 column) { load_values(x + at + column, other + at + column, aligned, values[i]); };
  if (kKept) each_pack(n, load_both);
  if (CENTRED)
    each_pack(n, [&](int i, i64 column) {
      if (!kKept) load_both(i, column);
#pragma unroll
      for (int v = 0; v < VEC; ++v) mean += values[i][v];
    });
  mean = CENTRED ? team_sum(mean, shared[0]) / (W)columns : (W)0;
  W squares = 0;
  each_pack(n, [&](int i, i64 column) {
    if (!kKept) load_both(i, column);
#pragma unroll
    for (int v = 0; v < VEC; ++v) squares += (values[i][v] - mean) * (values[i][v] - mean);
  });
  const W rstd = 1 / sqrt(team_sum(squares, shared[1]) / (W)columns + (W)epsilon);
  each_pack(n, [&](int i, i64 column) {
    W gains[VEC], biases[VEC];
    load_pack(gain + column, aligned, gains);
    if (CENTRED) load_pack(bias + column, aligned, biases);
    if (!kKept) load_both(i, column);
    if (ADDED) store_pack(sums + at + column, aligned, values[i]);
#pragma unroll
    for (int v = 0; v < VEC; ++v) values[i][v] = (values[i][v] - mean) * rstd * gains[v] + (CENTRED ? biases[v] : (W)0);
    store_pack(y + at + column, aligned, values[i]);
  });
  if (n && team_lane() == 0) {
    if (CENTRED) means[row] = mean;
    rstds[row] = rstd;
  }
}
