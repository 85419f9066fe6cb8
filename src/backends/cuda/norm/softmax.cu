// Softmax of rows, and its gradient. LOG: the logarithm of it.
#include "kernels/rows.cuh"

// y = exp(x - most) / Σ exp(x - most): the largest exponential is 1 and none overflows.
extern "C" __global__ void __launch_bounds__(BLOCK)
    softmax_rows(const T* from, T* to, i64 rows, i64 columns, int aligned) {
  begin_kernel();
  __shared__ W shared[2][32];
  const i64 row = (i64)blockIdx.x * kTeams + team_number(), at = row * columns, n = row < rows ? columns : 0;
  W values[kItems][VEC];
  W most = -infinity();
  if (kKept) each_pack(n, [&](int i, i64 column) { load_pack(from + at + column, aligned, values[i]); });
  each_pack(n, [&](int i, i64 column) {
    if (!kKept) load_pack(from + at + column, aligned, values[i]);
#pragma unroll
    for (int v = 0; v < VEC; ++v) most = fmax(most, values[i][v]);
  });
  most = team_max(most, shared[0]);
  W sum = 0;
  each_pack(n, [&](int i, i64 column) {
    if (!kKept) load_pack(from + at + column, aligned, values[i]);
#pragma unroll
    for (int v = 0; v < VEC; ++v) {
      const W e = exponential(values[i][v] - most);
      if (!LOG) values[i][v] = e;
      sum += e;
    }
  });
  sum = team_sum(sum, shared[1]);
  const W factor = 1 / sum, log_sum = log(sum);
  each_pack(n, [&](int i, i64 column) {
    if (!kKept) load_pack(from + at + column, aligned, values[i]);
#pragma unroll
    for (int v = 0; v < VEC; ++v) {
      W& value = values[i][v];
      if (LOG)
        value = value - most - log_sum;
      else
        value = (kKept ? value : exponential(value - most)) * factor;
    }
    store_pack(to + at + column, aligned, values[i]);
  });
}

// dx = y · (dy - Σ dy·y)
extern "C" __global__ void __launch_bounds__(BLOCK)
    softmax_rows_grad(const T* y, const T* dy, T* dx, i64 rows, i64 columns, int aligned) {
  begin_kernel();
  __shared__ W shared[32];
  const i64 row = (i64)blockIdx.x * kTeams + team_number(), at = row * columns, n = row < rows ? columns : 0;
  W ys[kItems][VEC], dys[kItems][VEC];
  W dot = 0;
  auto load_both = [&](int i, i64 column) {
    load_pack(y + at + column, aligned, ys[i]);
    load_pack(dy + at + column, aligned, dys[i]);
  };
  if (kKept) each_pack(n, load_both);
  each_pack(n, [&](int i, i64 column) {
    if (!kKept) load_both(i, column);
#pragma unroll
    for (int v = 0; v < VEC; ++v) dot += ys[i][v] * dys[i][v];
  });
  dot = team_sum(dot, shared);
  each_pack(n, [&](int i, i64 column) {
    if (!kKept) load_both(i, column);
#pragma unroll
    for (int v = 0; v < VEC; ++v) ys[i][v] *= dys[i][v] - dot;
    store_pack(dx + at + column, aligned, ys[i]);
  });
}
