// The gradient of a recurrent layer, from its last step to its first. A thread has some units of some sequences: what
// flows back through their states stays in its registers. The gates' gradients of a block's own units are multiplied by
// their weights for all states; blocks of a group then exchange these partial sums.
#include "recurrent/recurrent.cuh"
#if defined(TENSOR_TF32) || defined(TENSOR_BF16) || defined(TENSOR_F16)
#include "recurrent/recurrent_backward_tensor_core.cuh"
#else
#include "recurrent/recurrent_backward_plain.cuh"
#endif

struct Backward {
  const STORE *hidden, *h0, *c0, *y, *gates, *cells;  // as the forward pass had and left them; h0, c0 null: zero
  const STORE *dy, *dh, *dc;                          // null: zero
  const LENGTH* lengths;                              // null: all sequences have all steps
  STORE *dpre, *dshare, *dh0, *dc0;                   // dh0 and dc0 may be null
  u64* mail;
  REAL* bias_parts;  // [groups · ROWS, COLUMNS]: sums of dpre, where BIAS is wanted
  int steps, batch;
};

#ifdef CELL_LSTM
#define FIRST_STATE a.c0
#else
#define FIRST_STATE a.h0
#endif

// What is known of one unit at one step.
struct Known {
  REAL kept[KEPT + 1], before, dy;  // before: the cell of an LSTM, the state of a GRU; a plain one keeps its output
};

// One unit of one sequence. Everything in memory is reached by pointers that move back a step at a time; what is known
// of a step is loaded one step before its use.
struct Thread {
  int sequence, length;
  REAL dh, dc, cell;  // cell: of an LSTM, after the step
  Known ahead;
  const STORE *gates, *states, *dy;  // states: cells of an LSTM, outputs of the others
  STORE *dpre, *dshare;

  __device__ __forceinline__ void start(const Backward& a, int unit) {
    const i64 place = (i64)sequence * WIDTH + unit;
    length = steps_of(a.lengths, sequence, a.steps);
    dh = a.dh ? widen<REAL>(a.dh[place]) : (REAL)0;
    dc = a.dc ? widen<REAL>(a.dc[place]) : (REAL)0;
    const i64 last = (i64)(a.steps - 1) * a.batch + sequence;
    gates = a.gates + last * (KEPT * WIDTH) + unit;
    dy = a.dy + last * WIDTH + unit;
    dpre = a.dpre + last * COLUMNS + unit;
    dshare = a.dshare + last * COLUMNS + unit;
#ifdef CELL_LSTM
    states = a.cells + last * WIDTH + unit;
    if (a.steps > 0) cell = widen<REAL>(*states);
#else
    states = a.y + last * WIDTH + unit;
#endif
    if (a.steps > 0) load(a, a.steps - 1, unit);
  }
  __device__ __forceinline__ void load(const Backward& a, int t, int unit) {
#if KEPT > 0
#pragma unroll
    for (int i = 0; i < KEPT; ++i) ahead.kept[i] = widen<REAL>(gates[i * WIDTH]);
    gates -= (i64)a.batch * (KEPT * WIDTH);
    // States are stored after each step; the one before the first stands alone.
    states -= (i64)a.batch * WIDTH;
    if (t > 0)
      ahead.before = widen<REAL>(*states);
    else
      ahead.before = FIRST_STATE ? widen<REAL>(FIRST_STATE[(i64)sequence * WIDTH + unit]) : (REAL)0;
#else
    ahead.kept[0] = widen<REAL>(*states);
    states -= (i64)a.batch * WIDTH;
#endif
    ahead.dy = a.dy ? widen<REAL>(*dy) : (REAL)0;
    dy -= (i64)a.batch * WIDTH;
  }

  // The gradients of the gates before their activation, and of their hidden share. Leaves in dh what flows past the
  // product to the state before.
  __device__ __forceinline__ void step(const Backward& a, int t, const Known& now, REAL (&share)[GATES],
                                       REAL (&bias)[GATES]) {
    REAL pre[GATES];
#pragma unroll
    for (int g = 0; g < GATES; ++g) pre[g] = share[g] = 0;
    if (t < length) {
      const REAL all = dh + now.dy;
      dh = 0;
#if defined(CELL_LSTM)
      const REAL i = now.kept[0], f = now.kept[1], g = now.kept[2], o = now.kept[3], tanh_c = tanh_of(cell);
      const REAL d = dc + all * o * (1 - tanh_c * tanh_c);
      pre[0] = d * g * i * (1 - i);
      pre[1] = d * now.before * f * (1 - f);
      pre[2] = d * i * (1 - g * g);
      pre[3] = all * tanh_c * o * (1 - o);
      dc = d * f;
#elif defined(CELL_GRU)
      const REAL r = now.kept[0], z = now.kept[1], n = now.kept[2];
      const REAL dn = all * (1 - z) * (1 - n * n);
      pre[0] = dn * now.kept[3] * r * (1 - r);
      pre[1] = all * (now.before - n) * z * (1 - z);
      pre[2] = dn;
      dh = all * z;
#elif defined(RELU)
      pre[0] = now.kept[0] > 0 ? all : (REAL)0;
#else
      pre[0] = all * (1 - now.kept[0] * now.kept[0]);
#endif
#pragma unroll
      for (int g = 0; g < GATES; ++g) share[g] = pre[g];
#ifdef CELL_GRU
      share[2] = dn * r;
#endif
    }
    cell = now.before;
#ifdef BIAS
#pragma unroll
    for (int g = 0; g < GATES; ++g) bias[g] += pre[g];
#endif
#pragma unroll
    for (int g = 0; g < GATES; ++g) dpre[g * WIDTH] = narrow<STORE>(pre[g]);
    dpre -= (i64)a.batch * COLUMNS;
#ifdef CELL_GRU
#pragma unroll
    for (int g = 0; g < GATES; ++g) dshare[g * WIDTH] = narrow<STORE>(share[g]);
    dshare -= (i64)a.batch * COLUMNS;
#endif
  }
  __device__ __forceinline__ void finish(const Backward& a, int unit) const {
    const i64 place = (i64)sequence * WIDTH + unit;
    if (a.dh0) a.dh0[place] = narrow<STORE>(dh);
    if (a.dc0) a.dc0[place] = narrow<STORE>(dc);
  }
};

