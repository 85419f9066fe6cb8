// The gradient of layer norm, elements in registers.
//   ADDED      `other` is added to dx
//   SUMMED     the columns of dx are summed too, as a bias wants them: in SUM_TYPE, rounded to T before
#include "kernels/rows.cuh"

constexpr int kSums = SUMMED ? 3 : 2;  // arrays of column sums: dgain, dbias, dx

// The sums of a column as it is stored, in whatever array.
template <class E>
__device__ __forceinline__ E stored(W sum) {
  return narrow<E>(sum);
}
struct Total {  // an element of the sums of dx
  SUM_TYPE value;
};
template <>
__device__ __forceinline__ Total stored<Total>(W sum) {
  return {narrow<SUM_TYPE>(widen<W>(narrow<T>(sum)))};
}

// The columns of all teams of this block, in order.
template <class E>
__device__ __forceinline__ void write_columns(const W (&sums)[kItems][VEC], E* to, i64 columns) {
  extern __shared__ char memory[];
  W* parts = (W*)memory;  // [teams, columns]
  each_pack(columns, [&](int i, i64 column) {
#pragma unroll
    for (int v = 0; v < VEC; ++v) {
      if (kTeams == 1)
        to[column + v] = stored<E>(sums[i][v]);
      else
        parts[team_number() * columns + column + v] = sums[i][v];
    }
  });
  if (kTeams == 1) return;
  __syncthreads();
  for (i64 column = threadIdx.x; column < columns; column += BLOCK) {
    W sum = 0;
    for (int team = 0; team < kTeams; ++team) sum += parts[team * columns + column];
    to[column] = stored<E>(sum);
  }
  __syncthreads();
}

// x̂ = (x - mean)·rstd, g = dy·gain: dx = rstd·(g - mean(g) - x̂·mean(g·x̂)). Over the rows of this block, dgain = Σ dy·x̂
// and dbias = Σ dy go to its part of `sums` [blocks, kSums, columns]; a single
// block has them all and writes them where they belong.
extern "C" __global__ void __launch_bounds__(BLOCK)
    layer_norm_grad(const T* x, const T* dy, const W* gain, const W* means, const W* rstds, const T* other, T* dx,
                    W* sums, W* dgains, W* dbiases, Total* totals, i64 rows, i64 columns, int aligned) {
  begin_kernel();
  __shared__ W shared[2][32];
  W dgain[kItems][VEC], dbias[kItems][VEC], total[kItems][VEC];
#pragma unroll
  for (int i = 0; i < kItems; ++i)
#pragma unroll
    for (int v = 0; v < VEC; ++v) dgain[i][v] = dbias[i][v] = total[i][v] = 0;
  for (i64 first = (i64)blockIdx.x * kTeams; first < rows; first += (i64)gridDim.x * kTeams) {
    const i64 row = first + team_number(), at = row * columns, n = row < rows ? columns : 0;
    const W mean = n ? means[row] : (W)0, rstd = n ? rstds[row] : (W)0;
    W normal[kItems][VEC], g[kItems][VEC];
    W sum = 0, dot = 0;
    each_pack(n, [&](int i, i64 column) {
      load_pack(x + at + column, aligned, normal[i]);
      load_pack(dy + at + column, aligned, g[i]);
    });
    each_pack(n, [&](int i, i64 column) {
      W gains[VEC];
      load_pack(gain + column, aligned, gains);
#pragma unroll
      for (int v = 0; v < VEC; ++v) {
        normal[i][v] = (normal[i][v] - mean) * rstd;
        dgain[i][v] += g[i][v] * normal[i][v];
        dbias[i][v] += g[i][v];
        g[i][v] *= gains[v];
        sum += g[i][v];
        dot += g[i][v] * normal[i][v];
      }
    });
    sum = team_sum(sum, shared[0]) / (W)columns;
    dot = team_sum(dot, shared[1]) / (W)columns;
    each_pack(n, [&](int i, i64 column) {
      W more[VEC];
      if (ADDED) load_pack(other + at + column, aligned, more);
#pragma unroll
      for (int v = 0; v < VEC; ++v) {
        W& value = g[i][v];
        value = rstd * (value - sum - normal[i][v] * dot);
        // The two are added as they would be stored.
        if (ADDED) value = widen<W>(narrow<T>(value)) + more[v];
        if (SUMMED) total[i][v] += widen<W>(narrow<T>(value));
      }
      store_pack(dx + at + column, aligned, g[i]);
    });
    team_barrier();  // `shared` is used again
  }
  W* part = sums + (i64)blockIdx.x * kSums * columns;
  const bool all = gridDim.x == 1;
  write_columns(dgain, all ? dgains : part, columns);
  write_columns(dbias, all ? dbiases : part + columns, columns);
  if (SUMMED && all) write_columns(total, totals, columns);
  if (SUMMED && !all) write_columns(total, part + 2 * columns, columns);
}

// The sums of all blocks, 32 columns at a time: [parts, kSums, columns] -> dgain, dbias, dx.
extern "C" __global__ void __launch_bounds__(512)
    layer_norm_grad_columns(const W* sums, W* dgains, W* dbiases, Total* totals, i64 parts, i64 columns) {
  begin_kernel();
  __shared__ W shared[16][32];
  const i64 column = (i64)blockIdx.x * 32 + threadIdx.x;
  W sum = 0;
  if (column < kSums * columns)
    for (i64 part = threadIdx.y; part < parts; part += 16) sum += sums[part * kSums * columns + column];
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= kSums * columns) return;
#pragma unroll
  for (int y = 1; y < 16; ++y) sum += shared[y][threadIdx.x];
  if (column < 2 * columns)
    (column < columns ? dgains : dbiases - columns)[column] = sum;
  else
    totals[column - 2 * columns] = stored<Total>(sum);
}
