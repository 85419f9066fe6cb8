// Cross entropy of logits and labels.
//   LABEL      type of the labels
//   LOSSES     a loss for each row is written
//   GRADIENT   the gradient of the logits is written, perhaps over them
//   DLOSS      what it is multiplied with: 0 the number `given`, 1 one element for all rows, 2 one for each
//   MEAN       the sum of all losses · factor / divisor is written, as a MEAN_TYPE, rounded to MEAN_VIA before
#include "kernels/last_block.cuh"
#include "kernels/rows.cuh"

// Whether this block is the last to bring its sum.
__device__ __forceinline__ bool bring(W x, W* parts, u32* arrived) {
  if (threadIdx.x == 0) parts[blockIdx.x] = x;
  return is_last_block(arrived, gridDim.x);
}
__device__ __forceinline__ W sum_of_blocks(const W* parts, W* shared) {
  W x = 0;
  for (u32 i = threadIdx.x; i < gridDim.x; i += BLOCK) x += __ldcg(parts + i);
  return block_sum(x, shared);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    cross_entropy(const T* logits, const LABEL* labels, const T* dloss, double given, T* losses, T* dlogits,
                  MEAN_TYPE* mean, double factor, double divisor, W* parts, u32* arrived, u64* errors, int text,
                  i64 rows, i64 columns, int aligned) {
  begin_kernel();
  __shared__ W shared[4][32];
  W total = 0;
  bool adds = false;  // this block adds up what all have brought
  for (i64 first = (i64)blockIdx.x * kTeams; first < rows; first += (i64)gridDim.x * kTeams) {
    const i64 row = first + team_number(), at = row * columns, n = row < rows ? columns : 0;
    const i64 label = n ? (i64)labels[row] : 0;
    const bool known = n && label >= 0 && label < columns;
    const W target = known ? widen<W>(logits[at + label]) : not_a_number();
    const W scale = DLOSS == 0 ? (W)given : n ? widen<W>(dloss[DLOSS == 1 ? 0 : row]) : (W)0;
    W values[kItems][VEC];
    W most = -infinity();
    if (kKept) each_pack(n, [&](int i, i64 column) { load_pack(logits + at + column, aligned, values[i]); });
    each_pack(n, [&](int i, i64 column) {
      if (!kKept) load_pack(logits + at + column, aligned, values[i]);
#pragma unroll
      for (int v = 0; v < VEC; ++v) most = fmax(most, values[i][v]);
    });
    team_barrier();  // the target is read before the gradient is written over it
    most = team_max(most, shared[0]);
    W sum = 0;
    each_pack(n, [&](int i, i64 column) {
      if (!kKept) load_pack(logits + at + column, aligned, values[i]);
#pragma unroll
      for (int v = 0; v < VEC; ++v) {
        values[i][v] = exponential(values[i][v] - most);
        sum += values[i][v];
      }
    });
    sum = team_sum(sum, shared[1]);
    const W log_p = target - most - log(sum);  // NaN for an unknown label
    if (n && team_lane() == 0) {
      if (!known) note(errors, text, label);
      const T loss = narrow<T>(-log_p);
      if (LOSSES) losses[row] = loss;
      total += widen<W>(loss);
    }
    // Nobody has to wait for the last gradient to learn of the losses.
    if (MEAN && first + (i64)gridDim.x * kTeams >= rows) {
      total = block_sum(total, shared[2]);
      adds = gridDim.x == 1 || bring(total, parts, arrived);
    }
    if (GRADIENT) {
      const W weight = known ? scale / sum : not_a_number();
      each_pack(n, [&](int i, i64 column) {
        if (!kKept) load_pack(logits + at + column, aligned, values[i]);
#pragma unroll
        for (int v = 0; v < VEC; ++v) values[i][v] = (kKept ? values[i][v] : exponential(values[i][v] - most)) * weight;
        store_pack(dlogits + at + column, aligned, values[i]);
        // p - 1 without cancellation for a class that is almost certain
        if (known && label >= column && label < column + VEC) dlogits[at + label] = narrow<T>((W)expm1(log_p) * scale);
      });
    }
    team_barrier();  // `shared` is used again
  }
  if (MEAN && adds) {
    if (gridDim.x > 1) total = sum_of_blocks(parts, shared[3]);
    if (threadIdx.x == 0) *mean = narrow<MEAN_TYPE>(widen<W>(narrow<MEAN_VIA>(total * (W)factor / (W)divisor)));
  }
}