#define PAIRS ((UNITS * ROWS + THREADS - 1) / THREADS)

extern "C" __global__ void __launch_bounds__(THREADS, 1) recurrent_backward(const Backward a) {
  begin_kernel();
  extern __shared__ __align__(16) unsigned char shared[];
  OPERAND* const gradients = (OPERAND*)((REAL*)shared + SHARED_WEIGHTS);  // of this block's gates, for all sequences
#if GROUP == 1
  REAL* const sums = (REAL*)(gradients + GRADIENTS);  // PARTS of [ROWS, WIDTH]
#endif
  const int member = (int)blockIdx.x % GROUP, first_unit = member * UNITS;
  Product product;
  product.load(a.hidden, first_unit, (REAL*)shared);
  const int groups = (int)gridDim.x / GROUP, group = (int)blockIdx.x / GROUP;
#if GROUP > 1
  u32* const count = (u32*)a.mail + blockIdx.x;
  u32 exchange = *count;
  constexpr int letter = UNITS * ROWS;  // from one block to one other
  u64* const mail = a.mail + gridDim.x + (i64)group * (2 * GROUP * GROUP * letter);
#endif
  for (int i = threadIdx.x; i < GRADIENTS; i += THREADS) gradients[i] = operand(0);
  __syncthreads();
  REAL bias[PAIRS][GATES];
#pragma unroll
  for (int p = 0; p < PAIRS; ++p)
#pragma unroll
    for (int g = 0; g < GATES; ++g) bias[p][g] = 0;
  for (int first = group * ROWS; first < a.batch; first += groups * ROWS) {
    Thread own[PAIRS];
    int unit[PAIRS];  // within this block
    bool there[PAIRS];
#pragma unroll
    for (int p = 0; p < PAIRS; ++p) {
      const int pair = (int)threadIdx.x + p * THREADS;
      own[p].sequence = first + pair / UNITS;
      unit[p] = pair % UNITS;
      there[p] = pair < UNITS * ROWS && first_unit + unit[p] < WIDTH && own[p].sequence < a.batch;
      if (there[p]) own[p].start(a, first_unit + unit[p]);
    }
    for (int t = a.steps - 1; t >= 0; --t) {
#pragma unroll
      for (int p = 0; p < PAIRS; ++p) {
        if (!there[p]) continue;
        const Known now = own[p].ahead;
        if (t > 0) own[p].load(a, t - 1, first_unit + unit[p]);
        REAL share[GATES];
        own[p].step(a, t, now, share, bias[p]);
#pragma unroll
        for (int g = 0; g < GATES; ++g)
          gradients[gradient_at(g * UNITS + unit[p], own[p].sequence - first)] = operand(share[g]);
      }
      __syncthreads();
      REAL sum[GIVEN];
      product.multiply(gradients, sum);
#if GROUP > 1
      ++exchange;
      u64* const box = mail + (exchange & 1) * (GROUP * GROUP * letter);
#endif
#pragma unroll
      for (int p = 0; p < GIVEN; ++p) {
        if (!product.gives(p)) continue;
        const int state = product.state(p), row = product.row(p);
#if GROUP > 1
        const int to = state / UNITS;
        send(box + (to * GROUP + member) * letter + row * UNITS + state % UNITS, sum[p], exchange);
#else
        sums[(product.part() * ROWS + row) * WIDTH + state] = sum[p];
#endif
      }
      __syncthreads();
#pragma unroll
      for (int p = 0; p < PAIRS; ++p) {
        if (!there[p]) continue;
        const int row = own[p].sequence - first;
        REAL flowing = 0;
#if GROUP > 1
        const u64* const letters = box + member * GROUP * letter + row * UNITS + unit[p];
        constexpr int most = GROUP < 16 ? GROUP : 16;  // at a time: all are in flight before the first is looked at
        for (int from = 0; from < GROUP; from += most) {
          const int count = min(most, GROUP - from);
          float parts[most];
          receive(letters + from * letter, letter, count, exchange, parts);
#pragma unroll
          for (int i = 0; i < most; ++i) flowing += i < count ? parts[i] : 0;
        }
#else
#pragma unroll
        for (int i = 0; i < PARTS; ++i) flowing += sums[(i * ROWS + row) * WIDTH + unit[p]];
#endif
        if (t < own[p].length) own[p].dh += flowing;
      }
    }
#pragma unroll
    for (int p = 0; p < PAIRS; ++p)
      if (there[p]) own[p].finish(a, first_unit + unit[p]);
  }
#ifdef BIAS
#pragma unroll
  for (int p = 0; p < PAIRS; ++p) {
    const int pair = (int)threadIdx.x + p * THREADS, unit = first_unit + pair % UNITS;
    if (pair >= UNITS * ROWS || unit >= WIDTH) continue;
    REAL* const part = a.bias_parts + (group * ROWS + pair / UNITS) * COLUMNS + unit;
#pragma unroll
    for (int g = 0; g < GATES; ++g) part[g * WIDTH] = bias[p][g];
  }
#endif
#if GROUP > 1
  if (threadIdx.x == 0) *count = exchange;
#endif
}
